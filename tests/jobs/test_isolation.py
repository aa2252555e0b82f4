"""What kills or hangs the process that reads a slice costs the rest of a row group; other slices are given up."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingest.errors import SourceError, StorageError
from ingest.formats import Source, open_source
from ingest.sample import MAX_BYTES, Sample, Slice
from ingest.storage.place import place
from jobs.scanning.batch import batches
from jobs.scanning.isolation import isolated_rows
from jobs.scanning.slice_tasks import ScanSettings
from scoring.assessment import EngineOptions
from tests.ingest.made import jpeg, parquet_file, tar_bytes
from tests.records import scanned_record

NUM_ROWS = 12
ROWS_PER_GROUP = 4
PICTURES = [jpeg(number) for number in range(NUM_ROWS)]


@dataclass(frozen=True)
class DeadlySource(Source):
    """Reading `worst` kills the process, hangs, takes all memory or is refused with the shards that are known."""

    worst: int
    deed: str

    def read(self, slice_: Slice) -> Iterator[Sample]:
        for sample in super().read(slice_):
            if sample.index == self.worst:
                self._do()
            yield sample

    def _do(self) -> None:
        if self.deed == "crash":
            os.abort()
        if self.deed == "refuse":
            raise SourceError(f"the reader knows {self.shards}")
        if self.deed == "memory":
            taken = [bytes([number]) * 10**8 for number in range(30)]
            time.sleep(600 + len(taken))
        time.sleep(600)


def rows(tmp_path: Path, deed: str, worst: int = 5, first: int = 1, end: int = NUM_ROWS) -> list[dict[str, Any]]:
    """Of the rows `first` to `end`, read in one slice as `--sample` does it, from three row groups."""
    table = pa.table({"image": PICTURES, "key": [f"k{number}" for number in range(NUM_ROWS)]})
    for name in ("a.parquet", "b.parquet"):
        parquet_file(tmp_path / "corpus" / name, table, rows=ROWS_PER_GROUP)
    return rows_of(tmp_path, "a.parquet", deed, worst, first, end)


def rows_of(tmp_path: Path, shard: str, deed: str, worst: int, first: int, end: int) -> list[dict[str, Any]]:
    """A read that hangs is the first of its slice: no picture before it has to be ready in so short a time."""
    assert deed != "hang" or worst == first
    plain = open_source(str(tmp_path / "corpus"), None, None)
    source = DeadlySource(**{each.name: getattr(plain, each.name) for each in fields(plain)}, worst=worst, deed=deed)
    locators = [at for slice_ in plain.slices(shard) for at in slice_.locators][first:end]
    settings = ScanSettings(
        source=source,
        run=place(str(tmp_path / "run")),
        record=scanned_record(),
        options=EngineOptions(),
        code="",
        stall_s=0.5 if deed == "hang" else 600,
        image_memory_bytes=300 * 2**20,
    )
    tables = list(isolated_rows(settings, Slice(shard, 0, True, locators)))
    found: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
    assert [row["index"] for row in found] == list(range(first, end))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "reason", "message"),
    [
        ("crash", "crash", "while it was read: the process was killed by SIGABRT"),
        ("memory", "crash", "while it was read: needs more than 1536 MB of memory"),
    ],
)
def test_a_death_while_reading_costs_the_rest_of_the_row_group(
    tmp_path: Path, deed: str, reason: str, message: str
) -> None:
    found = rows(tmp_path, deed)
    lost = [row for row in found if row["status"] == "quarantined"]
    assert [(row["index"], row["key"], row["sha256"]) for row in lost] == [(n, f"{n:09d}", None) for n in (5, 6, 7)]
    assert {row["reason"] for row in lost} == {reason}
    assert {row["error_message"] for row in lost} == {message}
    assert {row["key"] for row in found if row["status"] == "scored"} == {f"k{n}" for n in (1, 2, 3, 4, 8, 9, 10, 11)}


@pytest.mark.slow
def test_a_row_group_that_hangs_costs_its_rows_only(tmp_path: Path) -> None:
    found = rows(tmp_path, "hang", worst=5, first=5, end=8)
    result = {(row["reason"], row["error_message"]) for row in found}
    assert result == {("timeout", "while it was read: no answer within 0.5 s")}
    assert [row["key"] for row in found] == ["000000005", "000000006", "000000007"]


@pytest.mark.slow
@pytest.mark.parametrize("shard", ["a.tar", "holiday"])
@pytest.mark.parametrize(
    ("deed", "worst", "why"),
    [
        ("hang", 0, "while sample 0 was read: no answer within 0.5 s"),
        ("crash", 2, "while sample 2 was read: the process was killed by SIGABRT"),
    ],
)
def test_a_tar_or_folder_that_cannot_be_read_is_given_up_and_no_row_is_invented(
    tmp_path: Path, shard: str, deed: str, worst: int, why: str
) -> None:
    corpus = tmp_path / "corpus"
    (corpus / "holiday").mkdir(parents=True)
    members = [(f"{number}.jpg", picture) for number, picture in enumerate(PICTURES[:4])]
    if shard == "a.tar":
        (corpus / shard).write_bytes(tar_bytes(members))
    else:
        for name, content in members:
            (corpus / shard / name).write_bytes(content)
    with pytest.raises(StorageError) as given_up:
        rows_of(tmp_path, shard, deed, worst, 0, 4)
    assert str(given_up.value) == f"{shard}: {why}"


def test_what_reading_refuses_is_refused_and_it_knows_its_own_shard_only(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^the reader knows \('a.parquet',\)$"):
        rows(tmp_path, "refuse")


def test_a_slice_without_deeds_is_scored(tmp_path: Path) -> None:
    assert {row["status"] for row in rows(tmp_path, "crash", worst=-1)} == {"scored"}


def test_a_batch_ends_where_its_files_take_too_much() -> None:
    """What images share in their file they do not share in memory."""
    sizes = [1] * 20 + [MAX_BYTES] * 2 + [MAX_BYTES // 2] * 3
    samples = (Sample("a", n, str(n), None, bytes(size)) for n, size in enumerate(sizes))
    assert [[s.index for s in batch] for batch in batches(samples)] == [
        list(range(16)),
        [16, 17, 18, 19, 20],
        [21],
        [22, 23],
        [24],
    ]
