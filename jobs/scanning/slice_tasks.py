"""The work of a scan by slices: which samples are chosen, what every worker must know, what is listed of a shard, what
a worker answers, and the watchdog that ends it.

All samples are chosen, the first N, or a uniform random N: of the whole corpus, of each category, or of shards that
were drawn before. A draw needs the number of samples in each shard, so the shards are listed once before. The same
source, N and seed always give the same samples.
"""

import faulthandler
import hashlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import numpy as np

from ingest.errors import PrivsieveError, SourceError, StorageError
from ingest.formats import Source
from ingest.images.pixels import ImageLimits
from ingest.sample import MAX_BYTES, Slice, cut, printable
from ingest.storage.place import Place
from jobs.runtime.hash_list import NOTHING, HashList
from scoring.assessment import EngineDescription, EngineOptions
from scoring.runs import ATTEMPTS
from scoring.runs.attempts import GIVE_UP_AFTER_DEATHS, Attempts, listing_of
from scoring.runs.ledger import Ledger, has_result, result_name, shard_id_in
from scoring.screen.model import FittedScreen

Item = TypeVar("Item")

Chosen = dict[str, list[int]] | None
"""Shard -> ascending indices of its chosen samples; None: all samples of all shards."""


def first(shards: Sequence[str], counts: Iterable[int], limit: int) -> dict[str, list[int]]:
    """Return the first `limit` samples in the order of the shards; empty shards among them are chosen, too.

    counts: of the samples of each shard; no more are asked for than needed.
    """
    chosen: dict[str, list[int]] = {}
    for shard, count in zip(shards, counts, strict=True):
        chosen[shard] = list(range(min(count, limit)))
        limit -= len(chosen[shard])
        if not limit:
            break
    return chosen


def draw(shards: Sequence[str], counts: Sequence[int], num_samples: int, seed: int) -> dict[str, list[int]]:
    """Draw a uniform sample without replacement (numpy's PCG64). SourceError if the shards hold fewer."""
    total = sum(counts)
    if num_samples > total:
        raise SourceError(f"--sample {num_samples} of a corpus of {total}: leave --sample out to scan all")
    ordinals = np.sort(np.random.default_rng(seed).choice(total, num_samples, replace=False, shuffle=False))
    ends = np.cumsum(counts)
    chosen: dict[str, list[int]] = {}
    for shard, end, count in zip(shards, ends, counts, strict=True):
        inside = ordinals[(ordinals >= end - count) & (ordinals < end)] - (end - count)
        if len(inside):
            chosen[shard] = [int(i) for i in inside]
    return chosen


def draw_shards(shards: Sequence[str], num_shards: int, seed: int) -> list[str]:
    """Draw shards uniformly without replacement, in their order. SourceError unless it leaves some out.

    The generator (numpy's PCG64) is not that of `draw`, so that which images are drawn does not depend on it.
    """
    if num_shards >= len(shards):
        raise SourceError(f"--shards {num_shards} of a source of {len(shards)}: leave --shards out to draw from all")
    drawn = np.random.default_rng([seed, num_shards]).choice(len(shards), num_shards, replace=False, shuffle=False)
    return [shards[n] for n in np.sort(drawn)]


def draw_per_category(
    shards: Sequence[str], categories: Sequence[Sequence[str | None]], num_samples: int, seed: int
) -> tuple[dict[str, list[int]], int]:
    """Draw `num_samples` images of each category uniformly, all of a smaller one; count images without a category.

    categories: of each sample of each shard. Each category is drawn with a generator of its own (numpy's PCG64, seeded
    with `seed` and a hash of the category), so that other categories do not change which of its images are drawn.
    Images without a category are not drawn. SourceError if no image has one.
    """
    places: dict[str, list[tuple[int, int]]] = {}
    num_without = 0
    for number, of_shard in enumerate(categories):
        for index, category in enumerate(of_shard):
            if category is None:
                num_without += 1
            else:
                places.setdefault(category, []).append((number, index))
    if not places:
        raise SourceError("--per-category, but no image has a category: name what gives it with --category or --labels")
    drawn: list[tuple[int, int]] = []
    for category, members in places.items():
        own = int.from_bytes(hashlib.sha256(category.encode()).digest()[:8], "big")
        size = min(num_samples, len(members))
        taken = np.random.default_rng([seed, own]).choice(len(members), size, replace=False, shuffle=False)
        drawn += [members[n] for n in taken]
    chosen: dict[str, list[int]] = {}
    for number, index in sorted(drawn):
        chosen.setdefault(shards[number], []).append(index)
    return chosen, num_without


def selected(slices: Iterator[Slice], shard: str, indices: list[int] | None) -> Iterator[Slice]:
    """Return the slices of a shard, or, with chosen indices, slices of these samples only.

    The size of a single sample is no longer known; it counts as its share of the most that its slice may hold.
    """
    if indices is None:
        return slices
    wanted = frozenset(indices)
    weighed = ((locator, MAX_BYTES // len(slice_.locators)) for slice_ in slices for locator in slice_.locators)
    return cut(shard, ((locator, num_bytes) for locator, num_bytes in weighed if locator["index"] in wanted))


PLAIN = EngineDescription(name="", protocol="", assessed=())
"""An engine without a GPU that takes one batch at a time, no caption and any packages."""


@dataclass(frozen=True)
class ScanSettings:
    """Sent to each worker once."""

    source: Source

    run: Place

    engine: str
    """A name of `scoring.engines.ENGINES`."""

    options: EngineOptions

    limits: ImageLimits

    settings_hash: str
    """`RunRecord.settings_hash`, for the footers of results."""

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

    engine_record: Mapping[str, Any] = field(default_factory=dict)
    """The engine as run.json describes it. It says which answers are private; the guard of a screen counts these."""

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

    is_last: bool = False
    """Whether it was the last slice of its shard."""

    failure: str = ""
    """Why there is no result; empty if there is one."""

    is_fatal: bool = False
    """Whether no other slice would get a result either."""

    is_handed_back: bool = False
    """Whether nothing was tried, since the machine has no engine. On a cluster another one may scan the slice."""

    machine: str = ""
    """Host name of the machine that handed it back."""

    node_id: str = ""
    """Ray's name of that machine."""

    name: str = ""
    """`SliceTask.name`; empty for a listing."""

    built_with: str = ""
    """`scoring.assessment.TakesSteps.built_with` as JSON; empty for other engines."""

    engine_time: str = ""
    """`EngineTime` as JSON, since the same worker last answered; empty if nothing is measured."""

    guard: str = ""
    """`GuardCounts.text` of the slice; empty without a screen."""


def slices_left(settings: ScanSettings, shard: str, chosen: Chosen, ledger: Ledger) -> Iterator[SliceTask]:
    """Yield the slices of a shard without a result, as they are listed.

    chosen: which samples are scanned at all. ledger: of the run. SourceError or StorageError if the shard cannot be
    listed, or if its listing killed one worker after another.
    """
    source, attempts = settings.source, Attempts(settings.run.at(ATTEMPTS))
    listing, before = listing_of(shard_id_in(shard, ledger)), hashlib.sha256()
    try:
        if attempts.begin(listing).deaths >= GIVE_UP_AFTER_DEATHS:
            raise StorageError(f"{printable(shard)}: its listing has killed a worker {GIVE_UP_AFTER_DEATHS} times")
        version_mark, fingerprint = source.version_mark(shard), source.fingerprint(shard)
        slices = selected(source.slices(shard), shard, None if chosen is None else chosen[shard])
        for slice_ in watched(slices, settings.stall_s):
            after = before.copy()
            after.update(slice_.listing_json().encode())
            if not has_result(shard, slice_.number, slice_.is_last, ledger):
                name = result_name(shard, slice_.number, slice_.is_last, ledger)
                yield SliceTask(slice_, name, f"{before.hexdigest()} {after.hexdigest()}", version_mark, fingerprint)
            before = after
        attempts.end(listing)
    except PrivsieveError as error:
        with suppress(StorageError):
            attempts.fail(listing, str(error))
        raise


_lock = threading.Lock()
_deadlines: dict[object, float] = {}
"""Deadlines of all that `watched` waits for in this process."""

_LATE = 0.05
"""Part of the time by which the process may end later than a deadline: setting the timer starts a thread, so it is not
set again for each batch."""

_fires_at = math.inf
"""When the timer ends the process; infinite while it is not set."""


def watched(items: Iterable[Item], stall_s: float) -> Iterator[Item]:
    """Yield the items as they come; end the process if one takes more than `stall_s`. The caller's time does not count.

    The timer is C's (`faulthandler.dump_traceback_later`) and needs no Python lock, so no image can delay it. A process
    has only one; if several slices are under way, it is set to the earliest of their deadlines.
    """
    work, source = object(), iter(items)
    while True:
        _set(work, time.monotonic() + stall_s)
        try:
            item = next(source)
        except StopIteration:
            return
        finally:
            _set(work, None)
        yield item


@cache
def _nowhere() -> int:
    """Return the file descriptor that the timer writes to when it fires."""
    return os.open(os.devnull, os.O_WRONLY)


def _set(work: object, deadline: float | None) -> None:
    global _fires_at
    with _lock:
        _deadlines.pop(work, None)
        if deadline is not None:
            _deadlines[work] = deadline
        earliest = min(_deadlines.values(), default=math.inf)
        left_s = max(0.01, earliest - time.monotonic())
        latest = earliest + _LATE * left_s
        if earliest <= _fires_at <= latest:
            return
        _fires_at = math.inf
        faulthandler.cancel_dump_traceback_later()
        if _deadlines:
            faulthandler.dump_traceback_later((1 + _LATE) * left_s, exit=True, file=_nowhere())
            _fires_at = latest


def noticing_silence(items: Iterable[Item], limit_s: float, tell: Callable[[], object]) -> Iterator[Item]:
    """Yield the items as they come. Call `tell`, in another thread, if the next one takes longer than `limit_s`.

    The driver needs it since a worker that is stopped (SIGSTOP) cannot be ended by its own watchdog.
    """
    source = iter(items)
    while True:
        timer = threading.Timer(limit_s, tell)
        timer.daemon = True
        timer.start()
        try:
            item = next(source)
        except StopIteration:
            return
        finally:
            timer.cancel()
        yield item
