"""What a scan says when `--category` names nothing that the samples have."""

import json
from pathlib import Path

import pytest

from ingest.formats import webdataset
from ingest.storage.place import place
from tests.jobs.made import jpeg, privsieve, tar


def _scanned(corpus: Path, run: Path, category: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What it says about the category."""
    capsys.readouterr()
    assert privsieve("scan", corpus, "--run", run, "--engine", "canned", "--category", category, "--quiet") == 0
    return [line for line in capsys.readouterr().err.splitlines() if "category" in line]


def test_a_field_that_no_sample_has_is_told_with_those_that_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    members = {"1.jpg": jpeg(1), "2.jpg": jpeg(2), "2.json": json.dumps({"caption": "a secret", "label": "x"}).encode()}
    members |= {"3.jpg": jpeg(3), "3.json": json.dumps({"place": "a secret"}).encode()}
    tar(corpus / "0.tar", members)
    told = "the category is null in every row: no sample has a text or whole number in the JSON field"
    assert _scanned(corpus, tmp_path / "misspelt", "lable", capsys) == [
        f'{told} "lable" (did you mean "label"?); the first sample\'s fields are: caption, label'
    ]
    assert _scanned(corpus, tmp_path / "late", "place", capsys) == []
    assert _scanned(corpus, tmp_path / "cls", "cls", capsys) == [
        "the category is null in every row: no sample has a .cls member that holds anything"
    ]


def test_fields_are_named_where_there_are_any(tmp_path: Path) -> None:
    tar(tmp_path / "0.tar", {"1.jpg": jpeg(1), "1.json": b"[1]", "2.json": b'{"a\\nb": 1}', "3.json": b'{"c": 1}'})
    tar(tmp_path / "1.tar", {"1.jpg": jpeg(1), "1.json": b"{"})
    assert webdataset.json_fields(place(str(tmp_path)), "0.tar") == ["a\\nb"]
    assert webdataset.json_fields(place(str(tmp_path)), "1.tar") == []
