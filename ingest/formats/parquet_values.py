"""Values of a Parquet file: a row becomes a sample."""

from typing import Any

import pyarrow as pa

from ingest.fault import Fault
from ingest.formats.parquet_schema import MAX_TEXT_BYTES, is_bytes, is_text
from ingest.sample import Sample, printable

TOO_LARGE = "too_large"


def value_of(array: pa.Array) -> Any:
    """Return the value of an array of length 1: text as bytes, since it may be invalid, and times as text."""
    if pa.types.is_struct(array.type):
        if array.null_count:
            return None
        return {f.name: value_of(array.field(number)) for number, f in enumerate(array.type)}
    plain = array.cast(_untexted_type(array.type))
    return _bytes(plain) if pa.types.is_large_binary(plain.type) else plain[0].as_py()


def _bytes(array: pa.LargeBinaryArray) -> bytes | None:
    """Return the only value of the array. `as_py` would copy it twice."""
    _, offsets, content = array.buffers()
    if array.null_count or content is None:
        return None if array.null_count else b""
    begin, end = memoryview(offsets).cast("q")[array.offset : array.offset + 2]
    return bytes(memoryview(content)[begin:end])


def untexted(table: pa.Table) -> pa.Table:
    """Convert text to bytes, times to text, dictionaries and views to their values."""
    return table.cast(pa.schema([pa.field(f.name, _untexted_type(f.type)) for f in table.schema]))


def _untexted_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _untexted_type(f.type)) for f in kind])
    if is_text(kind) or is_bytes(kind):
        return pa.large_binary()
    return pa.string() if pa.types.is_temporal(kind) else kind


def _text(value: object) -> str:
    return printable(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value))


def sample_of(
    shard: str, index: int, row: dict[str, object], column: str, key: str | None, label: str | None
) -> Sample:
    image = row[column]
    path = image.get("path") if isinstance(image, dict) else None
    encoded = image.get("bytes") if isinstance(image, dict) else image
    named = row[key] if key else path
    value = row[label] if label else None
    if any(isinstance(text, bytes | str) and len(text) > MAX_TEXT_BYTES for text in (named, value)):
        fault = Fault(TOO_LARGE, f"its key or category has more than {MAX_TEXT_BYTES} bytes")
        return Sample(printable(shard), index, f"{index:09d}", None, b"", fault)
    return Sample(
        shard=printable(shard),
        index=index,
        key=_text(named) if named is not None else f"{index:09d}",
        category=None if value is None else _text(value),
        encoded=encoded if isinstance(encoded, bytes) else b"",
        fault=None if isinstance(encoded, bytes) else Fault("no_image", "the row has no image bytes"),
    )
