"""The work of a scan by slices: what every worker must know, what a shard still lacks, and what a worker answers."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from ingest.errors import PrivsieveError, StorageError
from ingest.formats import Source
from ingest.sample import Slice, printable
from ingest.storage.place import Place
from jobs.runtime.hash_list import NOTHING, HashList
from jobs.scanning.chosen import Chosen, selected
from jobs.scanning.watchdog import watched
from scoring.assessment import BuiltWith, EngineDescription, EngineOptions
from scoring.runs import ATTEMPTS
from scoring.runs.attempts import GIVE_UP_AFTER_DEATHS, Attempts, EngineTime, listing_of
from scoring.runs.ledger import Ledger, has_result, result_name, shard_id_of
from scoring.runs.record import RunRecord
from scoring.screen.guard import GuardCounts
from scoring.screen.model import FittedScreen

PLAIN = EngineDescription(name="", protocol="", assessed=())
"""An engine without a GPU that takes one batch at a time, no caption and any packages."""


@dataclass(frozen=True)
class ScanSettings:
    """Sent to each worker once."""

    source: Source
    run: Place

    record: RunRecord
    """What run.json says; it names the engine and the limits, and which answers are private."""

    options: EngineOptions

    code: str
    """`RunRecord.code` of this program, for the footers of results."""

    stall_s: float = 600
    """Seconds without a finished batch after which a worker ends."""

    image_memory_bytes: int | None = None
    """What the child that scans image by image may take; None: half of what is free."""

    num_decode_threads: int = 2

    description: EngineDescription = PLAIN
    """The engine as this scan described it. Every worker must have the same packages."""

    hash_list: HashList = NOTHING
    """Pictures that no engine may see."""

    screen: FittedScreen | None = None
    """Looks first, and leaves pictures out."""

    @property
    def engine(self) -> str:
        """A name of `scoring.engines.ENGINES`."""
        return self.record.engine["name"]

    @cached_property
    def settings_hash(self) -> str:
        """`RunRecord.settings_hash`, for the footers of results."""
        return self.record.settings_hash()

    @property
    def slices_at_once(self) -> int:
        """Return how many slices a worker scans at once: two if several batches are under way, to avoid gaps."""
        return 2 if self.description.batches_at_once > 1 else 1


ShowUnderWay = Callable[[int], object]
"""Takes the number of images done in slices that have not ended. The first call, with 0: an engine is loaded."""


@dataclass(frozen=True)
class SliceTask:
    """One slice to scan, and what the footer of its result says (`scoring.runs.footers`)."""

    slice: Slice

    name: str
    """Name of the result file."""

    listing_digests: str
    """Two hashes with a space between: of what the shard listed before this slice, and up to its end."""

    version_mark: str
    """`ingest.formats.Source.version_mark` of the shard when it was listed; quick to compare."""

    fingerprint: str
    """`ingest.formats.Source.fingerprint` of the shard when it was listed."""


@dataclass(frozen=True)
class SliceCounts:
    """What came of one slice, or of listing a shard."""

    num_rows: int = 0

    num_kept: int = 0
    """How many of them an earlier attempt has scanned."""

    is_last: bool = False
    """Whether it was the last slice of its shard."""

    failure: str = ""
    """Why there is no result; empty if there is one."""

    is_fatal: bool = False
    """Whether no other slice would get a result either."""

    name: str = ""
    """`SliceTask.name`; empty for a listing."""

    built_with: BuiltWith | None = None
    """`scoring.assessment.TakesSteps.built_with`; None for other engines."""

    engine_time: EngineTime | None = None
    """Since the same worker last answered; None if nothing is measured."""

    guard: GuardCounts | None = None
    """None without a screen."""


def listed(
    settings: ScanSettings, shards: list[str], chosen: Chosen, ledger: Ledger
) -> Iterator[SliceTask | SliceCounts]:
    """Yield the slices without a result, and why a shard cannot be listed."""
    for shard in shards:
        try:
            yield from slices_left(settings, shard, chosen, ledger)
        except PrivsieveError as error:
            yield SliceCounts(failure=str(error))


def slices_left(settings: ScanSettings, shard: str, chosen: Chosen, ledger: Ledger) -> Iterator[SliceTask]:
    """Yield the slices of a shard without a result, as they are listed.

    chosen: which samples are scanned at all. ledger: of the run. SourceError or StorageError if the shard cannot be
    listed, or if its listing killed one worker after another.
    """
    source, attempts = settings.source, Attempts(settings.run.at(ATTEMPTS))
    listing, before = listing_of(shard_id_of(shard)), hashlib.sha256()
    try:
        if attempts.begin(listing).deaths >= GIVE_UP_AFTER_DEATHS:
            raise StorageError(f"{printable(shard)}: its listing has killed a worker {GIVE_UP_AFTER_DEATHS} times")
        version_mark, fingerprint = source.version_mark(shard), source.fingerprint(shard)
        slices = selected(source.slices(shard), shard, None if chosen is None else chosen[shard])
        for slice_ in watched(slices, settings.stall_s):
            after = before.copy()
            after.update(slice_.to_json().encode())
            if not has_result(shard, slice_.number, slice_.is_last, ledger):
                name = result_name(shard, slice_.number, slice_.is_last)
                yield SliceTask(slice_, name, f"{before.hexdigest()} {after.hexdigest()}", version_mark, fingerprint)
            before = after
        attempts.end(listing)
    except PrivsieveError as error:
        with suppress(StorageError):
            attempts.fail(listing, str(error))
        raise
