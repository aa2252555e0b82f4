"""Categories of a scan: names that no sample has, and samples that name two."""

from pathlib import Path

from ingest.formats import webdataset
from ingest.storage.place import place
from tests.jobs.made import jpeg, tar


def test_fields_are_named_where_there_are_any(tmp_path: Path) -> None:
    tar(tmp_path / "0.tar", {"1.jpg": jpeg(1), "1.json": b"[1]", "2.json": b'{"a\\nb": 1}', "3.json": b'{"c": 1}'})
    tar(tmp_path / "1.tar", {"1.jpg": jpeg(1), "1.json": b"{"})
    assert webdataset.category_probe(place(str(tmp_path)), "0.tar", "c").fields == ["a\\nb", "c"]
    assert webdataset.category_probe(place(str(tmp_path)), "1.tar", None).fields == []
