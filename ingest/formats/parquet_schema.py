"""What the columns of a Parquet file are: which one holds images, which ones keys and categories; a row
becomes a sample.
"""

from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import Fault, SourceError, did_you_mean
from ingest.formats.parquet_columns import MAX_NAME_CHARACTERS
from ingest.formats.parquet_pages import DamagedPageError
from ingest.sample import Sample, printable

IMAGE_NAMES = ("image", "jpg", "jpeg", "png", "webp", "img", "image_bytes", "bytes", "content", "data")

KEY_NAMES = ("key", "__key__", "id", "uid", "image_id", "file_name", "filename", "path")

DEFAULT_CATEGORY = "category"

NAMES_OF_URLS = ("url", "image_url", "img_url", "image_link")
"""Columns that hold the URLs of images, in lower case."""

MAX_TEXT_BYTES = 2**16
"""Limit of a key or a category: a slice holds 1,024 of each."""

DAMAGED = (OSError, pa.ArrowException, UnicodeDecodeError, DamagedPageError)
"""What a damaged file raises; failures of the storage are StorageErrors before pyarrow sees them."""


def parquet_file(stream: BinaryIO) -> pq.ParquetFile | None:
    """Open the file; None if the footer cannot be read."""
    try:
        file = pq.ParquetFile(stream)
        return file if file.schema_arrow.names else None
    except DAMAGED:
        return None


def image_column(schema: pa.Schema) -> str | None:
    """Return the column with image bytes: one with a known name, else the only binary one, else None."""
    candidates = [f.name for f in schema if is_bytes(f.type) or is_hugging_face(f.type)]
    named = [name for name in IMAGE_NAMES if name in candidates]
    if named:
        return named[0]
    return candidates[0] if len(candidates) == 1 else None


def value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_bytes(kind: pa.DataType) -> bool:
    kind, types = value_type(kind), pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def is_text(kind: pa.DataType) -> bool:
    kind, types = value_type(kind), pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _gives_categories(kind: pa.DataType) -> bool:
    """Return whether values may become categories: bytes and nested columns may hold pictures, which must not."""
    inner, types = value_type(kind), pa.types
    return is_text(kind) or bool(types.is_boolean(inner) or types.is_integer(inner) or types.is_null(inner))


def _gives_keys(kind: pa.DataType) -> bool:
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if pa.types.is_fixed_size_binary(value_type(stored)) and value_type(stored).byte_width > MAX_TEXT_BYTES:
        return False  # even a null takes this much
    return not is_bytes(stored) and not pa.types.is_nested(value_type(stored))


def is_hugging_face(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) and any(f.name == "bytes" and is_bytes(f.type) for f in kind)


def image_and_key(schema: pa.Schema, shard: str) -> tuple[str, str | None]:
    """Return the names of the image and the key column. SourceError if there is no image column."""
    column = image_column(schema)
    if column is None:
        message = "has no column with image bytes (binary or struct<bytes, path>)"
        urls = [name for name in schema.names if name.lower() in NAMES_OF_URLS]
        advice = "; it lists URLs: download them first with privsieve fetch" if urls else ""
        raise SourceError(f"{printable(shard)} {message}: {_listed(schema.names)}{advice}")
    unfit = {f.name for f in schema if not _gives_keys(f.type)} | {column}  # names may occur twice
    return column, next((name for name in KEY_NAMES if name in schema.names and name not in unfit), None)


def category_column(schema: pa.Schema, shard: str, category: str | None) -> str | None:
    """Return the name of the category column. SourceError if it does not exist or is not suitable."""
    if category is not None and category not in schema.names:
        close = did_you_mean(category, map(printable, schema.names))
        raise SourceError(f'{printable(shard)} has no column "{printable(category)}" for --category{close}')
    label = category or (DEFAULT_CATEGORY if DEFAULT_CATEGORY in schema.names else None)
    if label is None:
        return None
    kinds = [f.type for f in schema if f.name == label]  # names may occur twice
    unfit = next((kind for kind in kinds if not _gives_categories(kind)), None)
    if unfit is None:
        return label
    fitting = [f.name for f in schema if _gives_categories(f.type)]
    advice = f"name another with --category: {_listed(fitting)}" if fitting else "no column is suitable"
    message = f'the category column "{printable(label)}" holds {printable(str(unfit).partition("<")[0])}'
    raise SourceError(f"{printable(shard)}: {message}, not text, boolean or whole numbers; {advice}")


def _listed(names: Sequence[str]) -> str:
    """Join the first names; long ones are cut."""
    return ", ".join(printable(name)[:MAX_NAME_CHARACTERS] for name in names[:12])


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
