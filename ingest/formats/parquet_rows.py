"""The rows of a Parquet file as Python values, and which of its columns hold images."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import Fault
from ingest.formats.parquet_columns import HUGGING_FACE
from ingest.formats.parquet_decoding import GroupFaultError, LostRow, Request, decoded
from ingest.formats.parquet_schema import (
    IMAGE_NAMES,
    Columns,
    byte_columns,
    category_column,
    is_text,
    key_column,
    leaves,
    lists_of_images,
    parquet_file,
    untexted_type,
    value_of,
)
from ingest.formats.shard import opened
from ingest.images.files.magic import HEAD_BYTES, picture_format
from ingest.storage.place import Place

PROBED_ROWS = 64
"""Number of rows whose first value shows whether a column holds images."""

Made = TypeVar("Made")
"""Type of a value made from a text."""


def footer(root: Place, shard: str) -> pq.ParquetFile | None:
    """Return the footer of the file alone; None if it cannot be read."""
    with opened(root, shard) as stream:
        return parquet_file(stream)


@dataclass(frozen=True)
class RowGroup:
    root: Place
    shard: str
    file: pq.ParquetFile
    number: int

    def rows(self, numbers: Collection[int], kinds: Mapping[int, pa.DataType]) -> Iterator[dict[int, Any] | Fault]:
        """Yield for each of these rows, ascending, the values of the columns; GroupFaultError as `decoded`.

        Without a column nothing is read.

        kinds: number of a column -> its type, which of a struct may have fewer fields.
        """
        schema, wanted = self.file.schema_arrow, sorted(kinds)
        if not wanted or not numbers:
            yield from ({} for _ in numbers)
            return
        types = pa.schema([pa.field(schema.names[column], untexted_type(kinds[column])) for column in wanted])
        rows = range(min(numbers), max(numbers) + 1)
        request = Request(self.root, self.shard, self.file.metadata, self.number, rows, leaves(schema, kinds), types)
        first, chosen = rows.start, frozenset(numbers)
        for piece in decoded(request):
            for row in range(piece.num_rows):
                if first + row in chosen:
                    if isinstance(piece, LostRow):
                        yield piece.fault
                    else:
                        yield {column: value_of(piece.column(n), row) for n, column in enumerate(wanted)}
            first += piece.num_rows

    def made_of_column(
        self, numbers: Collection[int], names: Sequence[str], made_of: Callable[[bytes], Made | None]
    ) -> dict[int, Made]:
        """Apply `made_of` to each row of the first of these columns that holds text. Rows that give nothing, or cannot
        be read, are left out."""
        kinds = {f.name: (column, f.type) for column, f in enumerate(self.file.schema_arrow)}
        name = next((name for name in names if name in kinds and is_text(kinds[name][1])), None)
        made = dict[int, Made]()
        if name is None:
            return made
        column, kind = kinds[name]
        in_order = sorted({*numbers})
        with suppress(GroupFaultError):
            for number, row in zip(in_order, self.rows(in_order, {column: kind}), strict=True):
                text = None if isinstance(row, Fault) else row[column]
                value = None if text is None else made_of(text)
                if value is not None:
                    made[number] = value
        return made


def columns_of(
    root: Place, shard: str, file: pq.ParquetFile, category: str | None, image_names: Collection[str]
) -> Columns:
    """Return which columns are read. No images if there are none; SourceError for an unsuitable category."""
    schema = file.schema_arrow
    images = image_columns(root, shard, file, image_names)
    return Columns(images, key_column(schema), category_column(schema, shard, category))


def image_columns(root: Place, shard: str, file: pq.ParquetFile, image_names: Collection[str] = ()) -> tuple[int, ...]:
    """Return the columns of these names; without names, all that hold images.

    Of several columns with bytes these are: the one with the best known name, those that Hugging Face's metadata
    declares, and those whose first value begins like a picture.
    """
    schema = file.schema_arrow
    candidates = byte_columns(schema)
    if image_names:
        return tuple(column for column in candidates if schema.names[column] in image_names)
    if len(candidates) <= 1:
        return tuple(candidates)
    names = {schema.names[column] for column in candidates}
    known = next(({name} for name in IMAGE_NAMES if name in names), set[str]())
    sure = {column for column in candidates if schema.names[column] in known | _declared(schema)}
    unsure = [column for column in candidates if column not in sure]
    return tuple(sorted(sure | {column for column in unsure if _begins_like_picture(root, shard, file, column)}))


@dataclass(frozen=True)
class UnreadColumn:
    """A column that may hold images and is not read."""

    name: str
    why: str
    holds_images: bool


def unread_columns(root: Place, shard: str, file: pq.ParquetFile, images: Collection[int]) -> list[UnreadColumn]:
    """Return the columns that may hold images and are not read. images: those that are read."""
    schema, all_images = file.schema_arrow, image_columns(root, shard, file)
    unread = [
        UnreadColumn(schema.names[column], "--image-column leaves it out", True)
        if column in all_images
        else UnreadColumn(schema.names[column], "it holds bytes, and the first do not begin like a picture", False)
        for column in byte_columns(schema)
        if column not in images
    ]
    return unread + [UnreadColumn(name, "lists of images are not read", True) for name in lists_of_images(schema)]


def _declared(schema: pa.Schema) -> set[str]:
    """Return the columns of images by the metadata that Hugging Face's `datasets` writes."""
    try:
        features = json.loads((schema.metadata or {})[HUGGING_FACE])["info"]["features"]
        return {name for name, feature in features.items() if feature.get("_type") == "Image"}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return set()


def _begins_like_picture(root: Place, shard: str, file: pq.ParquetFile, column: int) -> bool:
    """Return whether the first value of a column begins like a picture."""
    kind = file.schema_arrow.field(column).type
    if pa.types.is_struct(kind):
        kind = pa.struct([f for f in kind if f.name == "bytes"])
    num_left = PROBED_ROWS
    for number in range(min(file.num_row_groups, PROBED_ROWS)):
        probed = range(min(num_left, file.metadata.row_group(number).num_rows))
        num_left -= len(probed)
        with suppress(GroupFaultError):
            for row in RowGroup(root, shard, file, number).rows(probed, {column: kind}):
                value = None if isinstance(row, Fault) else row[column]
                content = value.get("bytes") if isinstance(value, dict) else value
                if content is not None:
                    return picture_format(content[:HEAD_BYTES]) is not None
    return False
