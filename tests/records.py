"""The record of a run that no test scanned."""

from typing import Any

from ingest.record import RunRecord


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
