"""`scan` and `filter` with `--processes`: the same files, and a process that dies costs no row and no picture."""

import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from ingest.formats import open_source
from ingest.storage.place import place
from jobs.releases import copying
from jobs.releases.copying import Copied, ShardCopier
from jobs.releases.plan import Share
from jobs.runtime.processes import FurtherProcess, OnProgress, Work, no_progress, shared
from jobs.scanning.inline import scanning
from jobs.scanning.slice_tasks import ScanSettings, SliceCounts, SliceTask, listed
from scoring.assessment import EngineOptions
from scoring.runs.ledger import Ledger
from tests.faults.drill import descendants, finish, make_shards, rows, sha256, start, start_scan
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve
from tests.jobs.releases import CLEAN, files
from tests.making import Capture, Patch
from tests.records import scanned_record

INLINE = ("--executor", "inline", "--processes")
CHILD = "jobs.runtime.processes"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    make_shards(tmp_path / "corpus", 4, 5)
    return tmp_path / "corpus"


def _children(pid: int) -> list[int]:
    return [child for child, command in descendants(pid).items() if CHILD in command]


def _child_of(pid: int) -> int:
    deadline = time.monotonic() + 600
    while not _children(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return _children(pid)[0]


@pytest.mark.slow
def test_a_process_that_is_killed_costs_no_row(corpus: Path, tmp_path: Path) -> None:
    scan = start_scan(corpus, tmp_path / "run", *INLINE, "2", drill={"*": 0.2})
    os.kill(_child_of(scan.pid), signal.SIGKILL)
    assert finish(scan)[:2] == (0, "20 images in 4 of 4 shards: 20 scored, 0 quarantined\n")
    assert [row["sha256"] for row in rows(tmp_path / "run")] == [sha256(number) for number in range(20)]


@pytest.mark.slow
def test_ctrl_c_ends_every_process_and_the_scan_goes_on_later(corpus: Path, tmp_path: Path) -> None:
    scan = start_scan(corpus, tmp_path / "run", *INLINE, "2", drill={"*": 600.0})
    child = _child_of(scan.pid)
    while not list((tmp_path / "run" / "attempts").glob("*.json")):
        time.sleep(0.02)
    scan.send_signal(signal.SIGINT)
    code, out, err = finish(scan)
    assert (code, out, err.strip()) == (130, "", "privsieve: interrupted; run the same command again to continue")
    assert not os.path.exists(f"/proc/{child}")
    assert finish(start_scan(corpus, tmp_path / "run", *INLINE, "2"))[0] == 0
    assert [row["sha256"] for row in rows(tmp_path / "run")] == [sha256(number) for number in range(20)]


@pytest.mark.slow
def test_a_process_ends_when_its_parent_is_killed(corpus: Path, tmp_path: Path) -> None:
    scan = start_scan(corpus, tmp_path / "run", *INLINE, "2", drill={"*": 600.0})
    child = _child_of(scan.pid)
    scan.send_signal(signal.SIGKILL)
    finish(scan)
    deadline = time.monotonic() + 600
    while os.path.exists(f"/proc/{child}") and _state(child) != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.slow
def test_an_image_that_kills_a_further_process_costs_one_row(tmp_path: Path, corpus: Path, monkeypatch: Patch) -> None:
    (tmp_path / "drill.json").write_text(json.dumps({sha256(7): "crash"}))
    monkeypatch.setenv("PRIVSIEVE_DRILL", str(tmp_path / "drill.json"))
    source = open_source(str(corpus), None, None)
    run = place(str(tmp_path / "run"))
    settings = ScanSettings(source, run, scanned_record(), EngineOptions(), code="code")
    work = Work[SliceTask | SliceCounts, SliceCounts](listed(settings, [*source.shards], None, Ledger({}, {})))
    process = FurtherProcess(partial(scanning, settings), work, no_progress, after_s=0)
    process.start()
    found = list(iter(work.ended.get, None))
    process.stop()
    assert [(counts.num_rows, counts.failure) for counts in found if counts is not None] == [(5, "")] * 4
    reasons = [row["reason"] for row in rows(tmp_path / "run")]
    assert reasons == [None] * 7 + ["crash"] + [None] * 12


@pytest.fixture
def release(corpus: Path, tmp_path: Path) -> tuple[object, ...]:
    """The arguments that write a release of cleaned pictures, up to the folder."""
    scan_in_process(corpus, tmp_path / "run")
    (tmp_path / "clean.yaml").write_text(CLEAN)
    return ("filter", tmp_path / "run", "--policy", tmp_path / "clean.yaml", "--out")


@pytest.mark.slow
def test_a_release_is_the_same_if_a_process_that_writes_it_is_killed(
    release: tuple[object, ...], tmp_path: Path
) -> None:
    assert finish(start(*release, tmp_path / "alone", "--processes", "1"))[0] == 0
    filtering = start(*release, tmp_path / "killed", "--processes", "2")
    os.kill(_child_of(filtering.pid), signal.SIGKILL)
    assert (finish(filtering)[0], _children(filtering.pid)) == (0, [])
    assert files(tmp_path / "killed") == files(tmp_path / "alone")


@pytest.mark.slow
def test_an_interrupted_release_leaves_no_process_and_no_unfinished_file(
    release: tuple[object, ...], tmp_path: Path
) -> None:
    assert finish(start(*release, tmp_path / "whole", "--processes", "1"))[0] == 0
    filtering = start(*release, tmp_path / "out", "--processes", "3")
    child = _child_of(filtering.pid)
    filtering.send_signal(signal.SIGINT)
    assert finish(filtering)[0] == 130
    assert not os.path.exists(f"/proc/{child}")
    assert not list((tmp_path / "out").rglob("*.part"))
    assert finish(start(*release, tmp_path / "out", "--resume", "--processes", "3"))[0] == 0
    assert files(tmp_path / "out") == files(tmp_path / "whole")


Copying = Callable[[tuple[int, Share]], Copied]


def _killed(
    parent: int, kills: Path, num_kills: int, copier: ShardCopier, _: OnProgress
) -> AbstractContextManager[Copying]:
    """The first further processes are killed when their first file is written and has not got its name; until then,
    this one waits. It copies nothing of a release that is continued."""

    def kill(event: str, args: tuple[object, ...]) -> None:
        if event == "os.rename" and str(args[0]).startswith(copier.out.path) and len(kills.read_text()) < num_kills:
            kills.write_text(f"{kills.read_text()}.")
            os.kill(os.getpid(), signal.SIGKILL)

    def waiting(task: tuple[int, Share]) -> Copied:
        assert not copier.resume
        deadline = time.monotonic() + 600
        while len(kills.read_text()) < num_kills:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return copier.outcome(task)

    if os.getpid() == parent:
        return nullcontext(waiting)
    sys.addaudithook(kill)
    return nullcontext(copier.outcome)


@pytest.mark.slow
@pytest.mark.parametrize("num_kills", [1, 3])
def test_processes_that_are_killed_in_the_middle_of_a_copy_leave_no_file_in_the_release(
    release: tuple[object, ...], tmp_path: Path, num_kills: int, monkeypatch: Patch, capsys: Capture
) -> None:
    """The third that the same shard ends is the last, and a line says which shard."""
    assert privsieve(*release, tmp_path / "alone", "--processes", "1") == 0
    kills = tmp_path / "kills"
    kills.touch()
    monkeypatch.setattr(copying, "_copying", partial(_killed, os.getpid(), kills, num_kills))
    capsys.readouterr()
    if num_kills == 3:
        assert privsieve(*release, tmp_path / "out", "--processes", "2", "--quiet") == 1
        assert re.fullmatch(
            r"privsieve: 0000.\.tar: each of 3 processes that copied it died, by a picture that crashes its decoder, "
            r"or for lack of memory, of which --processes 1 takes the least; nothing is released; \S+ holds an "
            r"unfinished release: continue with --resume, or delete it\n",
            capsys.readouterr().err,
        )
        left = files(tmp_path / "out").keys()
        assert "release.json" not in left
        assert not [name for name in left if name.endswith(".part")]
        release += (tmp_path / "out", "--resume")
    else:
        release += (tmp_path / "out",)
    assert privsieve(*release, "--processes", "2") == 0
    assert len(kills.read_text()) == num_kills
    assert privsieve("release", "verify", tmp_path / "out") == 0
    assert files(tmp_path / "out") == files(tmp_path / "alone")


HALF_WRITTEN = "00003.tar.0123abcd.part"


def _taken_over(out: Path) -> None:
    lease = {"id": "other", "host": "elsewhere", "pid": 1, "renewed": time.time()}
    (out / "release.lease.json").write_text(json.dumps(lease))


def _failing(deed: Callable[[Path], None], copier: ShardCopier, _: OnProgress) -> AbstractContextManager[Copying]:
    def failed(task: tuple[int, Share]) -> Copied:
        Path(copier.out.path, HALF_WRITTEN).write_bytes(b"half")
        deed(Path(copier.out.path))
        return Copied(task[0], failure="the disk is full")

    return nullcontext(failed)


@pytest.mark.parametrize(
    ("deed", "remaining"),
    [(Path.exists, set()), (_taken_over, {HALF_WRITTEN, "release.lease.json"}), (shutil.rmtree, set())],
)
def test_a_filter_that_fails_removes_half_written_files_unless_they_are_of_another_filter(
    release: tuple[object, ...],
    tmp_path: Path,
    deed: Callable[[Path], None],
    remaining: set[str],
    monkeypatch: Patch,
    capsys: Capture,
) -> None:
    monkeypatch.setattr(copying, "_copying", partial(_failing, deed))
    assert privsieve(*release, tmp_path / "out", "--processes", "2") == 1
    assert "privsieve: the disk is full" in capsys.readouterr().err
    assert files(tmp_path / "out").keys() - {"release.unfinished.json"} == remaining


@contextmanager
def _with_all(folder: Path, num_processes: int, _: OnProgress) -> Iterator[Callable[[int], int]]:
    def work(_: int) -> int:
        """Wait until so many processes have a task."""
        (folder / str(os.getpid())).touch()
        deadline = time.monotonic() + 600
        while len(list(folder.iterdir())) < num_processes:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return os.getpid()

    yield work


@pytest.mark.slow
def test_each_task_has_a_process_and_no_more_begin(tmp_path: Path) -> None:
    at_work = shared(partial(_with_all, tmp_path, 3), iter(range(3)), num_processes=3)
    assert len({*at_work}) == 3
    num_threads = threading.active_count()
    alone = shared(partial(_with_all, tmp_path, 1), iter(range(3)), num_processes=1000, further_after_s=600)
    assert next(alone) == os.getpid()
    assert threading.active_count() <= num_threads + 1
    assert [*alone] == [os.getpid()] * 2
