"""Which columns and cells of a table a release includes: whatever may be a second picture is left out.

The choice is made by type, so that all files of a corpus keep the same columns; single cells that do not fit their
type become null.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.formats.members import Mask, Members, masked_value
from ingest.formats.origins import leads_to_origin, without_origins
from ingest.images.files.magic import HEAD_BYTES, picture_format
from ingest.sample import printable

HUGGING_FACE = b"huggingface"
MAX_NAME_CHARACTERS = 60
"""Limit of a column's name in counts and messages."""

CHECKED_CELLS = 64
"""Number of binary cells whose beginnings are converted to Python objects at once."""

types = pa.types


@dataclass(frozen=True)
class Choice:
    """Which columns of a file are released."""

    indices: list[int]
    """Their positions in the file."""

    images: tuple[int, ...]
    """Positions of the image columns in `indices`."""

    key: str | None
    """Name of the column that gives the keys; None if there is none."""

    category: str | None
    """Name of the column that gives the categories. Both stay as they are."""

    schema: pa.Schema
    """Schema of these columns, with no more metadata than readers need."""

    left_out: list[str]
    """Names of the other columns in counts."""

    def plain_schema(self) -> pa.Schema:
        """Return the chosen columns with dictionaries decoded, of which pyarrow would write those of all rows, and
        without views, which it cannot filter."""
        fields = [field.with_type(_rebuilt(field.type, _without_dictionary)) for field in self.schema]
        return pa.schema(fields, self.schema.metadata)

    def joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Join plain rows for the release; dictionaries are built anew."""
        return pa.concat_tables(tables).combine_chunks().cast(self.schema)


def choose(
    schema: pa.Schema, images: Collection[int], key: str | None, category: str | None, members: Members
) -> Choice:
    """Choose the columns. images: numbers of the image columns. key, category: names of the columns that give them."""
    indices, fields, left_out = list[int](), list[pa.Field](), list[str]()
    for number, field in enumerate(schema):
        kind, is_taken = field.type, members != "image-only" or field.name in (key, category)
        if number in images:
            kind, gone = _image_type(field.type, members)
            left_out += [_label(f"{field.name}.{name}") for name in gone]
        elif not is_taken or not (_is_plain(kind) or (members == "all" and not _hides_a_dictionary(kind))):
            left_out.append(_label(field.name))
            continue
        indices.append(number)
        fields.append(pa.field(field.name, _rebuilt(kind, lambda leaf: leaf)))
    positions = tuple(position for position, number in enumerate(indices) if number in images)
    schema = pa.schema(fields, _metadata(schema, [field.name for field in fields]))
    return Choice(indices, positions, key, category, schema, left_out)


def cleaned_rows(plain: pa.Table, choice: Choice) -> tuple[pa.Table, Counter[str]]:
    """Return the rows, of the `plain_schema`, and how many cells of each column became null."""
    nulled, columns = Counter[str](), list[pa.ChunkedArray]()
    for number, column in enumerate(plain.columns):
        chunks = [_cleaned_image(chunk) if number in choice.images else _cleaned(chunk) for chunk in column.chunks]
        num_nulled = sum(num for _, num in chunks)
        if num_nulled:
            nulled[_label(choice.schema.names[number])] += num_nulled
        columns.append(pa.chunked_array([chunk for chunk, _ in chunks], column.type))
    return pa.table(columns, plain.schema), nulled


def _label(name: str) -> str:
    return f"column {printable(name)[:MAX_NAME_CHARACTERS]}"


def _image_type(kind: pa.DataType, members: Members) -> tuple[pa.DataType, list[str]]:
    """Return the released type of the image column, and the names of the fields that it loses."""
    if not types.is_struct(kind):
        return kind, []
    may_be_kept = [f.name == "path" or members != "image-only" for f in kind]
    is_kept = [f.name == "bytes" or (may and _is_plain(f.type)) for f, may in zip(kind, may_be_kept, strict=True)]
    kept = [f for f, keeps in zip(kind, is_kept, strict=True) if keeps]
    return pa.struct(kept), [f.name for f, keeps in zip(kind, is_kept, strict=True) if not keeps]


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether a type holds text, numbers, booleans, times or nests of these; no bytes, and no lists of 8-bit
    integers, which are bytes by another name."""
    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if types.is_nested(kind):
        children = [kind.field(number).type for number in range(kind.num_fields)]
        is_list = not (types.is_struct(kind) or types.is_map(kind))
        return all(map(_is_plain, children)) and not (
            is_list and any(types.is_int8(child) or types.is_uint8(child) for child in children)
        )
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    return bool(_is_text(kind) or is_number or types.is_temporal(kind) or types.is_null(kind))


def _is_text(kind: pa.DataType) -> bool:
    is_string = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return bool(is_string or isinstance(kind, pa.JsonType))


def masked_rows(
    rows: pa.Table | pa.RecordBatch, stays: Callable[[int, str], bool], mask: Mask
) -> tuple[pa.Table | pa.RecordBatch, int]:
    """Return the rows with masked texts, and the number of cells in which something is masked. A cell becomes null if
    the name of a field in it would have to be masked, or if it cannot be read or written, as JSON that is none.

    stays: says of the number and name of a column whether it stays as it is.
    """
    num_masked = 0
    for number, field in enumerate(rows.schema):
        if stays(number, field.name) or not has_texts(field.type):
            continue
        cells = [_edited_cell(field.type, cell, partial(masked_value, mask=mask)) for cell in rows.column(number)]
        num_masked += sum(is_other for _, is_other in cells)
        made = pa.concat_arrays([pa.nulls(0, field.type), *(cell for cell, _ in cells)])
        rows = rows.set_column(number, field, made)
    return rows, num_masked


def rows_without_origins(rows: pa.Table, choice: Choice, replaced_by: Sequence[str | None]) -> tuple[pa.Table, int]:
    """Return plain rows without what leads to the scanned files, and the number of rows that have lost something.
    replaced_by: for each row the hash of its released picture, empty for several; None if the row stays as it is."""
    lost = set[int]()
    for number, field in enumerate(rows.schema):
        column = rows.column(number).combine_chunks()
        if number not in choice.images:
            is_edited = field.name not in (choice.key, choice.category)
            made = _without_origins(field, column, replaced_by, lost) if is_edited else column
        elif types.is_struct(field.type):
            stays = ("bytes",) if choice.key is not None else ("bytes", "path")
            children = [
                child if part.name in stays else _without_origins(part, child, replaced_by, lost)
                for part, child in zip(field.type, column.flatten(), strict=True)
            ]
            made = pa.StructArray.from_arrays(children, fields=list(field.type), mask=column.is_null())
        else:
            continue
        rows = rows.set_column(number, field, made)
    return rows, len(lost)


def _without_origins(field: pa.Field, column: pa.Array, replaced_by: Sequence[str | None], lost: set[int]) -> pa.Array:
    """Return a column as `rows_without_origins` does, and add the rows that lose something to `lost`."""
    if not (leads_to_origin(field.name) or types.is_nested(field.type) or has_texts(field.type)):
        return column
    order, made = list(range(len(column))), list[pa.Array]()
    for row, sha256 in enumerate(replaced_by):
        if sha256 is None or not column[row].is_valid:
            continue
        order[row] = len(column) + len(made)
        cell, is_other = _edited_cell(field.type, column[row], partial(_value_without_origins, field.name, sha256))
        made.append(cell)
        lost |= {row} if is_other else set()
    return pa.concat_arrays([column, *made]).take(pa.array(order, pa.int64())) if made else column


def _value_without_origins(name: str, sha256: str, value: Any) -> Any:
    return without_origins({name: value}, sha256).get(name)


def _edited_cell(kind: pa.DataType, cell: pa.Scalar, edit: Callable[[Any], Any]) -> tuple[pa.Array, bool]:
    """Return an array of one cell, null where the edit fails or has another type, and whether it is changed."""
    is_json = isinstance(kind, pa.JsonType)
    try:
        cell = cell.cast(_rebuilt(kind, _without_times))  # Python's own times have no nanoseconds
        value = json.loads(cell.as_py()) if is_json and cell.is_valid else cell.as_py()
        made = edit(value)
        return pa.array([json.dumps(made) if is_json and made is not None else made], kind), made != value
    except (ValueError, RecursionError, pa.ArrowException):  # such as two fields of one name
        return pa.nulls(1, kind), cell.is_valid


def has_texts(kind: pa.DataType) -> bool:
    """Return whether values of this type hold text somewhere."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_texts(kind.storage_type)
    if types.is_dictionary(kind):
        return has_texts(kind.value_type)
    return _is_text(kind) or any(has_texts(kind.field(number).type) for number in range(kind.num_fields))


def _hides_a_dictionary(kind: pa.DataType) -> bool:
    """Return whether the type holds a dictionary that cannot be built anew."""
    if isinstance(kind, pa.BaseExtensionType):
        return "dictionary" in str(kind.storage_type)
    return any(_hides_a_dictionary(kind.field(number).type) for number in range(kind.num_fields))


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if types.is_binary_view(kind) else kind


def _without_times(kind: pa.DataType) -> pa.DataType:
    """Return the type of whole numbers that times of this type are stored as; another type as it is."""
    is_time = types.is_temporal(kind) and kind.bit_width <= 64
    return (pa.int32() if kind.bit_width == 32 else pa.int64()) if is_time else kind


def _rebuilt(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return the type with its leaves replaced; the fields within it lose their metadata."""
    if not types.is_nested(kind):
        return leaf(kind)
    fields = [kind.field(number) for number in range(kind.num_fields)]
    bare = [pa.field(f.name, _rebuilt(f.type, leaf), f.nullable) for f in fields]
    if types.is_struct(kind):
        return pa.struct([f.with_nullable(True) for f in bare])  # what leads to a scanned file becomes null
    if types.is_map(kind):
        return pa.map_(_rebuilt(kind.key_type, leaf), _rebuilt(kind.item_type, leaf), kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(bare[0], kind.list_size)
    return pa.large_list(bare[0]) if types.is_large_list(kind) else pa.list_(bare[0])


def _metadata(schema: pa.Schema, names: Collection[str]) -> dict[bytes, bytes] | None:
    """Return the metadata that Hugging Face's `datasets` reads: the features of these columns."""
    try:
        features = json.loads((schema.metadata or {})[HUGGING_FACE])["info"].get("features", {})
        kept = {"features": {name: features[name] for name in names if name in features}} if features else {}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    return {HUGGING_FACE: json.dumps({"info": kept}).encode()}


def _cleaned(column: pa.Array) -> tuple[pa.Array, int]:
    """Replace cells that do not fit their type, or hold a picture, by null; return the column and their number."""
    if not any(map(_is_bad, arrays_of_values(column))):
        return column, 0
    bad = {row for row in range(len(column)) if any(map(_is_bad, arrays_of_values(column.slice(row, 1))))}
    rows = [None if row in bad else row for row in range(len(column))]
    return column.take(pa.array(rows, pa.int64())), len(bad)


def _cleaned_image(column: pa.Array) -> tuple[pa.Array, int]:
    """Do the same for the fields next to the image's bytes in a struct."""
    fields = list(column.type) if types.is_struct(column.type) else []
    cleaned = [(column.field(n), 0) if f.name == "bytes" else _cleaned(column.field(n)) for n, f in enumerate(fields)]
    num_nulled = sum(num for _, num in cleaned)
    if not num_nulled:
        return column, 0
    children = [child for child, _ in cleaned]
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null()), num_nulled


def arrays_of_values(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of values that a column is made of."""
    if isinstance(column, pa.ExtensionArray):
        yield from arrays_of_values(column.storage)
    elif types.is_struct(column.type):
        for child in column.flatten():
            yield from arrays_of_values(child)
    elif types.is_map(column.type):
        pairs = pa.struct([column.type.key_field, column.type.item_field])
        yield from arrays_of_values(column.cast(pa.list_(pairs)).flatten())
    elif types.is_nested(column.type):
        yield from arrays_of_values(column.flatten())
    else:
        yield column


def _is_bad(values: pa.Array) -> bool:
    if _is_text(values.type):
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            return True
        # As a regular expression, since pyarrow's search for a plain text takes 20 times as long in large values.
        return bool(pc.any(pc.match_substring_regex(values, r"\x00")).as_py())
    if not (
        types.is_binary(values.type) or types.is_large_binary(values.type) or types.is_fixed_size_binary(values.type)
    ):
        return False
    for first in range(0, len(values), CHECKED_CELLS):
        heads = pc.binary_slice(values.slice(first, CHECKED_CELLS), 0, HEAD_BYTES).to_pylist()
        if any(head is not None and picture_format(head) is not None for head in heads):
            return True
    return False
