"""What kills or hangs the process that reads a slice costs rows, and never the whole slice."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingest.errors import SourceError
from ingest.formats import Source, open_source
from ingest.images import ImageLimits
from ingest.sample import Sample
from ingest.slices import MAX_BYTES, Slice
from ingest.storage import place
from jobs.isolation import isolated_rows
from jobs.scanner import ScanSettings, _batches
from scoring.assessment import EngineOptions
from tests.ingest.made import jpeg, parquet_file

NUM_ROWS = 12
ROWS_PER_GROUP = 4
PICTURES = [jpeg(number) for number in range(NUM_ROWS)]


@dataclass(frozen=True)
class DeadlySource(Source):
    """Reading `worst` kills the process, hangs, takes all memory or is refused."""

    worst: int
    deed: str

    def read(self, piece: Slice) -> Iterator[Sample]:
        for sample in super().read(piece):
            if sample.index == self.worst:
                self._do()
            yield sample

    def _do(self) -> None:
        if self.deed == "crash":
            os.abort()
        if self.deed == "refuse":
            raise SourceError("a.parquet is not what it was")
        if self.deed == "memory":
            taken = [bytes([number]) * 10**8 for number in range(30)]
            time.sleep(600 + len(taken))
        time.sleep(600)


def rows(tmp_path: Path, deed: str, worst: int = 5) -> list[dict[str, Any]]:
    """Of the rows 1 to 11, read in one slice as `--sample` does it, from three row groups."""
    table = pa.table({"image": PICTURES, "key": [f"k{number}" for number in range(NUM_ROWS)]})
    parquet_file(tmp_path / "a.parquet", table, rows=ROWS_PER_GROUP)
    plain = open_source(str(tmp_path / "a.parquet"), None, None)
    source = DeadlySource(**{each.name: getattr(plain, each.name) for each in fields(plain)}, worst=worst, deed=deed)
    locators = [at for piece in plain.slices("a.parquet") for at in piece.locators][1:]
    settings = ScanSettings(
        source=source,
        run=place(str(tmp_path / "run")),
        engine="canned",
        options=EngineOptions(),
        limits=ImageLimits(),
        settings_hash="",
        code="",
        stall_s=15 if deed == "hang" else 600,
        image_memory_bytes=300 * 2**20,
    )
    tables = list(isolated_rows(settings, Slice("a.parquet", 0, True, locators)))
    found: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
    assert [row["index"] for row in found] == list(range(1, NUM_ROWS))
    return found


@pytest.mark.parametrize(
    ("deed", "reason", "message"),
    [
        ("crash", "crash", "while it was read: the process was killed by SIGABRT"),
        ("memory", "crash", "while it was read: needs more than 1664 MB of memory"),
        ("hang", "timeout", "while it was read: no answer within 15 s"),
    ],
)
def test_a_death_while_reading_costs_the_rest_of_the_row_group(
    tmp_path: Path, deed: str, reason: str, message: str
) -> None:
    found = rows(tmp_path, deed)
    lost = [row for row in found if row["status"] == "quarantined"]
    assert [(row["index"], row["key"], row["sha256"]) for row in lost] == [(n, f"@{n}", None) for n in (5, 6, 7)]
    assert {row["reason"] for row in lost} == {reason}
    assert {row["error_message"] for row in lost} == {message}
    assert {row["key"] for row in found if row["status"] == "scored"} == {f"k{n}" for n in (1, 2, 3, 4, 8, 9, 10, 11)}


def test_what_reading_refuses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^a.parquet is not what it was$"):
        rows(tmp_path, "refuse")


def test_a_slice_without_deeds_is_scored(tmp_path: Path) -> None:
    assert {row["status"] for row in rows(tmp_path, "crash", worst=-1)} == {"scored"}


def test_a_batch_ends_where_its_files_take_too_much() -> None:
    """What images share in their file they do not share in memory."""
    sizes = [1] * 20 + [MAX_BYTES] * 2 + [MAX_BYTES // 2] * 3
    samples = (Sample("a", n, str(n), None, bytes(size)) for n, size in enumerate(sizes))
    assert [[s.index for s in batch] for batch in _batches(samples)] == [
        list(range(16)),
        [16, 17, 18, 19, 20],
        [21],
        [22, 23],
        [24],
    ]
