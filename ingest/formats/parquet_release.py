"""Writes the kept rows of a Parquet file into a release, in batches of rows that take a bounded part of the memory.

Each column of a row group is first decoded alone behind a `PageGuard`, which measures how large its rows are. Then the
columns are read together, as many rows at once as fit.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.formats.parquet_columns import (
    Choice,
    arrays_of_values,
    choose,
    joined,
    masked_rows,
    plain_rows,
    rows_without_origins,
)
from ingest.formats.parquet_pages import (
    DICTIONARY_ROWS,
    IMAGE_BUFFER_BYTES,
    MAX_IMAGE_PAGE_BYTES,
    TEXT_BUFFER_BYTES,
    DamagedPageError,
    LargePageError,
    PageGuard,
)
from ingest.formats.parquet_schema import DAMAGED, category_column, image_and_key, parquet_file, sample_of, untexted
from ingest.formats.released import Kept, RewriteRecord, Written, changed
from ingest.formats.shard import opened
from ingest.sample import MAX_BYTES, MAX_SAMPLES
from ingest.storage.place import Place

CHECKED_ROWS = 64
"""Number of rows converted to Python objects at once."""


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """Write the kept rows, group by group, with the columns that `ingest.formats.parquet_columns` chooses."""
    num_written, writer, nulled, dropped, pictures = 0, None, Counter[str](), dict[int, str](), RewriteRecord()
    num_masked = 0
    with opened(root, shard) as stream:
        file = parquet_file(stream)
        if file is None:
            raise changed(shard, "its footer cannot be read")
        kept.check_number(shard, file.metadata.num_rows)
        schema = file.schema_arrow
        image, key = image_and_key(schema, shard)
        category = category_column(schema, shard, kept.category)
        choice = choose(schema, schema.names.index(image), key, category, kept.members)
        with out.at(shard).create() as released, ExitStack() as stack:
            for group, indices, mask in _kept_rows(file, kept):
                try:
                    for rows, nulled_here in _released(
                        stream, file, shard, group, mask, indices, kept, choice, pictures
                    ):
                        if writer is None:  # the footer's facts about columns are read only after they were decoded
                            codec = str(file.metadata.row_group(group).column(0).compression).lower()
                            codec = codec.replace("uncompressed", "none")
                            writer = stack.enter_context(pq.ParquetWriter(released, choice.schema, compression=codec))
                        if kept.mask is not None:
                            rows, num_masked_here = masked_rows(
                                rows, lambda number, name: number == choice.image or name in (key, category), kept.mask
                            )
                            num_masked += num_masked_here
                        writer.write_table(rows)
                        num_written += rows.num_rows
                        nulled += nulled_here
                except LargePageError:
                    dropped |= dict.fromkeys(indices, f"row group {group} takes too much memory to be released")
            if writer is None:
                pq.write_table(choice.schema.empty_table(), released)
    left_out = Counter(dict.fromkeys(choice.left_out, num_written)) if num_written else Counter[str]()
    return Written(num_written, {shard: released.sha256}, dropped, dict(left_out + nulled), pictures, num_masked)


def _kept_rows(file: pq.ParquetFile, kept: Kept) -> Iterator[tuple[int, list[int], list[bool]]]:
    """Yield for each group with kept rows its number, the indices of these rows, and a mask over all its rows."""
    first = 0
    for group in range(file.num_row_groups):
        num_rows = file.metadata.row_group(group).num_rows
        indices = range(first, first + num_rows)
        mask = [index in kept.sha256 for index in indices]
        if any(mask):
            yield group, [*compress(indices, mask)], mask
        first += num_rows


def _released(
    stream: BinaryIO,
    file: pq.ParquetFile,
    shard: str,
    group: int,
    mask: Sequence[bool],
    indices: Sequence[int],
    kept: Kept,
    choice: Choice,
    pictures: RewriteRecord,
) -> Iterator[tuple[pa.Table, Counter[str]]]:
    """Yield the kept rows of a row group, a slice's worth at once, and how many cells became null.

    LargePageError before the first rows if the group cannot be read in bounded memory.
    """
    first, seen, waiting, nulled = 0, iter(indices), list[pa.Table](), Counter[str]()
    try:
        for batch in batches(stream, file, group, choice):
            wanted, first = mask[first : first + batch.num_rows], first + batch.num_rows
            if any(wanted):
                rows, nulled_here = plain_rows(pa.Table.from_batches([batch]), wanted, choice)
                waiting.append(_rewritten(rows, shard, seen, kept, choice, pictures))
                nulled += nulled_here
            if sum(rows.nbytes for rows in waiting) >= MAX_BYTES:
                yield joined(waiting, choice), nulled
                waiting, nulled = [], Counter()
        if waiting:
            yield joined(waiting, choice), nulled
    except DAMAGED:
        raise changed(shard, f"row group {group} cannot be decoded") from None


def _rewritten(
    rows: pa.Table, shard: str, indices: Iterator[int], kept: Kept, choice: Choice, pictures: RewriteRecord
) -> pa.Table:
    """Return the rows with their images as they are released, without those that are not released.

    IncompleteError if an image has changed since the scan. Columns by position, since names may occur twice.
    """
    image, key = image_and_key(rows.schema, shard)
    numbers = [choice.image]
    if key is not None:  # the last of several, as in `read`
        numbers.append(max(number for number, name in enumerate(rows.schema.names) if name == key))
    wanted, images, replaced_by = untexted(rows.select(numbers)), list[bytes | None](), list[str | None]()
    for batch in wanted.to_batches(CHECKED_ROWS):
        for row in batch.to_pylist():
            sample = sample_of(shard, next(indices), row, image, key, None)
            sha256 = None if sample.fault else hashlib.sha256(sample.encoded).hexdigest()
            kept.check_image(shard, sample.index, sample.key, sha256)
            if kept.rewrite is not None:
                images.append(kept.released(sample.index, sample.encoded, pictures))
                replaced_by.append(kept.replaced_by(sample.index, pictures))
    if kept.rewrite is None:
        return rows
    column = rows.column(choice.image).combine_chunks()
    made = pa.array(images, column.field("bytes").type if pa.types.is_struct(column.type) else column.type)
    if pa.types.is_struct(column.type):
        children = [made if field.name == "bytes" else column.field(field.name) for field in column.type]
        made = pa.StructArray.from_arrays(children, fields=list(column.type), mask=column.is_null())
    rows = rows.set_column(choice.image, rows.schema.field(choice.image), made)
    rows, num_without_origin = rows_without_origins(rows, choice, replaced_by)
    pictures.num_without_origin += num_without_origin
    return rows.filter(pa.array([content is not None for content in images]))


MAX_ROW_BYTES = 256 * 2**20
"""Limit over all chosen columns: a row is copied several times while it is checked and written."""

MAX_PAGES_BYTES = 768 * 2**20
"""Limit of the pages of all chosen columns, which are decoded at the same time."""

VALUE_BYTES = 16
"""Minimum memory of a value in a list: itself, its levels and its offset."""

BUFFERS_BYTES = 64 * 2**20
"""Read buffers of all columns together, unless there are very many columns."""

FIXED_BYTES = 2**20
"""Bytes of fixed-width values decoded at once."""

ENDLESS = 2**62

types = pa.types


@dataclass(frozen=True)
class LeafColumn:
    """A column of the file that has no columns below it."""

    number: int
    """Position in the file."""

    kind: pa.DataType
    is_in_list: bool

    null_bytes: int
    """Memory that a null in a list takes."""


def parts_of(schema: pa.Schema, choice: Choice) -> list[LeafColumn]:
    """Return the leaf columns of the chosen columns; of a struct with an image only the fields that are kept."""
    parts, number = list[LeafColumn](), 0
    for index, field in enumerate(schema):
        below_field = list(_parts(field.type, number))
        number += len(below_field)
        if index == choice.indices[choice.image] and types.is_struct(field.type):
            wanted, first = {f.name for f in choice.schema.field(choice.image).type}, number - len(below_field)
            for child in field.type:
                below = list(_parts(child.type, first))
                first += len(below)
                parts += below if child.name in wanted else []
        elif index in choice.indices:
            parts += below_field
    return parts


def _parts(kind: pa.DataType, first: int, is_in_list: bool = False, null_bytes: int = 0) -> Iterator[LeafColumn]:
    """Yield the parts of a column; `first` is the number of the first part."""
    kind = _stored(kind)
    if not types.is_nested(kind):
        yield LeafColumn(first, kind, is_in_list, null_bytes)
        return
    if types.is_fixed_size_list(kind) and is_in_list:
        null_bytes = max(null_bytes, _null_bytes(kind))
    for child in _children(kind):
        for part in _parts(child, first, is_in_list or not types.is_struct(kind), null_bytes):
            yield part
            first = part.number + 1


def _stored(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _children(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(number).type for number in range(kind.num_fields)]


def _null_bytes(kind: pa.DataType) -> int:
    """Return the memory of a null of this type in Arrow: a list of fixed size takes its whole size."""
    kind = _stored(kind)
    if types.is_fixed_size_list(kind):
        return int(kind.list_size) * _null_bytes(kind.value_type)
    if types.is_struct(kind):
        return sum(map(_null_bytes, _children(kind)))
    return int(kind.byte_width) if types.is_fixed_size_binary(kind) else VALUE_BYTES


def batches(stream: BinaryIO, file: pq.ParquetFile, group: int, choice: Choice) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the group, chosen columns only. LargePageError, before the first row, if memory is short."""
    parts, num_rows = parts_of(file.schema_arrow, choice), file.metadata.row_group(group).num_rows
    if sum(_null_bytes(file.schema_arrow.field(index).type) for index in choice.indices) > MAX_ROW_BYTES:
        raise LargePageError
    row_bytes = page_bytes = num_read = 0
    # Measure every column alone first: pyarrow decodes a whole page at once, and all columns of a batch together.
    for part in parts:
        row_here, pages_here = _measured(stream, file, group, part)
        row_bytes, page_bytes = row_bytes + row_here, page_bytes + pages_here
        if row_bytes > MAX_ROW_BYTES or page_bytes > MAX_PAGES_BYTES:
            raise LargePageError
    at_once = max(1, min(MAX_SAMPLES, MAX_BYTES // row_bytes))
    buffer_bytes = min(IMAGE_BUFFER_BYTES, max(TEXT_BUFFER_BYTES, BUFFERS_BYTES // len(parts)))
    columns = pq.ParquetFile(stream, metadata=file.metadata, buffer_size=buffer_bytes, pre_buffer=False)
    for batch in columns.reader.iter_batches(
        at_once, row_groups=[group], column_indices=[part.number for part in parts], use_threads=False
    ):
        num_read += batch.num_rows
        yield batch
    if num_read != num_rows:
        raise DamagedPageError


def _measured(stream: BinaryIO, file: pq.ParquetFile, group: int, part: LeafColumn) -> tuple[int, int]:
    """Return the memory of the column's largest row, and the memory in use in addition."""
    stored, num_rows = file.schema.column(part.number), file.metadata.row_group(group).num_rows
    is_text, num_read, largest = stored.physical_type == "BYTE_ARRAY", 0, 0
    width = VALUE_BYTES + (stored.length or 0) + part.null_bytes
    if width > MAX_ROW_BYTES:
        raise LargePageError
    if part.is_in_list:  # one row may hold any number of values, so rows are read one at a time
        at_once, guard = 1, PageGuard(stream, ENDLESS, MAX_IMAGE_PAGE_BYTES, ENDLESS, width)
    elif is_text:
        at_once = DICTIONARY_ROWS if types.is_dictionary(part.kind) else 1
        guard = PageGuard(stream, num_rows, MAX_IMAGE_PAGE_BYTES, at_once)
    else:
        at_once = max(1, min(MAX_SAMPLES, FIXED_BYTES // width))
        guard = PageGuard(stream, num_rows, MAX_IMAGE_PAGE_BYTES, 1)
    column = pq.ParquetFile(
        guard,
        metadata=file.metadata,
        buffer_size=TEXT_BUFFER_BYTES if part.is_in_list else IMAGE_BUFFER_BYTES,
        pre_buffer=False,
        read_dictionary=[stored.path] if part.is_in_list and is_text else None,  # a repeated text is stored once
        arrow_extensions_enabled=False,
    )
    for batch in column.reader.iter_batches(
        at_once, row_groups=[group], column_indices=[part.number], use_threads=False
    ):
        num_read += batch.num_rows
        array = batch.column(0)
        if part.is_in_list:
            largest = max(largest, array.nbytes + sum(_value_bytes(values)[0] for values in arrays_of_values(array)))
        elif is_text:
            largest = max(largest, *(_value_bytes(values)[1] for values in arrays_of_values(array)))
        del array
        del batch
        guard.next_batch()
    if num_read != num_rows:
        raise DamagedPageError
    return max(width, largest), guard.peak_bytes + TEXT_BUFFER_BYTES


def _value_bytes(values: pa.Array) -> tuple[int, int]:
    """Return the memory of all values and of the largest, when each is stored on its own, without a dictionary."""
    if types.is_dictionary(values.type):
        lengths = pc.binary_length(values.dictionary.cast(pa.large_binary())).take(values.indices)
        together, largest = pc.sum(lengths).as_py() or 0, pc.max(lengths).as_py() or 0
    else:
        together = largest = values.nbytes
    return together + VALUE_BYTES * len(values), largest + VALUE_BYTES
