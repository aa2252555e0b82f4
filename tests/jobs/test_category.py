"""Categories of a scan: names that no sample has, and samples that name two."""

import json
from pathlib import Path

import pytest

from ingest.formats import webdataset
from ingest.storage.place import place
from tests.jobs.made import jpeg, privsieve, rows, tar


def _scan(corpus: Path, run: Path, *options: object) -> int:
    return privsieve("scan", corpus, "--run", run, "--engine", "canned", "--quiet", *options)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    members = {"1.jpg": jpeg(1), "2.jpg": jpeg(2), "2.json": json.dumps({"caption": "a secret", "label": "x"}).encode()}
    members |= {"3.jpg": jpeg(3), "3.json": json.dumps({"place": "a secret", "weight": 0.5}).encode()}
    tar(folder / "0.tar", members)
    return folder


def test_a_field_that_no_sample_has_is_refused_before_the_scan(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {
        "lable": '--category "lable": none of the 3 samples probed has that JSON field (did you mean "label"?); '
        "their fields are: caption, label, place, weight",
        "cls": "--category cls: none of the 3 samples probed has a .cls member that holds anything",
    }
    for category, message in refused.items():
        assert _scan(corpus, tmp_path / "run", "--category", category) == 2
        assert capsys.readouterr().err == f"privsieve: {message}\n"
        assert not (tmp_path / "run").exists()
    assert _scan(corpus, tmp_path / "late", "--category", "place") == 0
    assert [row["category"] for row in rows(tmp_path / "late")] == [None, None, "a secret"]


def test_a_field_without_text_or_whole_numbers_is_reported_at_the_end(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _scan(corpus, tmp_path / "run", "--category", "weight") == 0
    assert capsys.readouterr().err == (
        'the category is null in every row: no sample has a text or whole number in the JSON field "weight"; '
        "the first samples' fields are: caption, label, place, weight\n"
    )


@pytest.mark.slow
def test_two_categories_of_one_sample_are_reported_before_the_scan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members: dict[str, bytes] = {}
    for number, (cls, field) in enumerate([("7", "street"), ("8", "8"), ("9", None)]):
        members |= {f"{number}.jpg": jpeg(number), f"{number}.cls": cls.encode()}
        members |= {f"{number}.json": json.dumps({"category": field}).encode()}
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    tar(corpus / "0.tar", members)
    assert _scan(corpus, tmp_path / "run") == 0
    assert capsys.readouterr().err == (
        "the .cls member and the JSON field category differ in 1 of the first 3 samples; .cls is taken: choose with "
        "--category cls or --category category\n"
    )
    assert [row["category"] for row in rows(tmp_path / "run")] == ["7", "8", "9"]
    assert _scan(corpus, tmp_path / "chosen", "--category", "category") == 0
    assert capsys.readouterr().err == ""
    assert [row["category"] for row in rows(tmp_path / "chosen")] == ["street", "8", None]


def test_fields_are_named_where_there_are_any(tmp_path: Path) -> None:
    tar(tmp_path / "0.tar", {"1.jpg": jpeg(1), "1.json": b"[1]", "2.json": b'{"a\\nb": 1}', "3.json": b'{"c": 1}'})
    tar(tmp_path / "1.tar", {"1.jpg": jpeg(1), "1.json": b"{"})
    assert webdataset.category_probe(place(str(tmp_path)), "0.tar", "c").fields == ["a\\nb", "c"]
    assert webdataset.category_probe(place(str(tmp_path)), "1.tar", None).fields == []
