"""The scan in this process: the same slices, attempts and results as on Ray.

With further processes (`further_processes.py`) these take slices too. What kills a worker of Ray kills this process
where it scans the slice itself: a picture that makes a decoder crash, or one that takes longer than
`ScanSettings.stall_s`. The run knows it then; the second scan after it looks at that slice image by image, in a child
process that may die.
"""

from collections.abc import Generator, Iterator
from queue import SimpleQueue

from ingest.errors import PrivsieveError, SourceError
from ingest.formats import Source
from jobs.scan.further_processes import FurtherProcess, ProcessesUnderWay, Tasks, scan_until_it_ends
from jobs.scan.selection import Chosen
from jobs.scan.settings import ScanSettings
from jobs.scan.slice_scanner import SliceScanner
from jobs.scan.slice_tasks import ShowUnderWay, SliceCounts, SliceTask, slices_left
from scoring.runs.ledger import Ledger


def scan_slices(
    settings: ScanSettings,
    left: list[str],
    chosen: Chosen,
    ledger: Ledger,
    show: ShowUnderWay = lambda num: None,
    *,
    num_processes: int = 1,
    further_after_s: float = 0.0,
) -> Generator[SliceCounts, None, None]:
    """Scans the slices of the shards `left` that have no result in the ledger; yields what came of each.

    num_processes: with this one. further_after_s: seconds after which the others begin.
    """
    under_way, ended = ProcessesUnderWay(show), SimpleQueue[SliceCounts | None]()
    tasks = Tasks(_listed(settings, left, chosen, ledger), ended.put)
    further = [
        FurtherProcess(number, settings, tasks, ended.put, under_way, further_after_s)
        for number in range(1, num_processes)
    ]
    num_at_work = len(further)
    for process in further:
        process.start()
    scanner = SliceScanner(settings, looked_at=lambda _, num_images: under_way.looked_at(0, num_images))
    try:
        while True:
            task = tasks.take()
            if task is not None:
                ended.put(scan_until_it_ends(scanner, task))
                under_way.looked_at(0, 0)
            elif not num_at_work and ended.empty():
                return
            while not ended.empty() or (task is None and num_at_work):
                counts = ended.get()
                if counts is None:
                    num_at_work -= 1
                    break  # it may have given a slice back
                yield counts
    finally:
        for process in further:
            process.stop()
        scanner.close()


def _listed(
    settings: ScanSettings, left: list[str], chosen: Chosen, ledger: Ledger
) -> Iterator[SliceTask | SliceCounts]:
    for shard in left:
        try:
            yield from slices_left(settings, shard, chosen, ledger)
        except PrivsieveError as error:
            yield SliceCounts(failure=str(error))


def categories_of(source: Source, shards: list[str]) -> list[list[str | None]]:
    """The category of each sample of each shard, in order. SourceError where a shard cannot be listed."""
    try:
        return [list(source.categories(shard)) for shard in shards]
    except PrivsieveError as error:
        raise SourceError(f"a sample per category needs every shard listed: {error}") from None


def count_samples(source: Source, shards: list[str]) -> list[int]:
    """Samples per shard, in the order of `shards`. SourceError where one cannot be listed."""
    try:
        return [sum(len(slice_.locators) for slice_ in source.slices(shard)) for shard in shards]
    except PrivsieveError as error:
        raise SourceError(f"a sample needs every shard listed: {error}") from None
