"""Parquet files that are small and take a lot, when they are released."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import IncompleteError
from ingest.formats import parquet, parquet_decoding, parquet_release
from ingest.formats.released import Kept, Written
from ingest.storage.place import place
from tests.ingest.large_parquet import LARGE, MAX_MB, read_in_a_child, repeated
from tests.ingest.made import jpeg
from tests.making import Patch

PICTURES = [jpeg(n) for n in range(6)]
NUM_ROWS = 300
WORD = "a" * len(LARGE)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in" / "a.parquet"


def release(
    file: Path, indices: range, pictures: list[bytes] = PICTURES, category: str | None = None
) -> tuple[Written, pa.Table]:
    hashes = {index: hashlib.sha256(pictures[index]).hexdigest() for index in indices}
    out = file.parent.parent / "out"
    written = parquet.write(place(str(file.parent)), file.name, Kept(hashes, 6, "listed", category), place(str(out)))
    return written, pq.ParquetFile(out / "a.parquet").read()


def lists(num_rows: int, values: pa.Array) -> pa.Array:
    each = len(values) // num_rows
    return pa.ListArray.from_arrays(pa.array(range(0, len(values) + 1, each), pa.int32()), values)


SMALL = pa.array([jpeg(1)] * NUM_ROWS)
LARGE_TABLES: dict[str, dict[str, Any]] = {
    "image": {"image": repeated(LARGE, pa.binary(), NUM_ROWS)},
    "caption": {"image": SMALL, "caption": repeated(WORD, pa.string(), NUM_ROWS)},
    "lists": {"image": SMALL, "tags": lists(NUM_ROWS, repeated(WORD, pa.string(), NUM_ROWS))},
    "bytes that stay behind": {"image": SMALL, "thumbnail": repeated(LARGE, pa.binary(), NUM_ROWS)},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE_TABLES)
def test_rows_that_share_one_dictionary_entry_are_released(file: Path, tmp_path: Path, kind: str) -> None:
    pq.write_table(pa.table(LARGE_TABLES[kind]), file, compression="zstd", store_schema=kind != "caption")
    assert file.stat().st_size < 20_000
    found = read_in_a_child(file, tmp_path / "out")
    assert (found["num_samples"], found["dropped"]) == (NUM_ROWS, {})
    assert found["mb"] < MAX_MB
    assert pq.read_metadata(tmp_path / "out" / "a.parquet").num_rows == NUM_ROWS


NUMBERS = pa.list_(pa.struct([("a", pa.list_(pa.float64(), 2**27))]))
TOO_LARGE: dict[str, pa.Array] = {
    "texts in one list": lists(1, repeated(WORD, pa.string(), 1000)),
    "numbers in one list": lists(1, pa.nulls(7 * 10**7, pa.int64())),
    "a null of many numbers": pa.array([[None]], NUMBERS),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOO_LARGE)
def test_a_row_that_takes_too_much_is_dropped_and_those_before_it_are_released(
    file: Path, tmp_path: Path, kind: str
) -> None:
    large = TOO_LARGE[kind]
    table = pa.table({"image": [jpeg(1), jpeg(2)], "beside": pa.concat_arrays([pa.nulls(1, large.type), large])})
    pq.write_table(table, file, compression="zstd")
    assert file.stat().st_size < 100_000
    written = read_in_a_child(file, tmp_path / "out")
    assert (written["num_samples"], [*written["dropped"]]) == (1, ["1"])
    assert written["mb"] < MAX_MB
    assert pq.read_table(tmp_path / "out" / "a.parquet")["image"].to_pylist() == [jpeg(1)]


def test_kept_rows_are_written_a_part_at_a_time(file: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(parquet_release, "MAX_BYTES", 2000)
    labels = pa.array([*"abcabc"]).dictionary_encode()
    padded = [picture + bytes(parquet_decoding.PIECE_BYTES) for picture in PICTURES]
    table = pa.table({"image": padded, "label": labels, "tags": [["x", None], None, [], ["y"], ["x"], []]})
    pq.write_table(table, file)
    _, released = release(file, range(6), padded)
    assert pq.read_metadata(file.parent.parent / "out" / "a.parquet").num_row_groups == 6
    assert released.schema.equals(table.schema)
    assert released.to_pydict() == table.to_pydict()


def test_of_a_row_with_several_images_those_that_are_kept_are_released(file: Path) -> None:
    """Rows: both kept, the second kept, none kept, the only one kept, none there."""
    first, second = [*PICTURES[:3], PICTURES[3], None], [*PICTURES[3:], None, None]
    columns = {"before": first, "after": [{"bytes": picture, "path": "a.jpg"} for picture in second]}
    pq.write_table(pa.table({**columns, "caption": [*"abcde"]}), file, row_group_size=2)
    pictures = [picture for row in zip(first, second, strict=True) for picture in row]
    kept = {index: hashlib.sha256(pictures[index] or b"").hexdigest() for index in (0, 1, 3, 6)}
    out = place(str(file.parent.parent / "out"))
    written = parquet.write(place(str(file.parent)), file.name, Kept(kept, 10), out)
    assert (written.num_samples, written.dropped) == (4, {})
    released = pq.read_table(file.parent.parent / "out" / "a.parquet")
    assert released["before"].to_pylist() == [PICTURES[0], None, PICTURES[3]]
    assert [cell and cell["bytes"] for cell in released["after"].to_pylist()] == [PICTURES[3], PICTURES[4], None]
    assert released["caption"].to_pylist() == ["a", "b", "d"]
    with pytest.raises(IncompleteError, match=r"sample a\.jpg#after holds another image"):
        parquet.write(place(str(file.parent)), file.name, Kept({3: kept[0]}, 10), out)


@pytest.mark.parametrize("name", ["key", "category", "caption"])
def test_a_column_name_that_stands_twice(file: Path, name: str) -> None:
    columns = [pa.array(PICTURES), pa.array([*"abcdef"]), pa.array([*"ghijkl"])]
    pq.write_table(pa.Table.from_arrays(columns, ["image", name, name]), file)
    written, found = release(file, range(1, 6), category="category" if name == "category" else None)
    assert (written.num_samples, written.dropped) == (5, {})
    assert found.schema.names == ["image", name, name]
    assert [column.to_pylist() for column in found.columns[1:]] == [[*"bcdef"], [*"hijkl"]]
