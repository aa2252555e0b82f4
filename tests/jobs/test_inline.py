"""A scan in the process of the command: bad images, interruptions and kills cost what they cost on Ray."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ingest.storage.place import PART
from jobs.runtime.checks import Gpu
from jobs.scanning.prepared import with_executor
from jobs.scanning.request import ScanRequest, ScanResources
from scoring.assessment import EngineOptions
from tests.faults.drill import finish, jpeg, make_shards, rows, sha256, start_scan
from tests.jobs.made import privsieve
from tests.making import Capture, Patch

INLINE = ("--executor", "inline")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    make_shards(tmp_path / "corpus", 3, 6)
    return tmp_path / "corpus"


def _reasons(run: Path) -> dict[int, object]:
    """Number of the image -> reason, after a check that each image has one row."""
    found = rows(run)
    assert [row["sha256"] for row in found] == [sha256(number) for number in range(18)]
    return {number: row["reason"] for number, row in enumerate(found) if row["status"] == "quarantined"}


@pytest.mark.slow
def test_an_engine_that_raises_costs_one_row_and_not_the_scan(corpus: Path, tmp_path: Path) -> None:
    code, out, err = finish(start_scan(corpus, tmp_path / "run", *INLINE, drill={sha256(8): "raise"}))
    assert (code, err) == (0, "")
    assert out == "18 images in 3 of 3 shards: 17 scored, 1 quarantined (crash 1)\n"
    assert _reasons(tmp_path / "run") == {8: "crash"}
    assert not list((tmp_path / "run" / "attempts").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "stall_s", "code", "reason"), [("crash", 600, -signal.SIGSEGV, "crash"), ("hang", 20, 1, "timeout")]
)
def test_an_image_that_ends_the_process_is_found_by_the_third_scan(
    corpus: Path, tmp_path: Path, deed: str, stall_s: int, code: int, reason: str
) -> None:
    drill, options = {sha256(8): deed}, (*INLINE, "--processes", "1", "--stall-seconds", str(stall_s), "--quiet")
    for _ in range(2):
        ended, out, err = finish(start_scan(corpus, tmp_path / "run", *options, drill=drill))
        assert (ended, out, err) == (code, "", "")
    ended, out, err = finish(start_scan(corpus, tmp_path / "run", *options, drill=drill))
    assert (ended, err) == (0, "")
    assert _reasons(tmp_path / "run") == {8: reason}


def test_a_small_scan_does_not_wait_for_processes_that_it_does_not_need(
    corpus: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("jobs.scanning.run.FURTHER_AFTER_S", 1e6)
    assert privsieve("scan", corpus, "--engine", "canned", "--run", tmp_path / "run", *INLINE, "--quiet") == 0
    assert len(_reasons(tmp_path / "run")) == 0


@pytest.mark.slow
def test_a_scan_that_is_ended_says_so_in_one_line_and_counts_no_death(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    scan = start_scan(corpus, run, *INLINE, drill={sha256(6): 600.0})
    while scan.poll() is None and not _attempts(run):
        time.sleep(0.05)
    scan.send_signal(signal.SIGTERM)
    code, out, err = finish(scan)
    assert (code, out, err.strip()) == (130, "", "privsieve: interrupted; run the same command again to continue")
    assert not _attempts(run)


@pytest.mark.slow
def test_an_interrupted_scan_keeps_what_the_engine_has_answered(tmp_path: Path, capsys: Capture) -> None:
    make_shards(tmp_path / "corpus", 1, 40)
    run, more = tmp_path / "run", ("--processes", "1")
    scan = start_scan(tmp_path / "corpus", run, *more, drill={"*": 0.4, sha256(20): 600.0})
    while scan.poll() is None and not list((run / "attempts").glob("*.rows")):
        time.sleep(0.05)
    scan.send_signal(signal.SIGINT)
    assert finish(scan)[0] == 130
    assert privsieve("status", run, "--all") == 0
    assert "left    00000.tar  begun\n" in capsys.readouterr().out
    # Who has an answer is not asked again: picture 3 would end the process.
    code, out, err = finish(start_scan(tmp_path / "corpus", run, *more, drill={sha256(3): "crash"}))
    assert (code, out, err) == (0, "40 images in 1 of 1 shard: 40 scored, 0 quarantined\n", "")
    assert [row["sha256"] for row in rows(run)] == [sha256(number) for number in range(40)]
    assert not list((run / "attempts").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("other", ["picture", "rows"])
def test_rows_that_are_damaged_or_of_another_picture_are_not_taken_over(tmp_path: Path, other: str) -> None:
    run, numbers = tmp_path / "run", list(range(10, 30))
    (tmp_path / "corpus").mkdir()
    for number in numbers:
        (tmp_path / "corpus" / f"{number}.jpg").write_bytes(jpeg(number))
    scan = start_scan(tmp_path / "corpus", run, "--processes", "1", drill={"*": 0.4, sha256(28): 600.0})
    while scan.poll() is None and not list((run / "attempts").glob("*.rows")):
        time.sleep(0.05)
    scan.send_signal(signal.SIGKILL)
    finish(scan)
    (file,) = (run / "attempts").glob("*.rows")
    if other == "rows":
        content = file.read_bytes()
        file.write_bytes(content[:500] + bytes([content[500] ^ 1]) + content[501:])
    else:
        (tmp_path / "corpus" / "13.jpg").write_bytes(jpeg(99))
        numbers[3] = 99
    code, out, err = finish(start_scan(tmp_path / "corpus", run, "--processes", "1"))
    assert (code, out, err) == (0, "20 images in 1 of 1 shard: 20 scored, 0 quarantined\n", "")
    assert [row["sha256"] for row in rows(run)] == [sha256(number) for number in numbers]
    assert not list((run / "attempts").iterdir())


def _attempts(run: Path) -> list[Path]:
    """Of the second shard's first slice; not those that are still being written."""
    return [file for file in (run / "attempts").glob("00001*00000*") if file.suffix != PART]


@pytest.mark.slow
def test_neither_ray_nor_pandas_is_imported(corpus: Path, tmp_path: Path) -> None:
    code = """
import sys
from jobs.cli import main
try:
    main(sys.argv[1:])
except SystemExit as done:
    assert done.code == 0
print({"ray", "pandas"} & set(sys.modules))
"""
    arguments = ("scan", str(corpus), "--run", str(tmp_path / "run"), "--engine", "canned", "--quiet", *INLINE)
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["18 images in 3 of 3 shards: 18 scored, 0 quarantined", "set()"]


def test_a_scan_takes_ray_where_a_cluster_its_engines_or_several_gpus_are_there(monkeypatch: Patch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    base = "jobs/demo/tuning/base"
    detectors, model = (
        ScanRequest("pictures", "run", engine=engine, options=options)
        for engine, options in (("detectors", EngineOptions()), ("transformers", EngineOptions(model=base)))
    )

    def taken(request: ScanRequest = detectors, **given: Any) -> str | None:
        return with_executor(ScanResources(**given), request).executor

    assert [taken(), taken(processes=2), taken(model)] == ["inline"] * 3
    assert [taken(num_engines=1), taken(engine_cpus=2), taken(ray_address="head:6379")] == ["ray"] * 3
    monkeypatch.setattr("jobs.scanning.prepared.gpus", lambda: [Gpu("H100", "550", 80_000, 80_000)] * 2)
    assert [taken(), taken(model), taken(model, executor="inline")] == ["inline", "ray", "inline"]
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert [taken(), taken(executor="inline")] == ["ray", "inline"]
