"""The actor of a scan: slices in, one result file each; only counts travel back.

Encoded bytes are read, decoded, scored and written in one process, since the hop of pixels between processes
costs more than anything but the model. A slice whose worker died or hung is tried again, then isolated.
"""

import hashlib
import io
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray

from ingest.errors import EngineError, SourceError, StorageError
from ingest.sample import Sample, printable
from ingest.slices import MAX_BYTES, Slice
from jobs.runtime.metrics import ScanMetrics
from jobs.scanning.batch import BatchScorer
from jobs.scanning.isolation import IsolationError, isolated_rows
from jobs.scanning.settings import ScanSettings
from jobs.scanning.watchdog import Watchdog
from scoring.assessment import Closable, Engine, ReportsTokenUsage, Unscored
from scoring.engines import engine_module
from scoring.engines.canary import canary, difference, record
from scoring.runs.attempts import GIVE_UP_AFTER_DEATHS, ISOLATE_AFTER_DEATHS, Attempt, Attempts
from scoring.runs.footers import footer_of, shard_text
from scoring.runs.layout import ATTEMPTS, CANARY, SCORES
from scoring.runs.ledger import file_name
from scoring.table import SCHEMA

BATCH_SAMPLES = 16
"""Images decoded and scored together: bounds the pixels in memory. Fewer where their files take `MAX_BYTES`."""


class SliceScanner:
    """Ray Data calls it with one slice at a time, a batch of `jobs.scanning.on_ray.scan_slices` -> its counts.

    Failures travel as data, since Ray would drop the cause of an exception on its way.
    """

    def __init__(self, settings: ScanSettings):
        self._settings = settings
        self._attempts = Attempts(settings.run.at(ATTEMPTS))
        self._watchdog = Watchdog(settings.stall_s)
        self._turns = threading.Semaphore(settings.slices_at_once)
        self._isolating = threading.Lock()
        self._loading = threading.Lock()
        self._dying = threading.Lock()
        self._threads = ThreadPoolExecutor(settings.slices_at_once * settings.batches_at_once)
        # Plain processes that scan without Ray (the benchmark's) have no endpoint to tell.
        self._metrics = ScanMetrics(settings.engine) if ray.is_initialized() else None
        self._engine: Engine | None = None
        self._broken = ""
        try:
            self._load()
        except (EngineError, StorageError) as error:
            self._broken = str(error)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """num_rows, is_last: of the slice. failure: empty, or why the slice has no result.

        fatal: no other slice would get a result either.
        """
        columns = (batch[name] for name in ("failure", "slice", "chain", "state", "name", "fingerprint"))
        rows = [
            _failed(str(failure)) if failure else self.scan(Slice.from_json(str(text)), *map(str, about))
            for failure, text, *about in zip(*columns, strict=True)
        ]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def scan(self, piece: Slice, chain: str, state: str, name: str = "", fingerprint: str = "") -> dict[str, Any]:
        """Scores one slice and writes its file. A source that cannot be read is a failure of this slice only.

        chain, fingerprint: for the footer (`scoring.runs.footers`), which shows results of two states of a shard.
        state: of the shard when it was listed (`Source.state`). name: of the file, where it is not that of a new run.
        """
        if self._broken:
            return _failed(self._broken, fatal=True)
        name = name or file_name(piece.shard, piece.number, piece.is_last)
        try:
            if self._settings.run.at(SCORES, name).exists():  # Ray asks again for what a lost machine had done
                return _done(piece)
            before = self._attempts.begin(name)
        except StorageError as error:
            return _failed(str(error), fatal=True)
        try:
            self._scan(piece, chain, state, name, fingerprint, before)
        except (EngineError, IsolationError, SourceError, StorageError) as error:
            with suppress(StorageError):  # where the run cannot be written to, that is being told already
                self._attempts.fail(name, str(error))
            return _failed(str(error), fatal=isinstance(error, EngineError | _WriteError))
        except Exception as error:  # the edge of a slice: what a decoder or engine raised is one death, and bounded
            self._dying.acquire()  # for good: of slices that die together one says why, and is not cut off in it
            with suppress(StorageError):
                self._attempts.dies(name, type(error).__name__)
            os._exit(1)
        with suppress(StorageError):  # a mark that stays counts as a death, no more
            self._attempts.end(name)
        return _done(piece)

    def _scan(self, piece: Slice, chain: str, state: str, name: str, fingerprint: str, before: Attempt) -> None:
        began = time.monotonic()
        table = pa.concat_tables([SCHEMA.empty_table(), *self._tables(piece, before)])
        if table.num_rows != len(piece.locators):
            raise RuntimeError(f"slice {piece.number}: {table.num_rows} rows for {len(piece.locators)} samples")
        if self._settings.source.state(piece.shard) != state:
            raise SourceError(f"{printable(piece.shard)} changed while it was scanned")
        reasons = Counter(r for r in table["reason"].to_pylist() if r)
        self._write(piece, chain, name, fingerprint, table, reasons)
        if self._metrics is not None:
            self._metrics.slice_written(time.monotonic() - began, table.num_rows - reasons.total(), reasons)
            if isinstance(self._engine, ReportsTokenUsage):
                self._metrics.tokens(self._engine.usage)

    def _tables(self, piece: Slice, before: Attempt) -> list[pa.Table]:
        if before.deaths >= GIVE_UP_AFTER_DEATHS:
            last = f", last of {before.cause}" if before.cause else ""
            died = f"the worker died {before.deaths} times in slice {piece.number}{last}"
            raise StorageError(f"{printable(piece.shard)}: {died}")
        if before.deaths >= ISOLATE_AFTER_DEATHS:
            return self._isolated(piece)
        with self._turns:
            self._load()
            return list(self._watchdog.watch(self._batched(self._settings.source.read(piece))))

    def _isolated(self, piece: Slice) -> list[pa.Table]:
        """The child needs an engine of its own: this one makes room, and is loaded again by who needs it next."""
        with self._isolating:
            for _ in range(self._settings.slices_at_once):
                self._turns.acquire()
            try:
                if isinstance(self._engine, Closable):
                    self._engine.close()
                    self._engine = None
                return list(isolated_rows(self._settings, piece))
            finally:
                self._turns.release(self._settings.slices_at_once)

    def _load(self) -> None:
        with self._loading:
            if self._engine is not None:
                return
            engine = engine_module(self._settings.engine).load(self._settings.options)
            if self._settings.has_canary:
                self._check_canary(engine)
            self._scorer = BatchScorer(engine, self._settings.limits, self._settings.num_decode_threads)
            self._engine = engine

    def _check_canary(self, engine: Engine) -> None:
        """EngineError where this actor cannot answer, or answers otherwise than another one of the run.

        Each leaves its own answer first and reads the others' then: of two that start together one sees the other.
        """
        answer = engine.assess([canary()])[0]
        if isinstance(answer, Unscored):
            if answer.reason in ("engine_error", "engine_oom"):
                raise EngineError(f"the engine cannot answer for a plain picture: {answer.message}")
            return  # what it says is no answer, as may be for such a picture; nothing to compare
        own, answers = record(answer), self._settings.run.at(CANARY)
        file = answers.at(f"{hashlib.sha256(own).hexdigest()[:16]}.json")
        is_first = not file.exists()
        file.write(own)
        for name in answers.names():
            if not name.endswith(".json"):
                continue
            try:
                why = difference(answers.at(name).read(), own)
            except (ValueError, KeyError, TypeError):
                raise EngineError(f"{answers.at(name).path} is damaged; remove it") from None
            if why is not None:
                if is_first:  # refused, so nothing for others to agree with
                    file.remove()
                raise EngineError(f"an engine is set up otherwise than another one of this run: {why}")

    def _batched(self, samples: Iterator[Sample]) -> Iterator[pa.Table]:
        """The rows of each batch, in order; as many batches are under way as the engine takes at once."""
        under_way: deque[Future[pa.Table]] = deque()
        batches = _batches(samples)
        while True:
            for batch in islice(batches, self._settings.batches_at_once - len(under_way)):
                self._queued(len(batch))
                under_way.append(self._threads.submit(self._scorer.rows, batch))
                under_way[-1].add_done_callback(partial(self._answered, len(batch)))
            if not under_way:
                return
            yield under_way.popleft().result()

    def _answered(self, num_images: int, _: "Future[pa.Table]") -> None:
        self._queued(-num_images)

    def _queued(self, num_images: int) -> None:
        if self._metrics is not None:
            self._metrics.queued(num_images)

    def _write(
        self, piece: Slice, chain: str, name: str, fingerprint: str, table: pa.Table, reasons: Counter[str]
    ) -> None:
        """With a footer that says what the file is a result of, see `scoring.runs.footers`."""
        said = {
            "file": name,
            "settings": self._settings.settings_hash,
            "code": self._settings.code,
            "shard": shard_text(piece.shard),
            "chain": chain,
            "state": fingerprint,
        }
        buffer = io.BytesIO()
        tagged = table.replace_schema_metadata(footer_of(said, table.num_rows, reasons))
        pq.write_table(tagged, buffer, compression="zstd", write_page_checksum=True)
        try:
            self._settings.run.at(SCORES, name).write(buffer.getvalue())
        except StorageError as error:
            raise _WriteError(str(error)) from None


class _WriteError(StorageError):
    """The run cannot be written to, so no slice can."""


def _batches(samples: Iterator[Sample]) -> Iterator[list[Sample]]:
    batch, num_bytes = list[Sample](), 0
    for sample in samples:
        batch.append(sample)
        num_bytes += len(sample.encoded)
        if len(batch) == BATCH_SAMPLES or num_bytes >= MAX_BYTES:
            yield batch
            batch, num_bytes = [], 0
    if batch:
        yield batch


def _done(piece: Slice) -> dict[str, Any]:
    return {"num_rows": len(piece.locators), "is_last": piece.is_last, "failure": "", "fatal": False}


def _failed(failure: str, fatal: bool = False) -> dict[str, Any]:
    return {"num_rows": 0, "is_last": False, "failure": failure, "fatal": fatal}
