"""A run and its source: where the run may lie, and what a source that changed since means for it."""

import json
import shutil
from pathlib import Path

import pytest

from ingest.storage.place import place
from jobs.scanning.chosen import draw, first
from scoring.runs.attempts import Attempts
from tests.jobs.made import compact_run, privsieve, rows, shard, tar

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", ["run", "below/run", "."])
def test_a_run_inside_of_its_source_is_refused(corpus: Path, tmp_path: Path, capsys: Capture, name: str) -> None:
    source = tmp_path / "corpus"
    shutil.copytree(corpus, source)
    assert privsieve("scan", source, "--run", source / name, "--engine", "canned") == 2
    assert "is inside the source; use a folder outside of it for --run" in capsys.readouterr().err
    assert sorted(path.name for path in source.rglob("*")) == ["00000.tar", "00001.tar"]


def test_a_shard_that_left_the_source_is_reported(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    source, run = tmp_path / "corpus", tmp_path / "run"
    shutil.copytree(corpus, source)
    command = ("scan", source, "--run", run, "--engine", "canned", "--quiet")
    assert privsieve(*command) == 0
    (source / "00001.tar").unlink()
    capsys.readouterr()
    assert privsieve(*command) == 2
    output = capsys.readouterr().err
    assert output.startswith(f"privsieve: 1 shard that {run} has rows of is gone from the source (00001.tar-")
    assert len(rows(run)) == 35
    assert privsieve("status", run) == 0
    assert "1 shard with results is gone from the source (00001.tar-" in capsys.readouterr().out


@pytest.mark.slow
def test_a_shard_that_was_replaced_by_one_of_the_same_layout_is_reported(
    corpus: Path, tmp_path: Path, capsys: Capture
) -> None:
    source, run = tmp_path / "corpus", tmp_path / "run"
    shutil.copytree(corpus, source)
    command = ("scan", source, "--run", run, "--engine", "canned", "--quiet")
    assert privsieve(*command) == 0
    content = (source / "00000.tar").read_bytes()
    (source / "00000.tar").write_bytes(content.replace(b"\xff\xd8\xff\xe0", b"\xff\xd8\xff\xe1"))
    next((run / "scores").glob("00001*")).unlink()
    capsys.readouterr()
    assert privsieve(*command) == 1
    output = capsys.readouterr().err
    assert output.startswith("privsieve: 00000.tar changed between two scans of this run (1 such shard): remove its ")
    next((run / "scores").glob("00000*")).unlink()
    assert privsieve(*command) == 0
    assert privsieve(*command) == 0


@pytest.mark.slow
def test_a_limit_that_the_source_does_not_reach_is_a_finished_run(tmp_path: Path, capsys: Capture) -> None:
    source, run = tmp_path / "corpus", tmp_path / "run"
    source.mkdir()
    tar(source / "00000.tar", {})
    shard(source / "00001.tar", 0, 6)
    assert privsieve("scan", source, "--run", run, "--engine", "canned", "--limit", 100, "--quiet") == 0
    assert "6 images in 2 of 2 shards" in capsys.readouterr().out
    assert privsieve("report", run) == 0
    assert "UNFINISHED" not in capsys.readouterr().out
    compact_run(run)


def test_the_first_samples_skip_nothing() -> None:
    assert first(["a", "b", "c", "d"], [0, 3, 0, 5], 4) == {"a": [], "b": [0, 1, 2], "c": [], "d": [0]}
    assert draw(["a", "b"], [0, 2], 2, seed=0) == {"b": [0, 1]}


def test_an_interruption_is_not_held_against_a_slice(tmp_path: Path) -> None:
    """What was begun once is forgotten; what killed workers before keeps those deaths; what was given up stays so."""
    attempts = Attempts(place(str(tmp_path)))
    attempts.begin("under way")
    for _ in range(3):
        attempts.begin("killed twice")
    attempts.fail("given up", "the store is gone")
    attempts.discount_interrupted()
    assert {a.name: (a.deaths, a.failure) for a in attempts.all()} == {
        "killed twice": (2, None),
        "given up": (0, "the store is gone"),
    }


def test_what_ended_a_worker_is_known_by_its_type_only(tmp_path: Path) -> None:
    attempts = Attempts(place(str(tmp_path)))
    attempts.begin("slice")
    attempts.record_crash("slice", "ZeroDivisionError")
    before = attempts.begin("slice")
    assert (before.deaths, before.cause) == (1, "ZeroDivisionError")
    assert json.loads((tmp_path / "slice.json").read_text()) == {
        "deaths": 2,
        "failure": None,
        "cause": "ZeroDivisionError",
    }
