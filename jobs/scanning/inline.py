"""The scan in this process: the same slices, attempts and results as on Ray, one slice after the other.

What kills a worker of Ray kills this process: a picture that makes a decoder crash, or one that takes longer than
`ScanSettings.stall_s`. The run knows it then; the second scan after it looks at that slice image by image, in a
child process that may die.
"""

from collections.abc import Generator, Iterator

from ingest.errors import PrivsieveError, SourceError
from ingest.formats import Source
from jobs.scanning.selection import Chosen
from jobs.scanning.settings import ScanSettings
from jobs.scanning.slice_scanner import SliceScanner, WorkerCrash
from jobs.scanning.slice_tasks import ShowUnderWay, SliceCounts, SliceTask, slices_left
from scoring.runs.ledger import Ledger


def scan_slices(
    settings: ScanSettings, left: list[str], chosen: Chosen, ledger: Ledger, show: ShowUnderWay = lambda num: None
) -> Generator[SliceCounts, None, None]:
    """Scans the slices of the shards `left` that have no result in the ledger; yields what came of each."""
    scanner = SliceScanner(settings, looked_at=lambda _, num_images: show(num_images))
    try:
        for shard in left:
            for found in _scanned(scanner, settings, shard, chosen, ledger):
                show(0)
                yield found
    finally:
        scanner.close()


def _scanned(
    scanner: SliceScanner, settings: ScanSettings, shard: str, chosen: Chosen, ledger: Ledger
) -> Iterator[SliceCounts]:
    try:
        for task in slices_left(settings, shard, chosen, ledger):
            yield _tried_until_it_ends(scanner, task)
    except PrivsieveError as error:
        yield SliceCounts(failure=str(error))


def _tried_until_it_ends(scanner: SliceScanner, task: SliceTask) -> SliceCounts:
    """A crash of a worker counts as on Ray: soon the slice is isolated, and at last it is given up."""
    while True:
        try:
            return scanner.scan(task)
        except WorkerCrash:
            continue


def categories_of(source: Source, shards: list[str]) -> list[list[str | None]]:
    """The category of each sample of each shard, in order. SourceError where a shard cannot be listed."""
    try:
        return [list(source.categories(shard)) for shard in shards]
    except PrivsieveError as error:
        raise SourceError(f"a sample per category needs every shard listed: {error}") from None


def count_samples(source: Source, shards: list[str]) -> list[int]:
    """Samples per shard, in the order of `shards`. SourceError where one cannot be listed."""
    try:
        return [sum(len(one.locators) for one in source.slices(shard)) for shard in shards]
    except PrivsieveError as error:
        raise SourceError(f"a sample needs every shard listed: {error}") from None
