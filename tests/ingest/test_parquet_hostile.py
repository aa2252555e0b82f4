"""Parquet files that are small and take a lot: every row is a row all the same, in a bounded part of the memory."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import Fault, SourceError
from ingest.formats import open_source, parquet, parquet_decoding, parquet_schema
from tests.ingest.large_parquet import LARGE, MAX_MB, NUM_ROWS, read_in_a_child, repeated
from tests.ingest.made import jpeg, samples_of, slices_of
from tests.making import Patch


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.parquet"


def shared(value: bytes, num_rows: int = NUM_ROWS) -> pa.ChunkedArray:
    """The same without a dictionary; the test itself holds the value once too."""
    return pa.chunked_array([pa.array([value])] * num_rows)


def of_struct(images: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([images, pa.array([f"{n}.jpg" for n in range(len(images))])], ["bytes", "path"])


@pytest.mark.slow
@pytest.mark.parametrize("in_struct", [True, False])
def test_a_thousand_rows_of_one_dictionary_entry(file: Path, in_struct: bool) -> None:
    images = repeated(LARGE, pa.binary())
    table = pa.table({"image": of_struct(images) if in_struct else images})
    pq.write_table(table, file, compression="zstd", store_schema=in_struct)
    assert file.stat().st_size < 20_000
    found = read_in_a_child(file)
    assert found["reasons"] == {f"{len(LARGE)} bytes": NUM_ROWS}
    assert found["mb"] < MAX_MB


@pytest.mark.slow
def test_a_thousand_rows_that_differ_in_nothing(file: Path) -> None:
    """Deltas: each value is stored as its difference from the one before."""
    kind = {"image": "DELTA_BYTE_ARRAY"}
    table = pa.table({"image": shared(LARGE, 300)})
    pq.write_table(table, file, use_dictionary=False, column_encoding=kind, compression="zstd", data_page_size=2**30)
    assert file.stat().st_size < 10_000
    found = read_in_a_child(file)
    assert found["reasons"] == {f"{len(LARGE)} bytes": 300}
    assert found["mb"] < MAX_MB


@pytest.mark.slow
def test_a_page_of_photographs_is_read_whatever_its_size(file: Path) -> None:
    """600 MB in one page, as pyarrow and pandas write it of 1,024 values."""
    pq.write_table(
        pa.table({"image": shared(LARGE, 150)}), file, use_dictionary=False, compression="zstd", data_page_size=2**30
    )
    assert file.stat().st_size < 100_000
    read = read_in_a_child(file)
    assert read["reasons"] == {f"{len(LARGE)} bytes": 150}
    assert read["mb"] < 200


@pytest.mark.slow
@pytest.mark.parametrize("has_dictionary", [True, False])
def test_what_takes_more_memory_than_the_decoder_may_have_is_lost_from_there_on(
    file: Path, monkeypatch: Patch, has_dictionary: bool
) -> None:
    monkeypatch.setattr(parquet_decoding, "MAX_MEMORY_BYTES", 300 * 2**20)
    monkeypatch.setattr(parquet_decoding, "_idle", [])  # a new child, with this limit
    images = [jpeg(1), *[bytes([n]) + bytes(50 * 2**20) for n in range(8)], jpeg(2), jpeg(3)]
    options = {"compression": "zstd", "use_dictionary": has_dictionary, "data_page_size": 2**30}
    with pq.ParquetWriter(
        file, pa.schema([("image", pa.binary())]), dictionary_pagesize_limit=2**30, **options
    ) as writer:
        for first, last in ((0, 1), (1, 10), (10, 11)):
            writer.write_table(pa.table({"image": images[first:last]}))
    samples = samples_of(open_source(str(file), None, None))
    message = "row group 1 takes too much memory to be decoded; write the file again with fewer rows in a row group"
    assert [s.fault for s in samples] == [None] + [Fault("too_large", message)] * 9 + [None]
    assert [s.encoded for s in samples if s.fault is None] == [images[0], images[10]]


@pytest.mark.parametrize("column", ["key", "category"])
def test_a_text_that_is_no_name_costs_its_row(file: Path, column: str) -> None:
    texts = ["a", "b" * parquet_schema.MAX_TEXT_BYTES, "c" * (parquet_schema.MAX_TEXT_BYTES + 1)]
    pq.write_table(pa.table({"image": [jpeg(n) for n in range(3)], column: texts}), file)
    samples = samples_of(open_source(str(file), None, None))
    message = f"its key or category has more than {parquet_schema.MAX_TEXT_BYTES} bytes"
    assert [s.fault for s in samples] == [None, None, Fault("too_large", message)]
    assert (samples[2].key, samples[2].category, samples[2].encoded) == ("000000002", None, b"")


@pytest.mark.slow
@pytest.mark.parametrize("column", ["key", "category"])
def test_many_rows_of_one_huge_key(file: Path, column: str) -> None:
    images = [jpeg(1)] * NUM_ROWS
    pq.write_table(pa.table({"image": images, column: repeated("k" * 900_000, pa.string())}), file)
    found = read_in_a_child(file)
    assert found["reasons"] == {"too_large": NUM_ROWS}
    assert found["mb"] < 200


def test_more_rows_than_bytes_are_one_row(file: Path) -> None:
    num_rows = parquet.MAX_ROWS + 1
    pq.write_table(pa.table({"image": pa.nulls(num_rows, pa.binary())}), file)
    (sample,) = samples_of(open_source(str(file), None, None))
    message = f"the file says that it has {num_rows} rows, in {file.stat().st_size} bytes"
    assert (sample.index, sample.key, sample.fault) == (0, "@0", Fault("too_many_rows", message))
    pq.write_table(pa.table({"image": pa.nulls(parquet.MAX_ROWS, pa.binary())}), file)
    assert sum(len(slice_.locators) for slice_ in slices_of(open_source(str(file), None, None))) == parquet.MAX_ROWS


def test_slices_are_not_cut_by_what_a_footer_makes_up(file: Path) -> None:
    pq.write_table(pa.table({"image": repeated(LARGE, pa.binary())}), file, compression="zstd")
    content = file.read_bytes()
    stated_size = pq.ParquetFile(file).metadata.row_group(0).total_byte_size
    assert content.count(varint(stated_size)) >= 1
    file.write_bytes(content.replace(varint(stated_size), varint(2**27 - 1)))
    assert pq.ParquetFile(file).metadata.row_group(0).total_byte_size == 2**27 - 1
    assert [len(slice_.locators) for slice_ in slices_of(open_source(str(file), None, None))] == [NUM_ROWS]


def varint(number: int) -> bytes:
    """As Thrift's compact protocol has it."""
    number, out = number << 1, b""
    while number > 127:
        number, out = number >> 7, out + bytes([number & 127 | 128])
    return out + bytes([number])


PICTURES = [jpeg(n) for n in range(6)]
IMAGES = pa.array([*PICTURES, None])
TEXTS = pa.array([*"abcdef", None])
KINDS: dict[str, tuple[list[Any], list[str]]] = {
    "plain": ([IMAGES], ["image"]),
    "large": ([IMAGES.cast(pa.large_binary())], ["image"]),
    "view": ([IMAGES.cast(pa.binary_view()), TEXTS.cast(pa.string_view())], ["image", "key"]),
    "dictionary": ([IMAGES.dictionary_encode(), TEXTS.dictionary_encode()], ["image", "key"]),
    "struct": ([of_struct(IMAGES)], ["image"]),
    "struct of dictionaries": ([of_struct(IMAGES.dictionary_encode())], ["image"]),
    "nulls": ([pa.nulls(7, pa.binary())], ["image"]),
    "lists beside": ([IMAGES, pa.array([["a"] * n for n in range(7)])], ["image", "key"]),
    "dots": ([IMAGES, TEXTS, of_struct(IMAGES)], ["jpg", "jpg.width", "other"]),
    "two keys": ([IMAGES, TEXTS, TEXTS], ["image", "key", "key"]),
    "two images": ([IMAGES, IMAGES], ["image", "image"]),
    "two images, one in a struct": ([of_struct(IMAGES), IMAGES], ["image", "image"]),
    "an image and a struct of its name": ([IMAGES, pa.StructArray.from_arrays([TEXTS], ["x"])], ["image", "image"]),
}


@pytest.mark.parametrize(("version", "row_group_size"), [("1.0", 3), ("2.0", 100)])
@pytest.mark.parametrize("kind", KINDS)
def test_as_many_rows_come_out_as_the_footer_says(file: Path, kind: str, version: str, row_group_size: int) -> None:
    arrays, names = KINDS[kind]
    pq.write_table(pa.Table.from_arrays(arrays, names), file, row_group_size=row_group_size, data_page_version=version)
    samples = samples_of(open_source(str(file), None, None))
    each = 2 if kind.startswith("two images") or kind == "dots" else 1
    assert [s.index for s in samples] == list(range(each * pq.ParquetFile(file).metadata.num_rows))
    if kind == "nulls":
        assert {s.fault and s.fault.reason for s in samples} == {"no_image"}
    else:
        assert [s.encoded for s in samples] == [content for picture in [*PICTURES, b""] for content in [picture] * each]
        assert [s.fault and s.fault.reason for s in samples] == [None] * 6 * each + ["no_image"] * each


def test_of_two_keys_with_bytes_in_one_none_is_a_key(file: Path) -> None:
    pq.write_table(pa.Table.from_arrays([IMAGES, TEXTS, IMAGES], ["image", "key", "key"]), file)
    assert [s.key for s in samples_of(open_source(str(file), None, None))][:2] == ["000000000#image", "000000001#key"]


def test_names_of_columns_are_printable_in_messages(file: Path) -> None:
    odd = ["\x1b[31mred", "b\nc", "d" * 1000]
    pq.write_table(pa.Table.from_arrays([TEXTS] * 3, odd), file)
    with pytest.raises(SourceError) as caught:
        open_source(str(file), None, None)
    assert str(caught.value).endswith(f": \\x1b[31mred, b\\nc, {'d' * 60}")
    pq.write_table(pa.Table.from_arrays([IMAGES, TEXTS], ["image", "\x1b[31mred"]), file)
    with pytest.raises(SourceError) as caught:
        open_source(str(file), None, "\x1b[31mrd")
    assert str(caught.value) == ('a.parquet has no column "\\x1b[31mrd" for --category (did you mean "\\x1b[31mred"?)')
    times = pa.array([1] * 7, pa.timestamp("ns", tz="\x1b[31m"))
    pq.write_table(pa.Table.from_arrays([IMAGES, times], ["image", "category"]), file)
    with pytest.raises(SourceError, match=r'"category" holds timestamp\[ns, tz=\\x1b\[31m\], not text'):
        open_source(str(file), None, None)
