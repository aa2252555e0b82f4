"""The actor of a scan: slices in, one result file each; only counts travel back.

Encoded bytes are read, decoded, scored and written in one process, since the hop of pixels between processes
costs more than anything but the model.
"""

import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.formats import Source
from ingest.images import DecodedImage, ImageLimits, Rejected, decode
from ingest.sample import Sample
from ingest.slices import Slice, file_name
from ingest.storage import Place
from scoring.assessment import Engine, EngineOptions, Outcome, Unscored, View, worst
from scoring.engines import engine_module
from scoring.table import Facts, Quarantined, Verdict, to_table

BATCH_SAMPLES = 16
"""Images decoded and scored together: bounds the pixels in memory."""


@dataclass(frozen=True)
class ScanSettings:
    """What an actor needs to know; sent to each once. scores: folder of the result files."""

    source: Source
    scores: Place
    engine: str
    options: EngineOptions
    limits: ImageLimits
    settings_hash: str


class SliceScanner:
    """Ray Data calls it with one slice at a time: a batch {"slice": [json]} -> counts of that slice."""

    def __init__(self, settings: ScanSettings):
        self._settings = settings
        self._engine: Engine = engine_module(settings.engine).load(settings.options)
        self._threads = ThreadPoolExecutor(2)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        counts = [self.scan(Slice.from_json(str(text))) for text in batch["slice"]]
        return {name: [c[name] for c in counts] for name in counts[0]}

    def scan(self, piece: Slice) -> dict[str, Any]:
        """Scores one slice and writes its file; returns shard, number of rows, and quarantined by reason."""
        samples = self._settings.source.read(piece)
        tables = [self._table(batch) for batch in _batches(samples)]
        table = pa.concat_tables(tables) if tables else to_table([], [])
        if table.num_rows != len(piece.locators):
            raise RuntimeError(f"slice {piece.number}: {table.num_rows} rows for {len(piece.locators)} samples")
        self._write(piece, table)
        reasons = Counter(r for r in table["reason"].to_pylist() if r)
        return {
            "shard": piece.shard.encode("utf-8", "backslashreplace").decode(),
            "num_rows": table.num_rows,
            "reasons": ",".join(f"{reason}={n}" for reason, n in sorted(reasons.items())),
        }

    def _table(self, samples: Sequence[Sample]) -> pa.Table:
        decoded = list(self._threads.map(self._decode, samples))
        facts = [_facts(s, d) for s, d in zip(samples, decoded, strict=True)]
        return to_table(facts, self._verdicts(facts, decoded))

    def _decode(self, sample: Sample) -> DecodedImage | Rejected:
        if sample.fault is not None:
            return Rejected(*sample.fault)
        return decode(sample.encoded, self._settings.limits)

    def _verdicts(self, facts: Sequence[Facts], decoded: Sequence[DecodedImage | Rejected]) -> list[Verdict]:
        images = [(f, d) for f, d in zip(facts, decoded, strict=True) if isinstance(d, DecodedImage)]
        views = [View(pixels, d.metadata, f.sha256 or "") for f, d in images for pixels in d.views]
        outcomes = iter(self._engine.assess(views) if views else [])
        verdicts: list[Verdict] = []
        for d in decoded:
            if isinstance(d, Rejected):
                verdicts.append(Quarantined(d.reason, d.message))
                continue
            outcome = worst(list(islice(outcomes, len(d.views))))
            verdicts.append(_verdict(outcome))
        return verdicts

    def _write(self, piece: Slice, table: pa.Table) -> None:
        """Footer metadata: what the file is a result of, so that it can be checked without the run folder."""
        marks = {"settings": self._settings.settings_hash, "shard": piece.shard.encode("utf-8", "backslashreplace")}
        marks |= {"slice": str(piece.number), "is_last": str(piece.is_last).lower(), "num_rows": str(table.num_rows)}
        buffer = io.BytesIO()
        tagged = table.replace_schema_metadata({f"privsieve.{k}": v for k, v in marks.items()})
        pq.write_table(tagged, buffer, compression="zstd")
        self._settings.scores.at(file_name(piece.shard, piece.number, piece.is_last)).write(buffer.getvalue())


def _verdict(outcome: Outcome) -> Verdict:
    return Quarantined(outcome.reason, outcome.message) if isinstance(outcome, Unscored) else outcome


def _batches(samples: Iterator[Sample]) -> Iterator[list[Sample]]:
    while batch := list(islice(samples, BATCH_SAMPLES)):
        yield batch


def _facts(sample: Sample, decoded: DecodedImage | Rejected) -> Facts:
    has_bytes = sample.fault is None
    return Facts(
        shard=sample.shard,
        index=sample.index,
        key=sample.key,
        category=sample.category,
        num_bytes=len(sample.encoded) if has_bytes else None,
        sha256=hashlib.sha256(sample.encoded).hexdigest() if has_bytes else None,
        width=decoded.width,
        height=decoded.height,
        format=decoded.format,
        num_frames=decoded.num_frames if isinstance(decoded, DecodedImage) else None,
        num_frames_scanned=decoded.num_frames_decoded if isinstance(decoded, DecodedImage) else None,
    )
