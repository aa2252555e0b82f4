"""Writes the kept rows of a Parquet file into a release, in batches of rows that take a bounded part of the memory."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import Fault
from ingest.formats.parquet_columns import Choice, choose, cleaned_rows, masked_rows, rows_without_origins
from ingest.formats.parquet_decoding import TOO_LARGE, GroupFaultError, LostRow, Request, decoded
from ingest.formats.parquet_rows import columns_of, footer
from ingest.formats.parquet_schema import Columns, bytes_of, leaves, sample_of, untexted_type, value_of
from ingest.formats.released import Kept, RewriteRecord, Written, changed
from ingest.sample import MAX_BYTES
from ingest.storage.place import Place


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """Write the kept rows, group by group, with the columns that `ingest.formats.parquet_columns` chooses. Of a row
    with several images, those that are not released are null; a row without any is left out."""
    num_written, writer, nulled, dropped, pictures = 0, None, Counter[str](), dict[int, str](), RewriteRecord()
    num_masked = 0
    file = footer(root, shard)
    if file is None:
        raise changed(shard, "its footer cannot be read")
    schema = file.schema_arrow
    columns = columns_of(root, shard, file, kept.category, kept.image_names)
    if not columns.images:
        raise changed(shard, "it has no column with image bytes")
    kept.check_number(shard, file.metadata.num_rows * len(columns.images))
    key, category = (None if number is None else schema.names[number] for number in (columns.key, columns.category))
    choice = choose(schema, columns.images, key, category, kept.members)
    columns = replace(columns, key=columns.key if columns.key in choice.indices else None, category=None)
    kinds = dict(zip(choice.indices, choice.schema.types, strict=True))
    with out.at(shard).create() as released, ExitStack() as stack:
        for group, first, num_rows in _kept_rows(file, kept, len(columns.images)):
            request = Request(
                root, shard, file.metadata, group, range(num_rows), leaves(schema, kinds), choice.plain_schema()
            )
            rows = _Rows(request, columns, choice, kept, first, pictures, dropped)
            for table, num_here, nulled_here in rows.released():
                if writer is None:  # the footer's facts about columns are read only after they were decoded
                    codec = str(file.metadata.row_group(group).column(0).compression).lower()
                    codec = codec.replace("uncompressed", "none")
                    writer = stack.enter_context(pq.ParquetWriter(released, choice.schema, compression=codec))
                if kept.mask is not None:
                    table, num_masked_here = masked_rows(
                        table, lambda number, name: number in choice.images or name in (key, category), kept.mask
                    )
                    num_masked += num_masked_here
                writer.write_table(table)
                num_written += num_here
                nulled += nulled_here
        if writer is None:
            pq.write_table(choice.schema.empty_table(), released)
    left_out = Counter(dict.fromkeys(choice.left_out, num_written)) if num_written else Counter[str]()
    return Written(num_written, {shard: released.sha256}, dropped, dict(left_out + nulled), pictures, num_masked)


def _kept_rows(file: pq.ParquetFile, kept: Kept, num_images: int) -> Iterator[tuple[int, int, int]]:
    """Yield each group with kept rows, the index of its first row, and the number of its rows up to the last kept one.
    num_images: of each row."""
    kept_rows, first = {index // num_images for index in kept.sha256}, 0
    for group in range(file.num_row_groups):
        num_rows = file.metadata.row_group(group).num_rows
        last = max((row for row in range(first, first + num_rows) if row in kept_rows), default=None)
        if last is not None:
            yield group, first, last + 1 - first
        first += num_rows


@dataclass(frozen=True)
class _Rows:
    """The rows of a row group. Fields without a docstring are as in `write`."""

    request: Request
    columns: Columns
    choice: Choice
    kept: Kept

    first: int
    """Index of the first row."""

    pictures: RewriteRecord

    dropped: dict[int, str]
    """Gets the kept images that cannot be decoded."""

    def released(self) -> Iterator[tuple[pa.Table, int, Counter[str]]]:
        """Yield the kept rows, a slice's worth at once, the number of their images, and of the cells of each column
        that became null. IncompleteError if rows that were scanned cannot be decoded."""
        waiting, num_waiting, nulled = list[pa.Table](), 0, Counter[str]()
        rest = range(self.first, self.first + len(self.request.rows))
        try:
            for piece in decoded(self.request):
                here, rest = rest[: piece.num_rows], rest[piece.num_rows :]
                mask = [any(index is not None for index in self._kept_of(row)) for row in here]
                if isinstance(piece, LostRow):
                    self._drop(here, piece.fault)
                elif any(mask):
                    table = pa.Table.from_batches([piece]).filter(pa.array(mask))
                    table, nulled_here = cleaned_rows(table, self.choice)
                    table, num_here = self._with_released_images(table, [*compress(here, mask)])
                    waiting.append(table)
                    num_waiting += num_here
                    nulled += nulled_here
                if sum(rows.nbytes for rows in waiting) >= MAX_BYTES:
                    yield self.choice.joined(waiting), num_waiting, nulled
                    waiting, num_waiting, nulled = [], 0, Counter()
        except GroupFaultError as error:
            if error.fault.reason != TOO_LARGE:
                raise changed(self.request.shard, error.fault.message) from None
            self._drop(rest, error.fault)
        if waiting:
            yield self.choice.joined(waiting), num_waiting, nulled

    def _kept_of(self, row: int) -> Sequence[int | None]:
        """Return the index of each image of a row, None for those that are not kept."""
        indices = range(row * len(self.columns.images), (row + 1) * len(self.columns.images))
        return [index if index in self.kept.sha256 else None for index in indices]

    def _drop(self, rows: Iterable[int], fault: Fault) -> None:
        for row in rows:
            self.dropped.update({index: fault.message for index in self._kept_of(row) if index is not None})

    def _with_released_images(self, table: pa.Table, rows: Sequence[int]) -> tuple[pa.Table, int]:
        """Return the rows with their images as they are released, without rows that have none, and their number. rows:
        numbers of the rows in the file. IncompleteError if an image has changed since the scan."""
        key = self.columns.key
        keys = None
        if key is not None:  # as the scan reads them
            names = table.column(self.choice.indices.index(key))
            keys = names.cast(untexted_type(names.type)).to_pylist()
        replaced_by = [list[str | None]() for _ in rows]
        of_rows, num_images, has_image = [self._kept_of(row) for row in rows], 0, np.zeros(len(rows), dtype=np.bool_)
        for n, position in enumerate(self.choice.images):
            column, images = table.column(position).combine_chunks(), list[bytes | None]()
            cells, is_there = column.cast(untexted_type(column.type)), np.zeros(len(rows), dtype=np.bool_)
            for row, of_row in enumerate(of_rows):
                image, index, cell = None, of_row[n], value_of(cells, row)
                if index is not None:
                    encoded = self._checked(index, n, cell, None if keys is None else keys[row])
                    image = self.kept.released(index, encoded, self.pictures)
                    if self.kept.rewrite is not None:
                        replaced_by[row].append(self.kept.replaced_by(index, self.pictures))
                is_there[row] = image is not None
                if image is None and len(self.choice.images) > 1 and bytes_of(cell) is not None:
                    replaced_by[row].append(None if self.kept.origins == "kept" else "")  # others of the row may stay
                images.append(image if self.kept.rewrite is not None else None)
            if self.kept.rewrite is not None:
                column = _with_bytes(column, images)
            if not is_there.all():
                column = column.take(pa.array([row if is_there[row] else None for row in range(len(rows))], pa.int64()))
            table = table.set_column(position, table.schema.field(position), column)
            has_image |= is_there
            num_images += int(is_there.sum())
        of_texts = [_of_texts(hashes) for hashes in replaced_by]
        if any(sha256 is not None for sha256 in of_texts):
            table, num_without_origin = rows_without_origins(table, self.choice, of_texts)
            self.pictures.num_without_origin += num_without_origin
        return table.filter(pa.array(has_image)), num_images

    def _checked(self, index: int, n: int, cell: Any, key: Any) -> bytes:
        """Return the image if it is the scanned one. n: its position among the images of the row."""
        image, columns = self.columns.images[n], self.columns
        name = self.request.schema.names[self.choice.images[n]] if len(columns.images) > 1 else ""
        row = {image: cell} | ({} if columns.key is None else {columns.key: key})
        sample = sample_of(self.request.shard, index, row, columns, image, name)
        sha256 = None if sample.fault else hashlib.sha256(sample.encoded).hexdigest()
        self.kept.check_image(self.request.shard, index, sample.key, sha256)
        return sample.encoded


def _of_texts(replaced_by: Sequence[str | None]) -> str | None:
    """Return what `rows_without_origins` takes for a row. replaced_by: of each of its images."""
    changed_ = [sha256 for sha256 in replaced_by if sha256 is not None]
    return None if not changed_ else changed_[0] if len(replaced_by) == 1 else ""


def _with_bytes(column: pa.Array, images: Sequence[bytes | None]) -> pa.Array:
    if not pa.types.is_struct(column.type):
        return pa.array(images, column.type)
    made = pa.array(images, column.field("bytes").type)
    children = [made if field.name == "bytes" else column.field(field.name) for field in column.type]
    return pa.StructArray.from_arrays(children, fields=list(column.type), mask=column.is_null())
