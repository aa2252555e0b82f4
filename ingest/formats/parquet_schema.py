"""What the columns of a Parquet file are: which one holds images, which ones keys and categories; a row
becomes a sample.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import Fault, SourceError, did_you_mean
from ingest.formats.parquet_columns import MAX_NAME_CHARACTERS
from ingest.formats.parquet_decoding import DAMAGED, TOO_LARGE
from ingest.sample import Sample, printable

IMAGE_NAMES = ("image", "jpg", "jpeg", "png", "webp", "img", "image_bytes", "bytes", "content", "data")
KEY_NAMES = ("key", "__key__", "id", "uid", "image_id", "file_name", "filename", "path")
DEFAULT_CATEGORY = "category"

NAMES_OF_URLS = ("url", "image_url", "img_url", "image_link")
"""Columns that hold the URLs of images, in lower case."""

NO_BYTES = Fault("no_image", "the row has no image bytes")

MAX_TEXT_BYTES = 2**16
"""Limit of a key or a category: a slice holds 1,024 of each."""


@dataclass(frozen=True)
class Columns:
    """Numbers of the columns of a file that are read."""

    images: tuple[int, ...]
    key: int | None
    category: int | None

    def kinds(self, schema: pa.Schema, with_images: bool = True) -> dict[int, pa.DataType]:
        """Return the types of these columns; of a struct with an image its bytes, and its path if that is the key."""
        kinds = {number: schema.field(number).type for number in (self.key, self.category) if number is not None}
        for number in self.images:
            kind, gives_key = schema.field(number).type, self.key is None
            if pa.types.is_struct(kind):
                paths = [f for f in kind if f.name == "path" and not pa.types.is_nested(value_type(f.type))]
                parts = [f for f in kind if (f.name == "bytes" and with_images) or (gives_key and f in paths)]
                kinds |= {number: pa.struct(parts)} if parts else {}
            elif with_images:
                kinds[number] = kind
        return kinds


def byte_columns(schema: pa.Schema) -> list[int]:
    """Return the numbers of the columns that may hold images."""
    return [number for number, f in enumerate(schema) if is_bytes(f.type) or is_hugging_face(f.type)]


def parquet_file(stream: BinaryIO) -> pq.ParquetFile | None:
    """Open the file; None if the footer cannot be read."""
    try:
        file = pq.ParquetFile(stream)
        return file if file.schema_arrow.names else None
    except DAMAGED:
        return None


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
    return bool(pa.types.is_struct(kind)) and [is_bytes(f.type) for f in kind if f.name == "bytes"] == [True]


def _is_list_of_images(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and (is_bytes(kind.value_type) or is_hugging_face(kind.value_type))


def lists_of_images(schema: pa.Schema) -> list[str]:
    """Return the names of the columns whose cells are lists of images, which are not read."""
    return [f.name for f in schema if _is_list_of_images(f.type)]


def key_column(schema: pa.Schema) -> int | None:
    """Return the column that gives the keys. Of several of one name it is the last, unless one of them is unfit."""
    unfit = {f.name for f in schema if not _gives_keys(f.type)}
    name = next((name for name in KEY_NAMES if name in schema.names and name not in unfit), None)
    return None if name is None else last_column(schema, name)


def last_column(schema: pa.Schema, name: str) -> int:
    """Return the number of the last column of this name."""
    return max(number for number, other in enumerate(schema.names) if other == name)


def no_image_column(schema: pa.Schema, shard: str, image_names: Sequence[str]) -> SourceError:
    """Return the error for a file without a column to scan. image_names: those that the user gave."""
    candidates, lists = [schema.names[number] for number in byte_columns(schema)], lists_of_images(schema)
    if image_names:
        missing = next(name for name in image_names if name not in candidates)
        close = did_you_mean(missing, map(printable, candidates))
        there = f"; there are: {_listed(candidates)}" if candidates else ""
        named = f'has no column "{printable(missing)}" with image bytes for --image-column{close}{there}'
    elif candidates:
        named = f"has {len(candidates)} columns with bytes, and none begins like a picture: {_listed(candidates)}; "
        named += "say with --image-column which are to be scanned"
    elif lists:
        named = f"has lists of images ({_listed(lists)}), which are not read; write a file with an image a row"
    else:
        urls = [name for name in schema.names if name.lower() in NAMES_OF_URLS]
        advice = "; it lists URLs: download them first with privsieve fetch" if urls else ""
        named = f"has no column with image bytes (binary or struct<bytes, path>): {_listed(schema.names)}{advice}"
    return SourceError(f"{printable(shard)} {named}")


def category_column(schema: pa.Schema, shard: str, category: str | None) -> int | None:
    """Return the number of the category column, of several of one name the last. SourceError if it does not exist or is
    not suitable."""
    if category is not None and category not in schema.names:
        close = did_you_mean(category, map(printable, schema.names))
        raise SourceError(f'{printable(shard)} has no column "{printable(category)}" for --category{close}')
    label = category or (DEFAULT_CATEGORY if DEFAULT_CATEGORY in schema.names else None)
    if label is None:
        return None
    kinds = [f.type for f in schema if f.name == label]  # names may occur twice
    unfit = next((kind for kind in kinds if not _gives_categories(kind)), None)
    if unfit is None:
        return last_column(schema, label)
    fitting = [f.name for f in schema if _gives_categories(f.type)]
    advice = f"name another with --category: {_listed(fitting)}" if fitting else "no column is suitable"
    message = f'the category column "{printable(label)}" holds {printable(str(unfit).partition("<")[0])}'
    raise SourceError(f"{printable(shard)}: {message}, not text, boolean or whole numbers; {advice}")


def leaves(schema: pa.Schema, wanted: Mapping[int, pa.DataType]) -> list[int]:
    """Return the numbers of the columns of a file that have no columns below them, below the wanted ones, ascending.
    wanted: number of a column -> its type, which of a struct may have fewer fields."""
    numbers, first = list[int](), 0
    for number, field in enumerate(schema):
        is_struct = pa.types.is_struct(field.type)
        names = {f.name for f in wanted[number]} if is_struct and number in wanted else set[str]()
        for child in field.type if is_struct else [field]:
            below = range(first, first + num_leaves(child.type))
            numbers += below if number in wanted and (child.name in names or not is_struct) else []
            first = below.stop
    return numbers


def num_leaves(kind: pa.DataType) -> int:
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if not pa.types.is_nested(stored):
        return 1
    return sum(num_leaves(stored.field(number).type) for number in range(stored.num_fields))


def _listed(names: Sequence[str]) -> str:
    """Join the first names; long ones are cut."""
    return ", ".join(printable(name)[:MAX_NAME_CHARACTERS] for name in names[:12])


def value_of(array: pa.Array, row: int) -> Any:
    """Return the value in a row of an array of an `untexted_type`; of a struct its fields by name."""
    if pa.types.is_struct(array.type):
        is_there = array[row].is_valid
        return {f.name: value_of(array.field(number), row) for number, f in enumerate(array.type)} if is_there else None
    if not pa.types.is_large_binary(array.type) or not array[row].is_valid:
        return array[row].as_py()
    _, offsets, content = array.buffers()  # `as_py` would copy the value twice
    begin, end = memoryview(offsets).cast("q")[array.offset + row : array.offset + row + 2]
    return bytes(memoryview(content)[begin:end]) if content else b""


def untexted_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, untexted_type(f.type)) for f in kind])
    if is_text(kind) or is_bytes(kind):
        return pa.large_binary()
    return pa.string() if pa.types.is_temporal(value_type(kind)) else kind


def _text(value: object) -> str:
    return printable(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value))


def bytes_of(cell: Any) -> bytes | None:
    """Return the image in a cell of an image column."""
    encoded = cell.get("bytes") if isinstance(cell, dict) else cell
    return encoded if isinstance(encoded, bytes) else None


def sample_of(shard: str, index: int, row: Mapping[int, Any], columns: Columns, image: int, name: str) -> Sample:
    """Return the sample of a row. row: number of a column -> value; a column that was not read is missing. name: of the
    image column, for the key, if the file has several; else empty."""
    cell = row.get(image)
    path = cell.get("path") if isinstance(cell, dict) else None
    encoded = bytes_of(cell)
    named = path if columns.key is None else row[columns.key]
    value = None if columns.category is None else row[columns.category]
    if any(isinstance(text, bytes | str) and len(text) > MAX_TEXT_BYTES for text in (named, value)):
        fault = Fault(TOO_LARGE, f"its key or category has more than {MAX_TEXT_BYTES} bytes")
        return Sample(printable(shard), index, f"{index:09d}", None, b"", fault)
    key = (_text(named) if named is not None else f"{index:09d}") + (f"#{printable(name)}" if name else "")
    category = None if value is None else _text(value)
    return Sample(printable(shard), index, key, category, encoded or b"", NO_BYTES if encoded is None else None)
