"""Parquet files that are small and take a lot: every row is a row all the same, in a bounded part of the memory."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import Fault, SourceError
from ingest.formats import open_source, parquet, parquet_pages, parquet_schema
from ingest.formats.parquet_pages import DamagedPageError, page_header
from tests.ingest.large_parquet import LARGE, MAX_MB, NUM_ROWS, read_in_a_child, repeated
from tests.ingest.made import jpeg, samples_of, slices_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.parquet"


def shared(value: bytes, num_rows: int = NUM_ROWS) -> pa.ChunkedArray:
    """The same without a dictionary; the test itself holds the value once too."""
    return pa.chunked_array([pa.array([value])] * num_rows)


def of_struct(images: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([images, pa.array([f"{n}.jpg" for n in range(len(images))])], ["bytes", "path"])


@pytest.mark.slow
@pytest.mark.parametrize("keeps_arrow_type", [True, False])
@pytest.mark.parametrize("in_struct", [True, False])
def test_a_thousand_rows_of_one_dictionary_entry(file: Path, keeps_arrow_type: bool, in_struct: bool) -> None:
    images = repeated(LARGE, pa.binary())
    table = pa.table({"image": of_struct(images) if in_struct else images})
    pq.write_table(table, file, compression="zstd", store_schema=keeps_arrow_type)
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
def test_a_large_page_is_not_decoded(file: Path) -> None:
    """600 MB out of less than 100 KB."""
    large = pa.table({"image": shared(LARGE, 150)})
    pq.write_table(large, file, use_dictionary=False, compression="zstd", data_page_size=2**30)
    assert file.stat().st_size < 100_000
    found = read_in_a_child(file)
    assert found["reasons"] == {"too_large": 150}
    assert found["mb"] < 200


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("has_dictionary", [True, False])
def test_a_page_above_the_limit_costs_its_row_group(
    file: Path, monkeypatch: pytest.MonkeyPatch, codec: str, version: str, has_dictionary: bool
) -> None:
    monkeypatch.setattr(parquet_pages, "MAX_IMAGE_PAGE_BYTES", 100_000)
    images = [jpeg(1), jpeg(2), bytes(100_001), jpeg(3), jpeg(4), jpeg(5)]
    options = {"compression": codec, "data_page_version": version, "use_dictionary": has_dictionary}
    pq.write_table(pa.table({"image": images}), file, row_group_size=4, **options)
    samples = samples_of(open_source(str(file), None, None))
    message = "row group 0 has a page that decodes to more than 512 MB, or 64 MB of keys or categories"
    assert [s.fault for s in samples] == [Fault("too_large", message)] * 4 + [None] * 2
    assert [(s.index, s.key) for s in samples] == [(n, f"{n:09d}") for n in range(6)]
    assert [s.encoded for s in samples[4:]] == images[4:]


def test_rows_that_are_not_held_are_read_once_more(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_pages, "HELD_BYTES", 2000)
    images = [jpeg(n) for n in range(9)]
    pq.write_table(pa.table({"image": images, "key": [f"k{n}" for n in range(9)]}), file)
    samples = samples_of(open_source(str(file), None, None))
    assert [(s.index, s.key, s.encoded) for s in samples] == [(n, f"k{n}", images[n]) for n in range(9)]


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
    "an image and a struct of its name": (
        [IMAGES, pa.StructArray.from_arrays([TEXTS], ["x"])],
        ["image", "image"],
    ),
    "two bytes": ([pa.StructArray.from_arrays([IMAGES, IMAGES], ["bytes", "bytes"])], ["image"]),
}


@pytest.mark.parametrize("row_group_size", [3, 100])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("kind", KINDS)
def test_as_many_rows_come_out_as_the_footer_says(file: Path, kind: str, version: str, row_group_size: int) -> None:
    arrays, names = KINDS[kind]
    pq.write_table(pa.Table.from_arrays(arrays, names), file, row_group_size=row_group_size, data_page_version=version)
    samples = samples_of(open_source(str(file), None, None))
    assert [s.index for s in samples] == list(range(pq.ParquetFile(file).metadata.num_rows))
    if kind.startswith("two ") and kind != "two keys":
        message = 'the file has several columns "image"'
        assert {s.fault for s in samples} == {Fault("several_images", message)}
        assert {s.encoded for s in samples} == {b""}
    elif kind == "nulls":
        assert {s.fault and s.fault.reason for s in samples} == {"no_image"}
    else:
        assert [s.encoded for s in samples] == [*PICTURES, b""]
        assert [s.fault and s.fault.reason for s in samples] == [None] * 6 + ["no_image"]


def test_of_two_keys_with_bytes_in_one_none_is_a_key(file: Path) -> None:
    pq.write_table(pa.Table.from_arrays([IMAGES, TEXTS, IMAGES], ["image", "key", "key"]), file)
    assert samples_of(open_source(str(file), None, None))[0].key == "000000000"


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


HEADER = bytes.fromhex("1500 1514 1516 2c 1506 1500 1506 1506 00 00")
"""A page of data with 3 values in 11 bytes, 10 when decompressed; no statistics."""


def test_a_page_header_is_what_pyarrow_reads() -> None:
    header = page_header(b"before" + HEADER + b"behind", 6)
    assert (header.num_bytes, header.kind, header.num_values, header.encoding) == (len(HEADER), 0, 3, 0)
    assert (header.uncompressed_bytes, header.compressed_bytes, header.decoded_bytes) == (10, 11, 11)
    for end in range(len(HEADER)):
        with pytest.raises(IndexError):
            page_header(HEADER[:end], 0)


@pytest.mark.parametrize(
    "content",
    [
        bytes.fromhex("1500 1514 1516 00"),  # no header of its kind
        bytes.fromhex("1500 1513 1516 2c 1506 1500 00 00"),  # a negative size
        bytes.fromhex("1500 1514 1516 29 15 00"),  # a list
        bytes.fromhex("1500 1514 1516" + "ff" * 11),  # a number without an end
        bytes.fromhex("1500 1514 1516" + "1c" * 20 + "00" * 20),  # structs in structs
        b"<html>404</html>" * 9,
    ],
)
def test_a_page_header_that_pyarrow_may_read_otherwise_is_refused(content: bytes) -> None:
    with pytest.raises(DamagedPageError):
        page_header(content, 0)


def test_the_last_of_two_sizes_counts_and_only_of_the_right_type() -> None:
    twice = bytes.fromhex("1500 1514") + b"\x05\x04" + varint(2**30) + HEADER[4:]
    assert page_header(twice, 0).uncompressed_bytes == 2**30
    other_type = bytes.fromhex("1500") + b"\x15" + varint(2**30) + b"\x06\x04" + varint(5) + HEADER[4:]
    assert page_header(other_type, 0).uncompressed_bytes == 2**30
    assert parquet_pages.MAX_HEADER_BYTES == 16 * 2**20
