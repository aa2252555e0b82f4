"""Measures a scan by beginning it, and counts the images of a few shards."""

import io
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow.parquet as pq

from ingest.errors import PrivsieveError, SourceError, number_of
from ingest.formats import Source
from ingest.sample import printable
from ingest.storage.place import place
from jobs.runtime.progress import Feedback, Meter
from jobs.scanning.request import ScanRequest, ScanResources, ScanResult, Supervision
from jobs.scanning.run import run_scan
from scoring.runs.results import listing
from scoring.table import Col

SCAN_S = 30.0
"""Time of the scan, after an engine has been loaded."""

MAX_LISTED_SHARDS = 16
"""In a corpus with at most this many shards, the images are counted; in a larger one they are estimated."""

MAX_FILES = 20
"""Files of the run that are read."""


class Pace:
    """How many images a scan had done at which time, from when its engine was loaded."""

    def __init__(self) -> None:
        self.marks = list[tuple[float, int]]()
        """(seconds, images), ascending in both."""

        self.num_done = 0
        """Images that the run has rows of."""

        self.num_images: int | None = None
        """Images of the whole scan, if that is known."""

        self._lock, self._is_over, self._ended = threading.Lock(), False, False

    @contextmanager
    def ending_scan(self) -> Iterator[None]:
        """End the block after `SCAN_S`, as Ctrl-C would: what a scan has not finished then is left to the next one.
        PrivsieveError outside of the main thread, which alone can be interrupted."""
        if threading.current_thread() is not threading.main_thread():
            raise PrivsieveError("a plan ends its scan as Ctrl-C does, so it must be asked for in the main thread")
        try:
            try:
                yield
            finally:
                with self._lock:
                    self._is_over = True
        except KeyboardInterrupt:
            if not self._ended:
                raise

    def counted(self, meter: Meter) -> None:
        """Take the state of a meter each time that it has counted something; threads may call it."""
        with self._lock:
            now_s = time.monotonic()
            if not self.marks:
                timer = threading.Timer(SCAN_S, self._end)
                timer.daemon = True
                timer.start()
            num_scanned = meter.num_seen - meter.num_kept
            if not self.marks or num_scanned > self.marks[-1][1]:
                self.marks.append((now_s, num_scanned))
            self.num_done, self.num_images = meter.num_done, meter.num_images

    def _end(self) -> None:
        with self._lock:
            if not self._is_over:
                self._ended = True
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def begun_scan(request: ScanRequest, resources: ScanResources, feedback: Feedback) -> tuple[Pace, ScanResult | None]:
    """Scan for `SCAN_S`; return the pace, and the result if the scan came to its end. Errors as of `run_scan`."""
    pace = Pace()

    @contextmanager
    def meter(label: str, num_images: int | None) -> Iterator[Meter]:
        with feedback.meter(label, num_images) as shown:
            shown.is_shown, shown.counted = True, pace.counted
            yield shown

    result = None
    with pace.ending_scan():
        followed = Feedback(meter=meter, notice=feedback.notice)
        result = run_scan(request, resources, Supervision(), followed, in_random_order=True)
    return pace, result


@dataclass(frozen=True)
class Rows:
    """Rows of a run, of some of its files."""

    num: int
    num_quarantined: int
    num_bytes: int


def rows_of(run: str) -> Rows:
    """Return what the first `MAX_FILES` files of a run hold."""
    root = place(run)
    listed, found = listing(root), Rows(0, 0, 0)
    for path in listed.score_files[:MAX_FILES]:
        content = root.at(path).read()
        statuses = pq.read_table(io.BytesIO(content), columns=[Col.STATUS])[Col.STATUS].to_pylist()
        found = Rows(
            found.num + len(statuses),
            found.num_quarantined + statuses.count("quarantined"),
            found.num_bytes + len(content),
        )
    return found


def listed_shards(source: Source) -> list[str]:
    """Return up to `MAX_LISTED_SHARDS` random shards, the same each time."""
    return sorted(random.Random(0).sample(source.shards, min(MAX_LISTED_SHARDS, len(source.shards))))


def num_images(source: Source, shards: Sequence[str]) -> list[int]:
    """Return the number of images in each shard. SourceError if they hold none."""
    counts = [sum(len(slice_.locators) for slice_ in source.slices(shard)) for shard in shards]
    if not sum(counts):
        raise SourceError(
            f"{number_of(len(shards), 'random shard')} hold no image, {printable(shards[0])} first; nothing to plan"
        )
    return counts
