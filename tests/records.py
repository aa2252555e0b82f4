"""The record and the results of a run that no test scanned."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.storage.place import place
from scoring.runs import footers
from scoring.runs.ledger import file_name
from scoring.runs.record import RunRecord


def run_record(engine: dict[str, Any]) -> RunRecord:
    return RunRecord(
        privsieve="0.1.0",
        source="/data/corpus",
        format="webdataset",
        category=None,
        sample=None,
        seed=None,
        limit=None,
        max_pixels=1,
        max_frames=1,
        taxonomy="cprt-1",
        engine=engine,
    )


def write_result(run: Path, shard: str, number: int, is_last: bool, rows: pa.Table) -> Path:
    """The result of a slice as a scan writes it, but for what of the footer comes from the source and the settings."""
    name = file_name(shard, number, is_last)
    reasons = {one["values"]: one["counts"] for one in rows["reason"].drop_null().value_counts().to_pylist()}
    footers.write_result(place(str(run / "scores" / name)), rows, {"shard": shard}, reasons)
    return run / "scores" / name
