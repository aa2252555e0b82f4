"""Samples -> rows: decode, ask the engine, make the table. Pixels meet an engine only here.

Several batches may be on their way to the engine at once, with their rows in order. `Flow` counts where the pictures of
a worker are; `Room` says how far reading may be ahead of the engine.
"""

import hashlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa

from ingest.errors import Fault
from ingest.images.decode import DecodedImage, Rejected, decode
from ingest.images.phash import phash
from ingest.images.pixels import ImageLimits
from ingest.sample import MAX_BYTES, Sample
from jobs.runtime.hash_list import NOTHING, HashList
from scoring.assessment import Engine, View, worst
from scoring.captions import caption_kinds
from scoring.screen.guard import is_guarded
from scoring.screen.modalities import PictureView
from scoring.screen.model import FittedScreen, Screener
from scoring.table import FULL, GUARD, LISTED, NO_LOOK, SCREEN, Facts, FirstLook, ScreenedOut, Verdict, to_table

Made = TypeVar("Made")


class Flow:
    """Counts how many slices and pictures are at each stage. Safe to use from several threads.

    Stages of slices: slices (under way), reading, writing, rows (waiting for answers) and memory (waiting for answers
    while no more bytes may be read ahead). Stage of pictures: decoding.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = Counter[str]()
        self.bytes_ahead = 0
        """Size of files and pixels that were read and have no answer yet."""
        self._most_bytes_ahead = 0

    @contextmanager
    def at(self, stage: str, number: int = 1) -> Iterator[None]:
        """Count `number` slices or pictures at the stage while the block runs."""
        with self._lock:
            self._numbers[stage] += number
        try:
            yield
        finally:
            with self._lock:
                self._numbers[stage] -= number

    def held(self, num_bytes: int) -> None:
        """Add to the bytes ahead of the engine; negative: subtract."""
        with self._lock:
            self.bytes_ahead += num_bytes
            self._most_bytes_ahead = max(self._most_bytes_ahead, self.bytes_ahead)

    def now(self) -> Counter[str]:
        """Return stage -> number."""
        with self._lock:
            return self._numbers.copy()

    def most_bytes_ahead(self) -> int:
        """Return the most bytes ahead since the last call."""
        with self._lock:
            most, self._most_bytes_ahead = self._most_bytes_ahead, self.bytes_ahead
            return most


BATCH_SAMPLES = 16
"""Images decoded and scored together: limits the pixels in memory. Fewer if their files take `MAX_BYTES`."""

SCREENED_SAMPLES = 4 * BATCH_SAMPLES
"""Images of a batch in front of which a screen stands: it leaves most of them out, and asking the engine about one or
two pictures takes nearly as long as asking about `BATCH_SAMPLES`."""

MAX_BYTES_AHEAD = 2 * 2**30
"""Limit on files and pixels, read but not answered, of all slices of a worker, without those being decoded."""

MAX_BATCHES = 160
"""Limit on batches at once, of all slices of a worker; each has a thread, which mostly waits."""


def batches(samples: Iterator[Sample], most: int = BATCH_SAMPLES) -> Iterator[list[Sample]]:
    """Yield the samples in lists of at most `most`."""
    batch, num_bytes = list[Sample](), 0
    for sample in samples:
        batch.append(sample)
        num_bytes += len(sample.encoded)
        if len(batch) == most or num_bytes >= MAX_BYTES:
            yield batch
            batch, num_bytes = [], 0
    if batch:
        yield batch


class Room:
    """How far reading may be ahead of the engine, over all slices of a worker."""

    def __init__(self, flow: Flow, max_pictures: Callable[[], int]):
        """Limit reading. max_pictures: read, not answered; asked repeatedly, since an engine learns what it takes."""
        self._flow = flow
        self._max_pictures = max_pictures
        self._lock = threading.Lock()
        self._num_batches = 0

    @property
    def is_left(self) -> bool:
        max_batches = min(MAX_BATCHES, -(-self._max_pictures() // BATCH_SAMPLES))
        return self._num_batches < max_batches and not self.is_full_of_bytes

    @property
    def is_full_of_bytes(self) -> bool:
        return self._flow.bytes_ahead >= MAX_BYTES_AHEAD

    def entered(self, number: int) -> None:
        """Add to the number of batches under way."""
        with self._lock:
            self._num_batches += number


def rows_in_order(
    waiting: Iterator[list[Sample]],
    score: Callable[[list[Sample]], pa.Table],
    threads: ThreadPoolExecutor,
    room: Room | None,
    flow: Flow,
) -> Iterator[pa.Table]:
    """Yield the rows of each batch, in order; while there is room, further batches are scored next to the first.

    waiting: batches. room: None for one batch at a time, in the thread of the caller, which Ctrl-C ends. Even without
    room each slice has a batch under way, so that none waits forever.
    """
    if room is None:
        yield from map(score, waiting)
        return
    being_scored: deque[Future[pa.Table]] = deque()
    while True:
        while not being_scored or room.is_left:
            with flow.at("reading"):
                further = next(waiting, None)
            if further is None:
                break
            room.entered(1)
            being_scored.append(threads.submit(score, further))
            being_scored[-1].add_done_callback(lambda _: room.entered(-1))
        if not being_scored:
            return
        with flow.at("memory" if room.is_full_of_bytes else "rows"):
            rows = being_scored.popleft().result()
        yield rows


ON_HASH_LIST = Fault(LISTED, "it is on the hash list of the scan")


class BatchScorer:
    """Scores a few samples at a time; `num_threads` decode, since decoders release Python's lock."""

    def __init__(
        self,
        engine: Engine,
        limits: ImageLimits,
        num_threads: int,
        uses_caption: bool = False,
        hash_list: HashList = NOTHING,
        flow: Flow | None = None,
        screen: FittedScreen | None = None,
    ):
        """Create a scorer. uses_caption: `EngineDescription.uses_caption`. hash_list: pictures that the engine never
        sees; if it has PDQ hashes, `limits.has_pdq` must be set. flow: counts what is being decoded and scored; None:
        not needed. screen: looks first, at the pixels that are decoded for the engine; EngineError if it cannot run
        here."""
        self._engine = engine
        self._flow = flow or Flow()
        self._hash_list = hash_list
        self._uses_caption = uses_caption
        self._screen = screen
        self._screener = None if screen is None else Screener(screen)
        self._limits = limits
        self._threads = ThreadPoolExecutor(num_threads)

    def rows(self, samples: Sequence[Sample]) -> pa.Table:
        """Return one row of `scoring.table.SCHEMA` per sample, in order."""
        num_bytes = sum(len(sample.encoded) for sample in samples)
        self._flow.held(num_bytes)
        try:
            tables = [self._first_rows(samples)]
            while (num_rows := sum(table.num_rows for table in tables)) < len(samples):
                tables.append(self._first_rows(samples[num_rows:]))
            return pa.concat_tables(tables)
        finally:
            self._flow.held(-num_bytes)

    def _first_rows(self, samples: Sequence[Sample]) -> pa.Table:
        """Return the rows of the first samples: of as many as have `BATCH_SAMPLES` pictures for the engine, or of all.
        No more than these are decoded at a time."""
        seen, num_for_engine, num_bytes = list[_Seen](), 0, 0
        try:
            while num_for_engine < BATCH_SAMPLES and len(seen) < len(samples):
                more = self._seen(samples[len(seen) : len(seen) + BATCH_SAMPLES - num_for_engine])
                seen += more
                decoded = [each.image for each in more if isinstance(each.image, DecodedImage)]
                more_bytes = sum(view.nbytes for image in decoded for view in image.views)
                self._flow.held(more_bytes)
                num_bytes += more_bytes
                num_for_engine += len(decoded)
            return to_table([each.facts for each in seen], self._verdicts(seen), [each.look for each in seen])
        finally:
            self._flow.held(-num_bytes)

    def _seen(self, samples: Sequence[Sample]) -> list["_Seen"]:
        with self._flow.at("decoding", len(samples)):
            looked = self._all(self._look, samples)
            hashes = [facts.sha256 for facts, _ in looked], [facts.pdq for facts, _ in looked]
            pictures: list[tuple[Facts, DecodedImage | Fault]] = [  # of those on the hash list only where they are
                (Facts.of_listed(facts.shard, facts.index), ON_HASH_LIST) if clearance == "listed" else (facts, image)
                for (facts, image), clearance in zip(looked, self._hash_list.clearances(*hashes), strict=True)
            ]
            has_screen = self._screen is not None
            looks = self._all(self._first_look, samples, pictures) if has_screen else [NO_LOOK] * len(samples)
        return [
            _Seen(facts, ScreenedOut() if look.stage == SCREEN else image, look, sample.caption)
            for sample, (facts, image), look in zip(samples, pictures, looks, strict=True)
        ]

    def _all(self, function: Callable[..., Made], *arguments: Iterable[Any]) -> list[Made]:
        """Return what the threads make of each. Unlike `Executor.map`, the caller wakes once and not for each result:
        every change of thread costs about as much as cutting a picture into patches."""
        futures = [self._threads.submit(function, *given) for given in zip(*arguments, strict=True)]
        wait(futures)
        return [future.result() for future in futures]

    def _look(self, sample: Sample) -> tuple[Facts, DecodedImage | Fault]:
        before = facts_of(sample)
        if before.sha256 in self._hash_list.sha256:
            return before, ON_HASH_LIST
        decoded = sample.fault or decode(sample.encoded, self._limits)
        return _decoded_facts(before, decoded), decoded

    def _first_look(self, sample: Sample, seen: tuple[Facts, DecodedImage | Fault]) -> FirstLook:
        facts, image = seen
        if self._screen is None or self._screener is None or not isinstance(image, DecodedImage):
            return NO_LOOK
        sha256, threshold = facts.sha256 or "", self._screen.record.bound.threshold
        probability = self._screener.probability(picture_views(image, sha256, sample.caption))
        if probability is None or probability >= threshold:
            return FirstLook(FULL, probability)
        stage = GUARD if is_guarded(sha256, self._screen.record.guard_share) else SCREEN
        return FirstLook(stage, probability)

    def _verdicts(self, seen: Sequence["_Seen"]) -> list[Verdict]:
        """Return the verdicts. The engine sees none of the pictures that the screen left out."""
        views = [
            View(pixels, each.image.metadata, each.facts.sha256 or "", each.caption if self._uses_caption else None)
            for each in seen
            if isinstance(each.image, DecodedImage)
            for pixels in each.image.views
        ]
        outcomes = iter(self._engine.assess(views) if views else [])
        return [
            worst(list(islice(outcomes, len(image.views)))) if isinstance(image, DecodedImage) else image
            for image in (each.image for each in seen)
        ]


@dataclass(frozen=True)
class _Seen:
    """A sample that was decoded, and what a screen says of it."""

    facts: Facts
    image: DecodedImage | Fault | ScreenedOut
    look: FirstLook
    caption: str | None


def picture_views(image: DecodedImage, sha256: str, caption: str | None) -> list[PictureView]:
    """Return what a screen sees of a picture."""
    views = (View(pixels, image.metadata, sha256, caption) for pixels in image.views)
    return [PictureView(view, image.width, image.height) for view in views]


def facts_of(sample: Sample) -> Facts:
    """Return what is known of a sample before it is decoded."""
    has_bytes = sample.fault is None
    return Facts(
        shard=sample.shard,
        index=sample.index,
        key=sample.key,
        category=sample.category,
        num_bytes=len(sample.encoded) if has_bytes else None,
        sha256=hashlib.sha256(sample.encoded).hexdigest() if has_bytes else None,
        url_sha256=sample.url_sha256,
        domain=sample.domain,
        caption_kinds=None if sample.caption is None else caption_kinds(sample.caption),
    )


def _decoded_facts(before: Facts, decoded: DecodedImage | Fault) -> Facts:
    if isinstance(decoded, DecodedImage):
        return replace(
            before,
            width=decoded.width,
            height=decoded.height,
            format=decoded.format,
            num_frames=decoded.num_frames,
            num_frames_scanned=decoded.num_frames_decoded,
            unseen=decoded.unseen,
            unseen_bytes=decoded.unseen_bytes,
            phash=phash(decoded.views[0]),
            pdq=decoded.pdq,
        )
    if isinstance(decoded, Rejected):
        return replace(before, width=decoded.width, height=decoded.height, format=decoded.format)
    return before
