"""Kills scans at random moments until they are done, and counts what was lost, doubled and repeated.

    python -m tests.faults.kills [--num-images 20000] [--num-kills 100] [--seed 0]

Two kinds of scans take turns: one with a Ray of its own loses its driver, and one on a local cluster of two nodes loses
engine actors and the raylet of the second node. After each kill of a driver the same command is given again. In the end
every image must have exactly one row.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import click

from tests.faults.drill import engine_actors, finish, make_shards, rows, sha256, start_scan

SLEEP_S = 0.002
"""Per image: makes the scan long enough to be hit."""

VICTIMS = ("driver", "actor", "raylet")
VICTIMS_BY_SCAN = (Counter(driver=1), Counter(actor=3, raylet=1))
"""The most that the scans lose, in turn. A driver is lost with the Ray that it has started."""


@dataclass
class Outcome:
    kills: Counter[str] = field(default_factory=Counter)
    num_scans: int = 0
    num_lost: int = 0
    num_repeated: int = 0
    num_doubled: int = 0
    num_foreign: int = 0
    last_line: str = ""


def run_drill(folder: Path, num_shards: int, num_images: int, num_kills: Mapping[str, int], seed: int) -> Outcome:
    """Scans `num_shards` tars of `num_images` while killing; returns what was found in the run afterwards.

    `num_kills` of each victim; a scan whose driver is to live may lose several actors.
    """
    rng = random.Random(seed)
    outcome = Outcome()
    make_shards(folder / "corpus", num_shards, num_images)
    run = folder / "run"
    left = Counter(num_kills)
    turns = cycle(VICTIMS_BY_SCAN)
    while outcome.num_scans < 2 * sum(num_kills.values()) + 10:
        victims = next((each & left for each in islice(turns, len(VICTIMS_BY_SCAN)) if each & left), Counter[str]())
        outcome.num_scans += 1
        with _cluster(bool(victims) and "driver" not in victims, folder / "run.drill.json") as cluster:
            arguments = ("--executor", "ray") if cluster is None else ("--ray-address", cluster.address)
            scan = start_scan(folder / "corpus", run, *arguments, drill={"*": SLEEP_S})
            for each in victims.elements():
                outcome.kills[each] += _kill(each, scan, cluster, run, rng)
            left = Counter(num_kills) - outcome.kills
            there = _results(run)
            code, out, err = finish(scan)
            now = _results(run)
            outcome.num_repeated += sum(now.get(name) != written for name, written in there.items())
        if code == 0 and not left:
            outcome.last_line = out.strip().splitlines()[-1]
            return _counted(outcome, run, num_shards * num_images)
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(f"the scan ended with {code}: {err}")
        if code == 0:  # done before all kills were spent: begin with what a lost disk would leave
            for result in rng.sample(sorted((run / "scores").iterdir()), k=max(1, num_shards // 2)):
                result.unlink()
    raise RuntimeError(f"only {dict(outcome.kills)} of {dict(num_kills)} kills in {outcome.num_scans} scans")


def _counted(outcome: Outcome, run: Path, num_images: int) -> Outcome:
    found = Counter(str(row["sha256"]) for row in rows(run))
    wanted = {sha256(n) for n in range(num_images)}
    outcome.num_lost = len(wanted - found.keys())
    outcome.num_foreign = len(found.keys() - wanted)
    outcome.num_doubled = sum(n - 1 for n in found.values())
    return outcome


def _results(run: Path) -> dict[str, int]:
    """Result file -> when it was written (ns); a slice that is done must not be done again."""
    return {path.name: path.stat().st_mtime_ns for path in (run / "scores").glob("*.parquet")}


@dataclass
class _LocalCluster:
    """A head and a second node. helper: id of the process that started both. second_raylet: id of the second node's."""

    address: str
    helper: int
    second_raylet: int


HELPER = """
import sys, ray
from ray.cluster_utils import Cluster
for tries_left in (2, 1, 0):
    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=2, include_dashboard=False)
        second = cluster.add_node(num_cpus=2)
        break
    except Exception:  # a busy machine needs longer than Ray waits for its own parts
        cluster.shutdown()
        if not tries_left:
            raise
print(cluster.address, second.all_processes["raylet"][0].process.pid, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@contextmanager
def _cluster(wanted: bool, drill: Path) -> Iterator[_LocalCluster | None]:
    """drill: what its engines are ordered to do."""
    if not wanted:
        yield None
        return
    with drill.with_name("cluster.log").open("w") as log:
        helper = subprocess.Popen(
            [sys.executable, "-c", HELPER],
            env=os.environ | {"PRIVSIEVE_DRILL": str(drill)},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert helper.stdout is not None
    try:
        started = helper.stdout.readline()
        if not started:
            raise RuntimeError(f"the cluster did not start:\n{drill.with_name('cluster.log').read_text()[-3000:]}")
        address, second_raylet = started.split()
        yield _LocalCluster(address, helper.pid, int(second_raylet))
    finally:
        helper.communicate(timeout=1500)


def _kill(
    victim: str, scan: subprocess.Popen[str], cluster: _LocalCluster | None, run: Path, rng: random.Random
) -> bool:
    """Kills while slices are under way: a drawn number of results after now. False where the scan was over first."""
    wanted = len(_results(run)) + rng.randint(1, 3)
    while scan.poll() is None:
        if len(_results(run)) >= wanted:
            found = {
                "driver": lambda: scan.pid,
                "actor": lambda: rng.choice(engine_actors(cluster.helper if cluster else scan.pid) or [0]),
                "raylet": lambda: cluster.second_raylet if cluster else 0,
            }[victim]()
            if found:
                os.kill(found, signal.SIGKILL)
            return bool(found)
        time.sleep(0.01)
    return False


@click.command()
@click.option("--num-images", type=click.IntRange(min=40), default=20_000, show_default=True)
@click.option("--num-shards", type=click.IntRange(min=1), default=40, show_default=True)
@click.option("--num-kills", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(num_images: int, num_shards: int, num_kills: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        wanted = {victim: (num_kills + place) // len(VICTIMS) for place, victim in enumerate(VICTIMS)}
        outcome = run_drill(Path(made), num_shards, num_images // num_shards, wanted, seed)
    kills = ", ".join(f"{n} × {victim}" for victim, n in outcome.kills.items())
    click.echo(f"{outcome.kills.total()} kills ({kills}) in {outcome.num_scans} scans")
    click.echo(
        f"{outcome.num_lost} lost, {outcome.num_doubled} doubled, {outcome.num_foreign} foreign; "
        f"finished slices done again: {outcome.num_repeated}"
    )
    click.echo(outcome.last_line)
    sys.exit(0 if outcome.num_lost == outcome.num_doubled == outcome.num_foreign == outcome.num_repeated == 0 else 1)


if __name__ == "__main__":
    main()
