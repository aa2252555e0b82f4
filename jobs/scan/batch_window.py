"""Batches of samples on their way to the engine, several at once, with their rows in order.

`Flow` counts where the pictures of a worker are; `Room` says how far reading may be ahead of the engine.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from ingest.sample import MAX_BYTES, Sample


class Flow:
    """Counts where slices and pictures are. Safe to use from several threads.

    Places of slices: slices (under way), reading, writing, rows (waiting for answers) and memory (waiting for answers
    while as many bytes as allowed are ahead). Place of pictures: decoding.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = Counter[str]()
        self.bytes_ahead = 0
        """Size of files and pixels that were read and have no answer yet."""
        self._most_bytes_ahead = 0

    @contextmanager
    def at(self, stage: str, number: int = 1) -> Iterator[None]:
        """Count the images at the stage for the length of the block."""
        self.moved(stage, number)
        try:
            yield
        finally:
            self.moved(stage, -number)

    def moved(self, stage: str, number: int) -> None:
        with self._lock:
            self._numbers[stage] += number

    def held(self, num_bytes: int) -> None:
        """Add to the bytes ahead of the engine; negative: subtract."""
        with self._lock:
            self.bytes_ahead += num_bytes
            self._most_bytes_ahead = max(self._most_bytes_ahead, self.bytes_ahead)

    def now(self) -> Counter[str]:
        """Return place -> number."""
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
    queued: Callable[[int], None],
) -> Iterator[pa.Table]:
    """Yield the rows of each batch, in order; while there is room, further batches are scored next to the first.

    waiting: batches. room: None for one batch at a time, in the thread of the caller, which Ctrl-C ends. Even without
    room each slice has a batch under way, so that none waits forever. queued: takes the number of images that were read
    to be scored, and minus that number once they are.
    """
    if room is None:
        yield from (_scored_here(batch, score, queued) for batch in waiting)
        return
    being_scored: deque[Future[pa.Table]] = deque()
    while True:
        while not being_scored or room.is_left:
            with flow.at("reading"):
                batch = next(waiting, None)
            if batch is None:
                break
            queued(len(batch))
            room.entered(1)
            being_scored.append(threads.submit(score, batch))
            being_scored[-1].add_done_callback(partial(_scored, queued, room, len(batch)))
        if not being_scored:
            return
        with flow.at("memory" if room.is_full_of_bytes else "rows"):
            rows = being_scored.popleft().result()
        yield rows


def _scored_here(
    batch: list[Sample], score: Callable[[list[Sample]], pa.Table], queued: Callable[[int], None]
) -> pa.Table:
    queued(len(batch))
    try:
        return score(batch)
    finally:
        queued(-len(batch))


def _scored(queued: Callable[[int], None], room: Room, num_images: int, _: "Future[pa.Table]") -> None:
    room.entered(-1)
    queued(-num_images)
