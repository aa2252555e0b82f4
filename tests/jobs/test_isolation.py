"""A slice is scanned image by image, each in a child process; `test_inline` has pictures that such a child does not
survive."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.errors import StorageError
from ingest.formats import Source, open_source
from ingest.sample import MAX_BYTES, Sample, Slice
from ingest.storage.place import place
from jobs.scanning.batch import batches
from jobs.scanning.isolation import isolated_rows
from jobs.scanning.slice_tasks import ScanSettings
from scoring.assessment import EngineOptions
from tests.ingest.made import jpeg, parquet_file
from tests.records import scanned_record


@dataclass(frozen=True)
class FailingSource(Source):
    """Its storage is gone before the sample with the index `worst` is read."""

    worst: int = 0

    def read(self, slice_: Slice) -> Iterator[Sample]:
        for sample in super().read(slice_):
            if sample.index == self.worst:
                raise StorageError("the storage is gone")
            yield sample


@pytest.mark.slow
def test_rows_keep_their_order_and_a_storage_that_fails_invents_none(tmp_path: Path) -> None:
    table = pa.table({"image": [jpeg(number) for number in range(5)], "key": [f"k{number}" for number in range(5)]})
    parquet_file(tmp_path / "corpus" / "a.parquet", table, rows=2)
    plain = open_source(str(tmp_path / "corpus"), None, None)
    locators = [at for slice_ in plain.slices("a.parquet") for at in slice_.locators][1:]
    found = []
    for worst in (9, 3):
        source = FailingSource(**{each.name: getattr(plain, each.name) for each in fields(plain)}, worst=worst)
        settings = ScanSettings(source, place(str(tmp_path / "run")), scanned_record(), EngineOptions(), code="")
        rows = isolated_rows(settings, Slice("a.parquet", 0, True, locators))
        if worst == 9:
            found = pa.concat_tables(rows).to_pylist()
        else:
            with pytest.raises(StorageError, match=r"^the storage is gone$"):
                list(rows)
    assert [(row["index"], row["key"], row["status"]) for row in found] == [
        (n, f"k{n}", "scored") for n in (1, 2, 3, 4)
    ]


def test_a_batch_ends_where_its_files_take_too_much() -> None:
    """What images share in their file they do not share in memory."""
    sizes = [1] * 20 + [MAX_BYTES] * 2 + [MAX_BYTES // 2] * 3
    samples = (Sample("a", n, str(n), None, bytes(size)) for n, size in enumerate(sizes))
    expected = [list(range(16)), [16, 17, 18, 19, 20], [21], [22, 23], [24]]
    assert [[s.index for s in batch] for batch in batches(samples)] == expected
