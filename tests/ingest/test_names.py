"""Keys and categories that are listed without reading an image are those that the samples have."""

from pathlib import Path

import pyarrow as pa
import pytest

from ingest.formats import FORMATS, Source, open_source
from tests.ingest.made import jpeg, parquet_file, samples_of, tar_bytes

DEMO = Path(__file__).parents[2] / "jobs/demo/corpus"


def _tar(folder: Path) -> Path:
    members = [("a/1.jpg", jpeg(1)), ("a/1.cls", b"3\n"), ("2.jpg", jpeg(2)), ("2.json", b'{"category": "b", "n": 1}')]
    content = tar_bytes([*members, ("3.txt", b"no image"), ("4\x1b.jpg", jpeg(4)), ("5.jpg", jpeg(5))])
    (folder / "0.tar").write_bytes(content[:-3000])  # the last sample is cut
    return folder / "0.tar"


def _table(folder: Path) -> Path:
    table = pa.table({"image": [jpeg(1), None, jpeg(3)], "path": ["x/1", "2", None], "category": ["a", None, "c"]})
    parquet_file(folder / "0.parquet", table, rows=2)
    return folder / "0.parquet"


def _struct(folder: Path) -> Path:
    images = [{"bytes": jpeg(1), "path": "one.jpg"}, {"bytes": jpeg(2), "path": None}, None]
    parquet_file(folder / "0.parquet", pa.table({"image": images}))
    return folder / "0.parquet"


def _damaged(folder: Path) -> Path:
    (folder / "0.parquet").write_bytes(b"PAR1 no more")
    return folder / "0.parquet"


def _unlike(folder: Path) -> Path:
    parquet_file(folder / "0.parquet", pa.table({"image": [jpeg(1)]}))
    parquet_file(folder / "1.parquet", pa.table({"no_image": [1]}))
    return folder


@pytest.mark.parametrize("make", [_tar, _table, _struct, _damaged, _unlike])
def test_names_are_those_of_the_samples(make: object, tmp_path: Path) -> None:
    assert callable(make)
    _refuse_other_names(open_source(str(make(tmp_path)), None, None))


@pytest.mark.parametrize("name", ["tree", "shards"])
def test_names_are_those_of_the_demo_corpus(name: str) -> None:
    _refuse_other_names(open_source(str(DEMO / name), None, None))


def test_of_two_members_the_named_field_gives_the_category(tmp_path: Path) -> None:
    members = [("1.jpg", jpeg(1)), ("1.cls", b"3"), ("1.json", b'{"scene": "hall"}')]
    (tmp_path / "0.tar").write_bytes(tar_bytes(members))
    for category, expected in ((None, "3"), ("cls", "3"), ("scene", "hall")):
        source = open_source(str(tmp_path / "0.tar"), None, category)
        assert list(source.categories("0.tar")) == [expected]
        _refuse_other_names(source)


def _refuse_other_names(source: Source) -> None:
    listed = [pair for s in source.shards for pair in FORMATS[source.format].names(source.root, s, source.category)]
    assert listed == [(sample.key, sample.category) for sample in samples_of(source)]
    assert listed
