"""Scan as a user runs it, on small real corpora, through Ray."""

import hashlib
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from tests.jobs.made import privsieve, rows
from tests.making import Capture

ROOT = Path(__file__).parents[2]


def test_every_image_is_exactly_one_row(scanned: Path) -> None:
    scores = rows(scanned)
    assert sorted((r["shard"], r["index"]) for r in scores) == [
        *(("00000.tar", i) for i in range(20)),
        *(("00001.tar", i) for i in range(15)),
    ]
    bad = [r for r in scores if r["status"] == "quarantined"]
    assert {(r["key"], r["reason"]) for r in bad} == {(f"{n:09d}", "not_an_image") for n in range(0, 35, 7)}
    assert {r["category"] for r in scores} == {"street", "office"}
    assert {r["format"] for r in scores if r["status"] == "scored"} == {"jpeg"}


def test_the_hash_is_of_the_encoded_bytes(corpus: Path, scanned: Path) -> None:
    with tarfile.open(corpus / "00001.tar") as archive:
        member = archive.extractfile("000000022.jpg")
        assert member is not None
        content = member.read()
    row = next(r for r in rows(scanned) if r["key"] == "000000022")
    assert row["sha256"] == hashlib.sha256(content).hexdigest()
    assert row["num_bytes"] == len(content)


def test_the_run_says_what_it_was_made_with(corpus: Path, scanned: Path) -> None:
    record = json.loads((scanned / "run.json").read_text())
    assert record["source"] == str(corpus)
    assert (record["source_format"], record["engine"]["name"], record["taxonomy"]) == ("webdataset", "canned", "cprt-1")


@pytest.mark.slow
def test_a_page_that_the_detectors_cannot_read_is_unknown_in_the_report_and_flagged_in_the_release(
    tmp_path: Path, capsys: Capture
) -> None:
    pytest.importorskip("rapidocr", reason="the detectors extra is not installed")
    source, run = tmp_path / "source", tmp_path / "run"
    source.mkdir()
    shutil.copy(ROOT / "tests/engines/writing/cyrillic.png", source)
    shutil.copy(ROOT / "jobs/demo/corpus/tree/object/coins.png", source)
    assert privsieve("scan", source, "--run", run, "--quiet") == 0
    assert {row["key"]: row["gov_ids"] for row in rows(run)} == {"cyrillic.png": None, "coins.png": 0}
    capsys.readouterr()
    assert privsieve("report", run, "--full") == 0
    report = capsys.readouterr().out
    assert "0.0 % of the judged images in the source were found private (0 of 1 images that could be" in report
    assert "With 1 unknown image: 0.0 % of all images if none of these is private, 50.0 % if all are." in report
    strict = ROOT / "scoring/policies/strict.yaml"
    assert privsieve("filter", run, "--policy", strict, "--out", tmp_path / "out", "--dry-run") == 0
    output = capsys.readouterr().out
    assert re.search(r"flag +1 +not-fully-judged\n", output)
    assert 'policy "strict": of 2 images 1 would be kept, 1 kept and flagged, 0 dropped' in output
