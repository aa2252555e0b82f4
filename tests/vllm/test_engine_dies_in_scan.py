"""vLLM's own process, or the one that started it, is killed while a scan is at work."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.drill import descendants, engine_actors, finish, make_shards, named, rows, sha256, start_scan

NUM_SHARDS, NUM_IMAGES = 20, 24
"""Enough that the scan is far from its end when its first result is seen, also on a quick machine."""

START_LIMIT_S = 1500
"""Far above what a start takes, minutes on a machine that has other work."""

ENGINE = ("EngineCore", "multiprocessing.spawn")
"""So vLLM names the process that holds the model, or, where the system does not let it, so it is started."""


def _is_alive(pid: int) -> bool:
    """A process that ended and that nobody asked for its exit code yet (state Z) is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait(seconds: float, until: Callable[[], object]) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if until():
            return True
        time.sleep(0.1)
    return False


def test_every_image_has_one_row_although_vllm_was_killed(checkpoint: Path, tmp_path: Path) -> None:
    """The actor ends with its engine and Ray starts another one, which does again what was under way."""
    make_shards(tmp_path / "corpus", NUM_SHARDS, NUM_IMAGES)
    run = tmp_path / "run"
    arguments = ("--engine", "vllm", "--model", str(checkpoint), "--num-engines", "1", "--quiet")
    scan = start_scan(tmp_path / "corpus", run, *arguments)
    try:
        assert _wait(START_LIMIT_S, lambda: scan.poll() is not None or any((run / "scores").glob("*.parquet")))
        engines = set(named(scan.pid, *ENGINE))
        actors = set(engine_actors(scan.pid))
        assert scan.poll() is None, scan.communicate()
        assert (len(actors), len(engines)) == (1, 1), list(descendants(scan.pid).values())
        assert len(list((run / "scores").glob("*.parquet"))) < NUM_SHARDS, "it must be at work"
        os.kill(min(engines), signal.SIGKILL)

        def is_replaced() -> bool:
            engines.update(named(scan.pid, *ENGINE))
            actors.update(engine_actors(scan.pid))  # which has its title a little later than its engine at times
            return scan.poll() is not None or (len(engines), len(actors)) == (2, 2)

        assert _wait(START_LIMIT_S, is_replaced)
        code, out, err = finish(scan, START_LIMIT_S)
    finally:
        scan.kill()
    assert code == 0, err
    assert len(actors) == 2
    assert len(engines) == 2
    found = rows(run)
    assert {row["status"] for row in found} == {"scored"}, out
    numbers = range(NUM_SHARDS * NUM_IMAGES)
    assert sorted(str(row["sha256"]) for row in found) == sorted(sha256(number) for number in numbers)
    assert not any((run / "attempts").iterdir())
    assert _wait(300, lambda: not any(map(_is_alive, engines))), "an engine outlives the scan"


def test_vllm_ends_with_the_process_that_started_it(checkpoint: Path, tmp_path: Path) -> None:
    """It would keep the memory of the GPU, and the next engine would not start."""
    make_shards(tmp_path / "corpus", NUM_SHARDS, NUM_IMAGES)
    arguments = ("--engine", "vllm", "--model", str(checkpoint), "--executor", "inline", "--processes", "1")
    scan = start_scan(tmp_path / "corpus", tmp_path / "run", *arguments)
    try:
        results = tmp_path / "run" / "scores"
        assert _wait(START_LIMIT_S, lambda: scan.poll() is not None or any(results.glob("*.parquet")))
        of_vllm = [child for child, command in descendants(scan.pid).items() if "VLLM" in command or "spawn" in command]
        assert of_vllm, list(descendants(scan.pid).values())
        assert scan.poll() is None, scan.communicate()
    finally:
        scan.kill()
    assert _wait(300, lambda: not any(map(_is_alive, of_vllm))), "vLLM outlives the process that started it"
    finish(scan)
