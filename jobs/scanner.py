"""The actor of a scan: slices in, one result file each; only counts travel back.

Encoded bytes are read, decoded, scored and written in one process, since the hop of pixels between processes
costs more than anything but the model. A slice whose worker died or hung is tried again, then isolated.
"""

import io
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray

from ingest.errors import SourceError, StorageError
from ingest.formats import Source
from ingest.images import ImageLimits
from ingest.sample import Sample, printable
from ingest.slices import Slice, file_name
from ingest.storage import Place
from jobs.attempts import GIVE_UP_AFTER_DEATHS, ISOLATE_AFTER_DEATHS, Attempts
from jobs.batch import BatchScorer
from jobs.isolation import isolated_rows
from jobs.metrics import ScanMetrics
from jobs.run import ATTEMPTS, SCORES
from jobs.watchdog import Watchdog
from scoring.assessment import EngineOptions
from scoring.engines import engine_module
from scoring.table import SCHEMA

BATCH_SAMPLES = 16
"""Images decoded and scored together: bounds the pixels in memory."""


@dataclass(frozen=True)
class ScanSettings:
    """What an actor needs to know; sent to each once.

    run: the run folder. stall_s: seconds without a finished batch after which a slice is given up.
    image_memory_bytes: what the child that scans image by image may take; None: half of what is free.
    batches_at_once: of a slice, given to the engine by as many threads.
    """

    source: Source
    run: Place
    engine: str
    options: EngineOptions
    limits: ImageLimits
    settings_hash: str
    stall_s: float = 600
    image_memory_bytes: int | None = None
    num_decode_threads: int = 2
    batches_at_once: int = 1

    @property
    def slices_at_once(self) -> int:
        """An engine with several batches under way gets two slices, so that it never runs dry between them."""
        return 2 if self.batches_at_once > 1 else 1


class SliceScanner:
    """Ray Data calls it with one slice at a time: a batch {"slice": [json], "failure": [text]} -> its counts."""

    def __init__(self, settings: ScanSettings):
        self._settings = settings
        self._attempts = Attempts(settings.run.at(ATTEMPTS))
        engine = engine_module(settings.engine).load(settings.options)
        self._scorer = BatchScorer(engine, settings.limits, settings.num_decode_threads)
        # Plain processes that scan without Ray (the benchmark's) have no endpoint to tell.
        self._metrics = ScanMetrics(settings.engine) if ray.is_initialized() else None
        self._watchdog = Watchdog(settings.stall_s)
        self._threads = ThreadPoolExecutor(settings.slices_at_once * settings.batches_at_once)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """num_rows, is_last: of the slice. failure: empty, or why the slice has no result.

        fatal: no other slice would get a result either. (Ray would drop the cause of an exception on its way.)
        """
        rows = [
            _failed(str(failure)) if failure else self.scan(Slice.from_json(str(text)))
            for text, failure in zip(batch["slice"], batch["failure"], strict=True)
        ]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def scan(self, piece: Slice) -> dict[str, Any]:
        """Scores one slice and writes its file. A source that cannot be read is a failure of this slice only."""
        began = time.monotonic()
        name = file_name(piece.shard, piece.number, piece.is_last)
        try:
            deaths = self._attempts.begin(name)
        except StorageError as error:
            return _failed(str(error), fatal=True)
        try:
            tables = self._tables(piece, deaths)
        except (SourceError, StorageError) as error:
            self._attempts.fail(name, str(error))
            return _failed(str(error))
        table = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
        if table.num_rows != len(piece.locators):
            raise RuntimeError(f"slice {piece.number}: {table.num_rows} rows for {len(piece.locators)} samples")
        reasons = Counter(r for r in table["reason"].to_pylist() if r)
        try:
            self._write(piece, name, table, reasons)
        except StorageError as error:
            return _failed(str(error), fatal=True)
        finally:
            self._attempts.end(name)
        if self._metrics is not None:
            self._metrics.slice_written(time.monotonic() - began, table.num_rows - reasons.total(), reasons)
        return {"num_rows": table.num_rows, "is_last": piece.is_last, "failure": "", "fatal": False}

    def _tables(self, piece: Slice, deaths: int) -> list[pa.Table]:
        if deaths >= GIVE_UP_AFTER_DEATHS:
            raise StorageError(f"{printable(piece.shard)}: the worker died {deaths} times in slice {piece.number}")
        samples = self._settings.source.read(piece)
        if deaths >= ISOLATE_AFTER_DEATHS:
            return list(isolated_rows(self._settings, samples))
        return list(self._watched(samples))

    def _watched(self, samples: Iterator[Sample]) -> Iterator[pa.Table]:
        """The rows of each batch, in order; as many batches are under way as the engine takes at once."""
        under_way: deque[Future[pa.Table]] = deque()
        batches = _batches(samples)
        with self._watchdog.watching():
            while True:
                for batch in islice(batches, self._settings.batches_at_once - len(under_way)):
                    under_way.append(self._threads.submit(self._scorer.rows, batch))
                if not under_way:
                    return
                yield under_way.popleft().result()
                self._watchdog.progress()

    def _write(self, piece: Slice, name: str, table: pa.Table, reasons: Counter[str]) -> None:
        """Footer metadata: what the file is a result of, so that counts reconcile without reading rows."""
        marks = {
            "settings": self._settings.settings_hash,
            "shard": piece.shard.encode("utf-8", "backslashreplace").decode(),
            "slice": str(piece.number),
            "is_last": str(piece.is_last).lower(),
            "num_rows": str(table.num_rows),
            "reasons": ",".join(f"{reason}={n}" for reason, n in sorted(reasons.items())),
        }
        buffer = io.BytesIO()
        tagged = table.replace_schema_metadata({f"privsieve.{k}": v for k, v in marks.items()})
        pq.write_table(tagged, buffer, compression="zstd")
        self._settings.run.at(SCORES, name).write(buffer.getvalue())


def _batches(samples: Iterator[Sample]) -> Iterator[list[Sample]]:
    while batch := list(islice(samples, BATCH_SAMPLES)):
        yield batch


def _failed(failure: str, fatal: bool = False) -> dict[str, Any]:
    return {"num_rows": 0, "is_last": False, "failure": failure, "fatal": fatal}
