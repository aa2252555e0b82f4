"""Runs and releases that an older version wrote are continued, reported, filtered and compacted to the same rows.

`tests/older_runs/at_0_1_0` was written by the first code that could do all of this, before any format changed.
"""

import hashlib
import json
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scoring.runs.record import read_record
from scoring.runs.results import results
from scoring.runs.rows import rows_at
from tests import older_runs
from tests.jobs.made import privsieve
from tests.older_runs.make import CORPUS

LAYOUTS = ("tars", "tree", "parquet")


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The fixtures in a folder of this test, and the corpus where the runs say that it lies."""
    folder = tmp_path / "older"
    shutil.copytree(Path(older_runs.__path__[0]) / "at_0_1_0", folder)
    if _content(CORPUS) != _content(folder / "corpus"):
        shutil.rmtree(CORPUS, ignore_errors=True)
        shutil.copytree(folder / "corpus", tmp_path / "copy")
        with suppress(OSError):  # another process that runs these tests has put it there meanwhile
            (tmp_path / "copy").rename(CORPUS)
    return folder


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _rows(run: Path) -> list[dict[str, Any]]:
    """All rows of the run in the order of shard and index."""
    root, record = read_record(str(run))
    found = results(root)
    shards = {"webdataset": ["00000.tar", "00001.tar"], "tree": ["office", "street"], "parquet": ["00000.parquet"]}
    rows: list[dict[str, Any]] = []
    for shard in shards[record.format]:
        rows += rows_at(root, found.of(shard)).to_pylist()
    return rows


def _assert_rows_as_before(run: Path, older: Path, layout: str) -> None:
    """Every value that the older version wrote, but for the wording of errors; there may be later columns."""
    before = [json.loads(line) for line in (older / "rows" / f"{layout}.json").read_text().splitlines()]
    now = _rows(run)
    assert len(now) == len(before)
    for old, new in zip(before, now, strict=True):
        assert (new["error_message"] is None) == (old.pop("error_message") is None)
        old["private_answer"] = old.pop("private")
        assert {name: new[name] for name in old} == old


def _released(release: Path, layout: str) -> dict[str, str]:
    """What a release holds: name of each sample's member, file or row -> hash of its content."""
    if layout == "tars":
        found = {}
        for shard in sorted(release.glob("*.tar")):
            with tarfile.open(shard) as archive:
                for member in archive:
                    content = archive.extractfile(member)
                    assert content is not None
                    found[f"{shard.name}/{member.name}"] = _hash(content.read())
        return found
    if layout == "parquet":
        rows = pq.read_table(release / "00000.parquet").to_pylist()
        return {row["id"]: _hash(row["image"]) + str(row["width"]) for row in rows}
    return {str(path.relative_to(release)): _hash(path.read_bytes()) for path in sorted(release.glob("*/*.*"))}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_rows_of_an_older_run_are_read_as_they_were_written(older: Path, layout: str) -> None:
    _assert_rows_as_before(older / "runs" / layout, older, layout)


def test_an_older_run_that_was_interrupted_is_continued_to_the_same_rows(older: Path) -> None:
    run = older / "runs" / "tars-interrupted"
    assert privsieve("scan", CORPUS / "tars", "--run", run, "--engine", "canned", "--quiet") == 0
    _assert_rows_as_before(run, older, "tars")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_finished_older_run_needs_no_second_scan(
    older: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = older / "runs" / layout
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*.parquet")}
    assert privsieve("scan", CORPUS / layout, "--run", run, "--engine", "canned", "--quiet") == 0
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*.parquet")} == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_older_run_is_reported_with_the_same_counts(
    older: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in (older / "rows" / f"{layout}.json").read_text().splitlines()]
    scored = [row for row in rows if row["status"] == "scored"]
    question = "SELECT status, count(*) AS n, sum(s_lex) AS severity FROM images GROUP BY status ORDER BY status"
    assert privsieve("sql", older / "runs" / layout, question, "--format", "json") == 0
    answered = {row["status"]: row for row in json.loads(capsys.readouterr().out)}
    assert answered["scored"]["n"] == len(scored)
    assert int(answered["scored"]["severity"]) == sum(row["s_lex"] for row in scored)
    assert privsieve("report", older / "runs" / layout, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["num_images"] == len(rows)


def test_an_older_run_is_compacted_to_the_same_rows(older: Path) -> None:
    assert privsieve("compact", older / "runs" / "tars") == 0
    _assert_rows_as_before(older / "runs" / "tars", older, "tars")


def test_an_older_compacted_run_is_reported_and_filtered(older: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, release = older / "runs" / "tars-compacted", older / "again"
    _assert_rows_as_before(run, older, "tars")
    assert privsieve("sql", run, "SELECT count(*) AS n FROM images", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 15}]
    assert privsieve("filter", run, "--policy", older / "policy.yaml", "--out", release, "--quiet") == 0
    assert _released(release, "tars") == _released(older / "releases" / "tars", "tars")
