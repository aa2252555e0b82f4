"""The scan on Ray Data: shard numbers -> slices (tasks that list) -> result files (actors that score) -> counts.

Only locators and counts travel; bytes are read where they are scored. One row is one slice, which Ray can neither split
nor merge (`jobs.runtime.cluster` keeps blocks at one row). Ray repeats what a lost machine did. That is harmless, since
a slice always gives the same file. Failures travel as data, since Ray would drop the cause of an exception.

A small actor (`UnderWay`) holds the number of images done in slices that have not ended. Engines send theirs at most
once a second and wait for no answer; the driver asks once a second.
"""

import os
import pickle
import platform
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import ray
import ray.data
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ingest.errors import PrivsieveError, SourceError
from jobs.runtime.cluster import each_on_ray
from jobs.runtime.machines import num_slicers
from jobs.runtime.on_worker import Program, other_program, program
from jobs.runtime.processes import OnProgress, no_progress
from jobs.scanning.chosen import Chosen
from jobs.scanning.slice_scanner import SliceScanner
from jobs.scanning.slice_tasks import ScanSettings, ShowUnderWay, SliceCounts, SliceTask, listed
from scoring.runs.ledger import Ledger, only_shards

Figure = TypeVar("Figure")

SLICER_CPUS = 0.05
"""CPUs of a slicer, taken from what each engine asks for, so that a slicer fits wherever engines run. If machines are
lost, the remaining engines would otherwise hold every CPU and wait for slices that no process lists."""

SHARDS_PER_TASK = 100
"""Limit on the shards whose listing is repeated after the loss of a machine."""


@dataclass(frozen=True)
class EnginePool:
    """The engine actors of a scan, and what Ray reserves for each."""

    size: int
    """Number of actors from the start."""

    max_size: int
    """Ray adds actors up to this number while slices wait, and gives idle ones back."""

    num_cpus: float = 1
    num_gpus: float = 0

    is_of_cluster: bool = True
    """Whether machines may have another program. On this machine alone, a change of it stops no scan."""


class SliceScannerActor:
    """One engine; Ray Data calls it with one slice at a time. Its name is the title of its process."""

    def __init__(self, settings: ScanSettings, on_progress: OnProgress, wanted: Program | None):
        """wanted: program that this machine must have; None for any."""
        # If the constructor raised, Ray would start it again without end. So a machine without an engine says so
        # instead of the first slice, and that ends the scan.
        self._is_of_cluster, self._other = wanted is not None, "" if wanted is None else other_program(wanted)
        if not self._other:
            # After an unexpected exception the process ends, as after a signal, and Ray starts another.
            self._scanner = SliceScanner(settings, partial(os._exit, 1), on_progress)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Scan a pickled slice. Return what came of it, pickled, or that of the listing, which failed."""
        counts: SliceTask | SliceCounts = pickle.loads(row["listed"])
        if isinstance(counts, SliceTask):
            counts = SliceCounts(failure=self._other, is_fatal=True) if self._other else self._scanner.scan(counts)
            if counts.is_fatal and self._is_of_cluster:
                counts = replace(counts, failure=f"machine {platform.node()}: {counts.failure}")
        return {"counts": pickle.dumps(counts)}


def scan_slices(
    settings: ScanSettings,
    shards: list[str],
    chosen: Chosen,
    ledger: Ledger,
    show: ShowUnderWay | None = None,
    *,
    engines: EnginePool,
) -> Generator[SliceCounts, None, None]:
    """Scan the slices of these shards that have no result in the ledger; yield what came of each. show: None if
    progress is hidden; then nothing is counted before a slice has ended."""
    ledger, wanted = only_shards(shards, ledger), program() if engines.is_of_cluster else None

    def list_shard(row: dict[str, Any]) -> Iterator[dict[str, bytes]]:
        if wanted is not None and (why := other_program(wanted)):
            yield {"listed": pickle.dumps(SliceCounts(failure=f"machine {platform.node()}: {why}", is_fatal=True))}
            return
        for task in listed(settings, [shards[int(row["number"])]], chosen, ledger):
            yield {"listed": pickle.dumps(task)}

    with _shown(show) as (on_progress, ended):
        num_at_once = min(len(shards), num_slicers(engines.size, engines.max_size))
        num_tasks = min(len(shards), max(num_at_once, len(shards) // SHARDS_PER_TASK))
        numbers = ray.data.from_items([{"number": n} for n in range(len(shards))], override_num_blocks=num_tasks)
        slices = numbers.flat_map(list_shard, num_cpus=SLICER_CPUS, compute=ray.data.TaskPoolStrategy(size=num_at_once))
        counted = slices.map(
            SliceScannerActor,
            fn_constructor_args=(settings, on_progress, wanted),
            compute=ray.data.ActorPoolStrategy(
                min_size=engines.size,
                max_size=engines.max_size,
                max_concurrent_calls_per_actor=settings.slices_at_once,
                enable_true_multi_threading=settings.slices_at_once > 1,
            ),
            num_cpus=engines.num_cpus - SLICER_CPUS,
            num_gpus=engines.num_gpus,
        )
        for row in counted.iter_rows():
            counts: SliceCounts = pickle.loads(row["counts"])
            ended(counts.name)
            yield counts


def of_each_shard(work: Callable[[str], Figure], shards: list[str]) -> list[Figure]:
    """Return what `work` gives for each shard, in order; the cluster does the listing. SourceError if it fails."""

    def worked(number: int) -> tuple[int, Figure | PrivsieveError]:
        try:
            return number, work(shards[number])
        except PrivsieveError as error:
            return number, error

    figures: dict[int, Figure] = {}
    for number, figure in each_on_ray(worked, len(shards), SLICER_CPUS):
        if isinstance(figure, PrivsieveError):
            raise SourceError(str(figure))
        figures[number] = figure
    return [figures[n] for n in range(len(shards))]


EVERY_S = 1.0
ANSWER_LIMIT_S = 10.0


class UnderWay:
    """An actor: how many images are done in slices that have not ended. If it is lost, Ray starts another, and progress
    is by whole slices for a moment."""

    def __init__(self) -> None:
        self._num_done: dict[str, int] = {}
        self._is_begun = False

    def on_progress(self, slice_name: str, num_images: int) -> None:
        self._is_begun = True
        if slice_name:
            self._num_done[slice_name] = num_images

    def ask(self, ended: list[str]) -> dict[str, int] | None:
        """Return images by slice, and forget those that have ended; None before an engine is loaded."""
        for name in ended:
            self._num_done.pop(name, None)
        return self._num_done if self._is_begun else None


class Reports:
    """The engine's part: sends to the actor what it has done, once a second."""

    def __init__(self, actor: Any):
        self._actor = actor
        self._next_s = 0.0

    def __call__(self, slice_name: str, num_images: int) -> None:
        now_s = time.monotonic()
        if not slice_name or now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            self._actor.on_progress.remote(slice_name, num_images)


@contextmanager
def _shown(show: ShowUnderWay | None) -> Iterator[tuple[OnProgress, Callable[[str], None]]]:
    """Ask the actor once a second within the block, and show the sum. Yield what engines call, and what the driver
    calls with the name of each slice that has ended, which it counts as a whole from then on."""
    if show is None:
        yield no_progress, lambda name: None
        return
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    actor = ray.remote(num_cpus=0, max_restarts=-1, scheduling_strategy=here)(UnderWay).remote()
    lock, is_over = threading.Lock(), threading.Event()
    num_done, names_ended = dict[str, int](), list[str]()

    def follow() -> None:
        while not is_over.wait(EVERY_S):
            with lock:
                sent = list(names_ended)
            try:
                answer = ray.get(actor.ask.remote(sent), timeout=ANSWER_LIMIT_S)
            except ray.exceptions.RayError:
                continue
            with lock:
                del names_ended[: len(sent)]
                if answer is not None and not is_over.is_set():
                    num_done.clear()
                    num_done.update((name, number) for name, number in answer.items() if name not in names_ended)
                    show(sum(num_done.values()))

    def ended(name: str) -> None:
        with lock:
            names_ended.append(name)
            if num_done.pop(name, None) is not None:
                show(sum(num_done.values()))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield Reports(actor), ended
    finally:
        is_over.set()
        thread.join(ANSWER_LIMIT_S)
        ray.kill(actor)
