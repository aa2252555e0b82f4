"""`purge`: what a run knows of single pictures is deleted, and its figures stay."""

import json
import shutil
from datetime import date
from pathlib import Path

import pytest

from ingest.errors import StorageError
from ingest.storage.place import Place, place
from ingest.storage.removal import remove_tree
from jobs.scanning.purging import PurgeRequest, run_purge
from scoring.labels.reviews import ReviewAnswers
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, rows, tar
from tests.jobs.releases import files
from tests.making import Capture, Folders, Patch

NAME = "annasmith"
"""Begins the key of every picture."""


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: Folders) -> Path:
    """A run whose pictures somebody has reviewed."""
    folder = tmp_path_factory.mktemp("purge")
    (folder / "source").mkdir()
    tar(folder / "source" / "0.tar", {f"{NAME}-{n}.jpg": jpeg(n) for n in range(12)})
    run = folder / "run"
    scan_in_process(folder / "source", run)
    answers = ReviewAnswers(place(str(run / "reviews")))
    for row in rows(run)[:3]:
        answer = {"sha256": row["sha256"], "key": row["key"], "annotator": "rita", "private": 1, "answer": "private"}
        answers.log_shown("rita", str(row["sha256"]), str(row["key"]))
        answers.add(answer | {"queue": "sql", "is_gold": False})
    return run


@pytest.fixture
def run(reviewed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(reviewed, tmp_path / "run")


def facts(run: Path, capsys: Capture) -> dict[str, object]:
    capsys.readouterr()
    assert privsieve("report", run, "--format", "json") == 0
    said: dict[str, object] = json.loads(capsys.readouterr().out)
    return said | {"severest": []}


def test_only_the_figures_and_a_record_are_left(run: Path, reviewed: Path, capsys: Capture) -> None:
    (run / "my notes.txt").write_text("mine")
    said, before = facts(run, capsys), files(run)
    assert privsieve("purge", run, "--yes", "--quiet") == 0
    output = capsys.readouterr().out
    assert "  deleted  scores  1 file\n" in output
    assert "  deleted  reviews  2 files\n" in output
    assert "  not of privsieve, so it stays: my notes.txt\n" in output
    assert output.endswith(f"{run} is purged; its figures are in figures/report.json, the record is purged.json\n")
    after = files(run)
    assert set(after) - {"engine-time.json"} == {"run.json", "purged.json", "figures/report.json", "my notes.txt"}
    assert after["run.json"] == before["run.json"]
    assert json.loads(after["figures/report.json"]) == said
    record = json.loads(after["purged.json"])
    assert (record["on"], record["deleted"]["scores"]) == (date.today().isoformat(), 1)
    for content in after.values():
        assert NAME.encode() not in content
        assert b"rita" not in content
        assert not any(str(row["sha256"]).encode() in content for row in rows(reviewed))


def test_an_interrupted_purge_is_finished_by_the_same_command(run: Path, monkeypatch: Patch) -> None:
    def full(folder: Place) -> None:
        if folder.name == "scores":
            raise StorageError("the storage does not answer")
        remove_tree(folder)

    with monkeypatch.context() as patched:
        patched.setattr("jobs.scanning.purging.remove_tree", full)
        with pytest.raises(StorageError):
            run_purge(PurgeRequest(str(run), yes=True))
    assert (run / "scores").exists()
    figures = (run / "figures" / "report.json").read_bytes()
    result = run_purge(PurgeRequest(str(run), yes=True))
    assert result.was_begun
    assert not (run / "scores").exists()
    assert (run / "figures" / "report.json").read_bytes() == figures


@pytest.mark.parametrize("name", ["figures", "reviews", "scores"])
def test_a_run_with_a_folder_elsewhere_is_refused_whole(run: Path, tmp_path: Path, capsys: Capture, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    if (run / name).exists():
        (run / name).rename(elsewhere)
    else:
        elsewhere.mkdir()
    (run / name).symlink_to(elsewhere)
    before, there = files(run), files(elsewhere)
    assert privsieve("purge", run, "--yes", "--quiet") == 2
    assert f"{run / name} is a link, and purge changes nothing elsewhere" in capsys.readouterr().err
    assert (files(run), files(elsewhere)) == (before, there)
