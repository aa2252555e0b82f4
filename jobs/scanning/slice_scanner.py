"""A worker of a scan: slices in, one result file each; only counts come back.

Encoded bytes are read, decoded, scored and written in one process, since moving pixels between processes costs more
than anything but the model. A slice whose worker died or hung is tried again, then isolated.
"""

import ctypes
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace

import pyarrow as pa

from ingest.errors import EngineError, SourceError, StorageError
from ingest.sample import printable
from jobs.runtime.processes import OnProgress, no_progress
from jobs.scanning.batch import BATCH_SAMPLES, MAX_BATCHES, SCREENED_SAMPLES, Flow, Room, batches, rows_in_order
from jobs.scanning.engine_host import EngineHost, NotLoadedError
from jobs.scanning.isolation import IsolationError, isolated_rows
from jobs.scanning.slice_tasks import ScanSettings, SliceCounts, SliceTask
from jobs.scanning.watchdog import watched
from scoring.assessment import NO_ANSWER_REASONS
from scoring.runs import ATTEMPTS, SCORES
from scoring.runs.attempts import GIVE_UP_AFTER_DEATHS, ISOLATE_AFTER_DEATHS, Attempt, Attempts
from scoring.runs.footers import shard_text, write_result
from scoring.screen.guard import GuardCounts, guard_counts
from scoring.table import SCHEMA, Col

MMAP_THRESHOLD, TRIM_THRESHOLD = (-3, 16 * 2**20), (-1, 64 * 2**20)
"""Parameter of mallopt(3) and its value in bytes."""


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MB of freed memory per arena for the next picture.

    By default it gives the pixels of each picture back to the system, which must then clear the same pages again for
    the next picture: a tenth of the CPU time of a scan (benchmarks.overhead). Other C libraries have no mallopt.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(*MMAP_THRESHOLD)
        mallopt(*TRIM_THRESHOLD)


KEEP_EVERY_S = 5.0
"""How often the rows of a slice under way are stored: the most that an interruption costs, with the batch at work."""


class WorkerCrash(Exception):  # noqa: N818 (the worker crashed; its caller decides whether the process ends)
    """An unforeseen exception. It is recorded as a death; the worker must not scan this slice further."""


class SliceScanner:
    """Scans one slice after the other, or several at once from as many threads."""

    def __init__(
        self,
        settings: ScanSettings,
        crashed: Callable[[], object] = lambda: None,
        on_progress: OnProgress = no_progress,
    ):
        """Load the engine. crashed: called after a crash is recorded, before `WorkerCrash`, by one thread at a time."""
        if settings.description.batches_at_once == 1:  # many threads at once would wait for each other's memory
            keep_freed_memory()
        self._settings = settings
        self._crashed = crashed
        self._on_progress = on_progress
        self._attempts = Attempts(settings.run.at(ATTEMPTS))
        self._flow = Flow()
        self._host = EngineHost(settings, self._flow)
        self._room = Room(self._flow, self._host.max_pictures) if settings.description.batches_at_once > 1 else None
        self._turns = threading.Semaphore(settings.slices_at_once)
        self._isolating = threading.Lock()
        self._crashing = threading.Lock()
        self._with_rows = set[str]()
        """Names of slices of which the run may have the first rows."""
        self._threads = ThreadPoolExecutor(MAX_BATCHES + settings.slices_at_once)
        self._broken = ""
        """Why there is no engine here; empty if there is one."""
        try:
            self._host.scorer()
        except NotLoadedError as error:
            self._broken = str(error)
        on_progress("", 0)

    def scan(self, task: SliceTask) -> SliceCounts:
        """Score a slice and write its file. WorkerCrash if an image made a decoder or engine raise."""
        if self._broken:
            return SliceCounts(failure=self._broken, is_fatal=True)
        counts = SliceCounts(len(task.slice.locators), task.slice.is_last, name=task.name)
        try:
            if self._settings.run.at(SCORES, task.name).exists():  # Ray asks again for what a lost machine had done
                return counts
            before = self._attempts.begin(task.name)
        except StorageError as error:
            return SliceCounts(failure=str(error), is_fatal=True)
        try:
            with self._flow.at("slices"):
                tables = self._tables(task, before)
                with self._flow.at("writing"):
                    guard = self._finish(task, tables)
        except NotLoadedError as error:  # again, after its room was needed for an isolated slice
            with suppress(StorageError):
                self._attempts.give_back(before)
            self._broken = str(error)
            return SliceCounts(failure=self._broken, is_fatal=True)
        except (EngineError, IsolationError, SourceError, StorageError) as error:
            with suppress(StorageError):  # where the run cannot be written to, the error itself says so
                self._attempts.fail(task.name, str(error))
            is_fatal = isinstance(error, EngineError | _WriteError)
            return SliceCounts(failure=str(error), is_fatal=is_fatal, name=task.name)
        except Exception as error:  # the edge of a slice: whatever a decoder or an engine raised counts as one death
            with self._crashing:
                with suppress(StorageError):
                    self._attempts.record_crash(task.name, type(error).__name__)
                self._crashed()
            raise WorkerCrash(type(error).__name__) from None
        with suppress(StorageError):  # a file that stays counts as a death, no more
            self._attempts.end(task.name)
            if task.name in self._with_rows:
                self._attempts.drop_rows(task.name)
                self._with_rows.discard(task.name)
        return replace(
            counts,
            num_kept=tables[0].num_rows,
            guard=guard,
            built_with=self._host.built_with,
            engine_time=self._host.engine_time(),
        )

    def close(self) -> None:
        """Release the device of the engine. Threads that are at work end with what they are doing."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._host.make_room()

    def _finish(self, task: SliceTask, tables: list[pa.Table]) -> GuardCounts | None:
        """Check the rows and write them. Return what the screen did; None without one."""
        table = pa.concat_tables([SCHEMA.empty_table(), *tables])
        if table.num_rows != len(task.slice.locators):
            raise RuntimeError(
                f"slice {task.slice.number}: {table.num_rows} rows of {len(task.slice.locators)} samples"
            )
        if self._settings.source.version_mark(task.slice.shard) != task.version_mark:
            raise SourceError(f"{printable(task.slice.shard)} changed while it was scanned")
        reasons = Counter(r for r in table[Col.REASON].to_pylist() if r)
        guard = None if self._settings.screen is None else guard_counts(table, self._settings.record.engine)
        texts = {
            "settings": self._settings.settings_hash,
            "code": self._settings.code,
            "shard": shard_text(task.slice.shard),
            "listing_digests": task.listing_digests,
            "fingerprint": task.fingerprint,
            **({"screen": guard.text} if guard else {}),
            **({"hidden": str(task.slice.num_hidden)} if task.slice.num_hidden else {}),
        }
        try:
            write_result(self._settings.run.at(SCORES, task.name), table, texts, reasons)
        except StorageError as error:
            raise _WriteError(str(error)) from None
        return guard

    def _tables(self, task: SliceTask, before: Attempt) -> list[pa.Table]:
        slice_ = task.slice
        if before.deaths >= GIVE_UP_AFTER_DEATHS:
            last = f", last of {before.cause}" if before.cause else ""
            died = f"the worker died {before.deaths} times in slice {slice_.number}{last}"
            raise StorageError(f"{printable(slice_.shard)}: {died}")
        # All that the rows of a slice depend on, and what is noted with its result.
        settings, built_with = self._settings, json.dumps(self._host.built_with)
        mark = " ".join([settings.settings_hash, settings.code, built_with, task.listing_digests, task.fingerprint])
        first = self._attempts.kept(task.name, mark)
        slice_ = replace(slice_, locators=slice_.locators[first.num_rows :])
        if before.deaths >= ISOLATE_AFTER_DEATHS:
            with self._alone():  # the child process needs room for an engine of its own
                self._host.make_room()
                return self._collected(task, first, isolated_rows(settings, slice_), mark)
        if self._host.has_grown():
            with self._alone():
                if self._host.has_grown():  # else another thread was first
                    self._host.restart()
        with self._turns:
            score = self._host.scorer().rows
            samples = settings.source.read(slice_)
            most = BATCH_SAMPLES if settings.screen is None else SCREENED_SAMPLES
            rows = rows_in_order(batches(samples, most), score, self._threads, self._room, self._flow)
            return self._collected(task, first, watched(rows, settings.stall_s), mark)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no slice be scored within the block."""
        with self._isolating:
            for _ in range(self._settings.slices_at_once):
                self._turns.acquire()
            try:
                yield
            finally:
                self._turns.release(self._settings.slices_at_once)

    def _collected(self, task: SliceTask, first: pa.Table, rows: Iterator[pa.Table], mark: str) -> list[pa.Table]:
        """Return the first rows and those that come; report how many come, and store all meanwhile. Rows after one to
        which the engine gave no answer are not stored: it may be breaking, and they are asked again."""
        tables, num_images, stored_s, is_sound = [first], 0, time.monotonic(), True
        if first.num_rows:
            self._with_rows.add(task.name)
        for table in rows:
            tables.append(table)
            num_images += table.num_rows
            self._on_progress(task.name, num_images)
            is_sound = is_sound and NO_ANSWER_REASONS.isdisjoint(table[Col.REASON].to_pylist())
            if is_sound and time.monotonic() - stored_s >= KEEP_EVERY_S:
                self._with_rows.add(task.name)
                with suppress(StorageError):  # the result itself will say so
                    self._attempts.keep(task.name, pa.concat_tables(tables), mark)
                stored_s = time.monotonic()
        return tables


class _WriteError(StorageError):
    """The run cannot be written to, so no slice can."""
