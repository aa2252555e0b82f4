"""Batches of samples, several at once in the hands of the engine, their rows in order."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice

import pyarrow as pa

from ingest.sample import Sample
from ingest.slices import MAX_BYTES

BATCH_SAMPLES = 16
"""Images decoded and scored together: bounds the pixels in memory. Fewer where their files take `MAX_BYTES`."""


def batches(samples: Iterator[Sample]) -> Iterator[list[Sample]]:
    """The samples in lists, each of `BATCH_SAMPLES` or less."""
    batch, num_bytes = list[Sample](), 0
    for sample in samples:
        batch.append(sample)
        num_bytes += len(sample.encoded)
        if len(batch) == BATCH_SAMPLES or num_bytes >= MAX_BYTES:
            yield batch
            batch, num_bytes = [], 0
    if batch:
        yield batch


def rows_in_order(
    samples: Iterator[Sample],
    score: Callable[[list[Sample]], pa.Table],
    threads: ThreadPoolExecutor,
    batches_at_once: int,
    queued: Callable[[int], None],
) -> Iterator[pa.Table]:
    """The rows of each batch, in order; up to `batches_at_once` of them are being scored.

    queued: takes the number of images that were read to be scored, and minus that number once they are.
    """
    waiting = batches(samples)
    if batches_at_once == 1:  # in the thread of the caller, which Ctrl-C ends
        yield from (_scored_here(batch, score, queued) for batch in waiting)
        return
    being_scored: deque[Future[pa.Table]] = deque()
    while True:
        for batch in islice(waiting, batches_at_once - len(being_scored)):
            queued(len(batch))
            being_scored.append(threads.submit(score, batch))
            being_scored[-1].add_done_callback(partial(_scored, queued, len(batch)))
        if not being_scored:
            return
        yield being_scored.popleft().result()


def _scored_here(
    batch: list[Sample], score: Callable[[list[Sample]], pa.Table], queued: Callable[[int], None]
) -> pa.Table:
    queued(len(batch))
    try:
        return score(batch)
    finally:
        queued(-len(batch))


def _scored(queued: Callable[[int], None], num_images: int, _: "Future[pa.Table]") -> None:
    queued(-num_images)
