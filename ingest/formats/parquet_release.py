"""Writes the kept rows of a Parquet file into a release."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import compress
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.formats.parquet_batches import batches
from ingest.formats.parquet_columns import Choice, choose, joined, plain_rows
from ingest.formats.parquet_pages import LargePageError
from ingest.formats.parquet_schema import DAMAGED, category_column, image_and_key, parquet_file, sample_of, untexted
from ingest.formats.released import Kept, RewriteRecord, Written, changed
from ingest.formats.shard import opened
from ingest.sample import MAX_BYTES
from ingest.storage.place import Place

CHECKED_ROWS = 64
"""Number of rows converted to Python objects at once."""


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """Write the kept rows, group by group, with the columns that `ingest.formats.parquet_columns` chooses."""
    num_written, writer, nulled, dropped, pictures = 0, None, Counter[str](), dict[int, str](), RewriteRecord()
    with opened(root, shard) as stream:
        file = parquet_file(stream)
        if file is None:
            raise changed(shard, "its footer cannot be read")
        kept.check_number(shard, file.metadata.num_rows)
        schema = file.schema_arrow
        image, key = image_and_key(schema, shard)
        choice = choose(
            schema, schema.names.index(image), (key, category_column(schema, shard, kept.category)), kept.members
        )
        with out.at(shard).create() as released, ExitStack() as stack:
            for group, indices, mask in _kept_rows(file, kept):
                try:
                    for rows, nulled_here in _released(
                        stream, file, shard, group, mask, indices, kept, choice, pictures
                    ):
                        if writer is None:  # the footer's facts about columns are read only after they were decoded
                            compression = _compression(file.metadata.row_group(group))
                            writer = stack.enter_context(
                                pq.ParquetWriter(released, choice.schema, compression=compression)
                            )
                        writer.write_table(rows)
                        num_written += rows.num_rows
                        nulled += nulled_here
                except LargePageError:
                    dropped |= dict.fromkeys(indices, f"row group {group} takes too much memory to be released")
            if writer is None:
                pq.write_table(choice.schema.empty_table(), released)
    left_out = Counter(dict.fromkeys(choice.left_out, num_written)) if num_written else Counter[str]()
    return Written(num_written, {shard: released.sha256}, dropped, dict(left_out + nulled), pictures)


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
    wanted, images = untexted(rows.select(numbers)), list[bytes | None]()
    for batch in wanted.to_batches(CHECKED_ROWS):
        for row in batch.to_pylist():
            sample = sample_of(shard, next(indices), row, image, key, None)
            sha256 = None if sample.fault else hashlib.sha256(sample.encoded).hexdigest()
            kept.check_image(shard, sample.index, sample.key, sha256)
            if kept.rewrite is not None:
                images.append(kept.released(sample.index, sample.encoded, pictures))
    if kept.rewrite is None:
        return rows
    column = rows.column(choice.image).combine_chunks()
    made = pa.array(images, column.field("bytes").type if pa.types.is_struct(column.type) else column.type)
    if pa.types.is_struct(column.type):
        children = [made if field.name == "bytes" else column.field(field.name) for field in column.type]
        made = pa.StructArray.from_arrays(children, fields=list(column.type), mask=column.is_null())
    rows = rows.set_column(choice.image, rows.schema.field(choice.image), made)
    return rows.filter(pa.array([content is not None for content in images]))


def _compression(rows: pq.RowGroupMetaData) -> str:
    name = str(rows.column(0).compression).lower()
    return "none" if name == "uncompressed" else name
