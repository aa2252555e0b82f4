"""The scan in this process and further ones of this machine: the same slices, attempts and results as on Ray.

A picture that crashes a decoder, or takes longer than `ScanSettings.stall_s`, ends the process that scans its slice,
which may be this one. The run counts such deaths (`scoring.runs.attempts`). After two of them a slice is scanned image
by image, in a child process that may die; at last it is given up.
"""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from jobs.runtime.processes import OnProgress, shared
from jobs.scanning.chosen import Chosen
from jobs.scanning.slice_scanner import SliceScanner, WorkerCrash
from jobs.scanning.slice_tasks import ScanSettings, ShowUnderWay, SliceCounts, SliceTask, listed
from scoring.runs.ledger import Ledger


def scan_slices(
    settings: ScanSettings,
    shards: list[str],
    chosen: Chosen,
    ledger: Ledger,
    show: ShowUnderWay = lambda num: None,
    *,
    num_processes: int = 1,
    further_after_s: float = 0.0,
) -> Generator[SliceCounts, None, None]:
    """Scan the slices of these shards that have no result in the ledger; yield what came of each. num_processes,
    further_after_s: as of `shared`."""
    num_done, lock = dict[str, int](), threading.Lock()

    def on_progress(slice_name: str, num_images: int) -> None:
        """Set the images done in a slice; 0 once it has ended."""
        with lock:
            num_done[slice_name] = num_images
            if not num_images:
                del num_done[slice_name]
            show(sum(num_done.values()))

    sent = replace(settings, source=replace(settings.source, shards=()))  # names would take long to send
    for counts in shared(
        partial(scanning, sent),
        listed(settings, shards, chosen, ledger),
        num_processes=num_processes,
        further_after_s=further_after_s,
        num_threads=settings.slices_at_once,  # an engine with several batches at work would wait between two slices
        on_progress=on_progress,
    ):
        on_progress(counts.name, 0)
        yield counts


@contextmanager
def scanning(
    settings: ScanSettings, on_progress: OnProgress
) -> Iterator[Callable[[SliceTask | SliceCounts], SliceCounts]]:
    """Load the engine within the block, and yield what scans a slice."""
    scanner = SliceScanner(settings, on_progress=on_progress)

    def scanned(task: SliceTask | SliceCounts) -> SliceCounts:
        while isinstance(task, SliceTask):
            with suppress(WorkerCrash):  # counts as on Ray: soon the slice is isolated, and at last it is given up
                return scanner.scan(task)
        return task

    try:
        yield scanned
    finally:
        scanner.close()
