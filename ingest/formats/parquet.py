"""Parquet files with image bytes: plain binary columns and Hugging Face's struct<bytes, path>.

A file is a shard, a row is a sample. Slices are row ranges of one row group, sized by what its metadata says.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import CORRUPT_SHARD, NO_IMAGE_COLUMN, TOO_MANY_ROWS, Fault, StorageError
from ingest.formats.parquet_pages import (
    MAX_IMAGE_PAGE_BYTES,
    MAX_TEXT_PAGE_BYTES,
    AmbiguousColumnError,
    LargePageError,
    Leaf,
    rows,
)
from ingest.formats.parquet_release import write as write
from ingest.formats.parquet_schema import (
    DAMAGED,
    TOO_LARGE,
    category_column,
    image_and_key,
    image_column,
    is_bytes,
    is_hugging_face,
    is_text,
    parquet_file,
    sample_of,
    value_of,
    value_type,
)
from ingest.formats.released import RELEASE, REMOVED
from ingest.formats.shard import blocks_sha256 as blocks_sha256
from ingest.formats.shard import files_below, opened
from ingest.formats.shard import version_mark as version_mark
from ingest.formats.shard import version_marks as version_marks
from ingest.sample import (
    MAX_BYTES,
    MAX_SAMPLES,
    Locator,
    Sample,
    Slice,
    caption_of,
    domain_of,
    printable,
    url_sha256_of,
)
from ingest.storage.place import Place

SUFFIX = ".parquet"
CAPTION_NAMES = ("caption", "text", "TEXT", "alt")
URL_NAMES = ("url", "URL")
STATUS = "status"


MAX_ROWS = 2**20
"""A file with more rows than this and more rows than bytes is not listed row by row."""

MAX_EXPANSION = 1024
"""Largest believed ratio of a row group's size, by the footer, to the file's size when slices are cut."""


MAX_CHECKED = 64
"""Number of files whose columns are read before a scan is refused for lack of an image column."""

Made = TypeVar("Made")
"""Type of a value made from a text."""

CHANGED = Fault("unreadable", "the file is not what it was when it was listed")


def shards(root: Place) -> list[str]:
    """Return every Parquet file below the folder, as paths relative to it, sorted; the `removed.parquet` of a
    release is not a shard."""
    paths = files_below(root)
    return [path for path in paths if path.lower().endswith(SUFFIX) and not (path == REMOVED and RELEASE in paths)]


def check(root: Place, names: Sequence[str], category: str | None) -> None:
    """Raise SourceError if no shard has an image column, or the first that has one lacks the category column."""
    without = list[tuple[pa.Schema, str]]()
    for shard in names:
        try:
            with opened(root, shard) as stream:
                file = parquet_file(stream)
        except StorageError:
            continue  # the scan makes it a row with a reason
        if file is None:
            continue
        if image_column(file.schema_arrow) is not None:
            category_column(file.schema_arrow, shard, category)
            return
        without.append((file.schema_arrow, shard))
        if len(without) == MAX_CHECKED:
            break
    if without:
        image_and_key(*without[0])


def slices(root: Place, shard: str, category: str | None) -> Iterator[Slice]:
    ranges = _ranges(root, shard, category)
    number, waiting = 0, next(ranges, [])
    for following in ranges:
        yield Slice(shard, number, False, waiting)
        number, waiting = number + 1, following
    yield Slice(shard, number, True, waiting)


def _ranges(root: Place, shard: str, category: str | None) -> Iterator[list[Locator]]:
    """Yield locators of rows that are read together. A missing or contradictory footer gives a sample with a fault."""
    with opened(root, shard) as stream:
        file = parquet_file(stream)
        if file is None:
            yield [_unlisted(CORRUPT_SHARD, "the file is cut or damaged: its footer cannot be read")]
            return
        if image_column(file.schema_arrow) is None:
            yield [_unlisted(NO_IMAGE_COLUMN, "the file has no column with image bytes")]
            return
        category_column(file.schema_arrow, shard, category)
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        num_rows = [group.num_rows for group in groups]
        if min(num_rows, default=0) < 0 or sum(num_rows) != file.metadata.num_rows:
            message = "the file is damaged: its footer contradicts itself about the number of rows"
            yield [_unlisted(CORRUPT_SHARD, message)]
            return
        file_bytes = stream.seek(0, io.SEEK_END)
        if sum(num_rows) > max(MAX_ROWS, file_bytes):
            yield [_unlisted(TOO_MANY_ROWS, f"the file says that it has {sum(num_rows)} rows, in {file_bytes} bytes")]
            return
        first = 0
        for number, group in enumerate(groups):
            slice_rows = _rows_per_slice(group, file_bytes)
            for offset in range(0, group.num_rows, slice_rows):
                span = range(offset, min(offset + slice_rows, group.num_rows))
                yield [{"index": first + row, "group": number, "row": row} for row in span]
            first += group.num_rows


def _unlisted(reason: str, message: str) -> Locator:
    """Return the only locator of a file whose rows cannot be listed. reason: from `SHARD_REASONS`."""
    return {"index": 0, "fault": [reason, message]}


def _rows_per_slice(group: pq.RowGroupMetaData, file_bytes: int) -> int:
    """Return how many rows fit into a slice by their mean size, other columns included.

    The footer's facts about single columns are not read: if they are damaged, pyarrow ends the process.
    """
    group_bytes = min(group.total_byte_size, MAX_EXPANSION * file_bytes)
    fitting = MAX_BYTES * group.num_rows // max(1, group_bytes)
    return max(1, min(MAX_SAMPLES, int(fitting)))


def read(root: Place, slice_: Slice, category: str | None) -> Iterator[Sample]:
    """Yield the samples. Rows of a group that cannot be decoded in bounded memory have a fault and no bytes."""
    with opened(root, slice_.shard) as stream:
        file = parquet_file(stream)
        for group, located in groupby(slice_.locators, key=lambda locator: locator.get("group")):
            locators = list(located)
            if file is None or group is None or group >= file.num_row_groups:
                yield from (
                    lost(slice_.shard, locator, Fault(*locator["fault"]) if "fault" in locator else CHANGED)
                    for locator in locators
                )
                continue
            names = (
                *image_and_key(file.schema_arrow, slice_.shard),
                category_column(file.schema_arrow, slice_.shard, category),
            )
            yield from _samples(stream, file, slice_.shard, group, locators, *names)


def names(root: Place, shard: str, category: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield keys and categories, reading only their columns; rows of a group with damaged ones count as lost."""
    with opened(root, shard) as stream:
        file = parquet_file(stream)
        for slice_ in slices(root, shard, category):
            for group, located in groupby(slice_.locators, key=lambda locator: locator.get("group")):
                locators, pairs = list(located), list[tuple[str, str | None]]()
                if file is not None and group is not None:
                    with suppress(*DAMAGED, AmbiguousColumnError, LargePageError):
                        pairs = list(_names(stream, file, shard, group, locators, category))
                if len(pairs) < len(locators):
                    pairs = [(lost(shard, locator, CHANGED).key, None) for locator in locators]
                yield from pairs


def captions(root: Place, shard: str) -> Iterator[str | None]:
    with opened(root, shard) as stream:
        file = parquet_file(stream)
        for slice_ in slices(root, shard, None):
            for group, located in groupby(slice_.locators, key=lambda locator: locator.get("group")):
                numbers = [locator.get("row", 0) for locator in located]
                if file is None or group is None:
                    yield from [None] * len(numbers)
                else:
                    yield from _made_of_column(stream, file, group, numbers, CAPTION_NAMES, caption_of)


def num_downloaded(root: Place, name: str) -> int | None:
    """Count the rows of a table of img2dataset that report a downloaded picture; None if it is not such a table.

    StorageError if it cannot be read.
    """
    with opened(root, name) as stream:
        file = parquet_file(stream)
        if file is None or not 0 <= file.metadata.num_rows <= MAX_ROWS or STATUS not in file.schema_arrow.names:
            return None
        num_successes = 0
        for group in range(file.num_row_groups):
            numbers = range(file.metadata.row_group(group).num_rows)
            is_there = _made_of_column(stream, file, group, numbers, (STATUS,), lambda status: status == b"success")
            if None in is_there:  # a status that is missing, or a damaged column
                return None
            num_successes += sum(map(bool, is_there))
        return num_successes


def _names(
    stream: BinaryIO, file: pq.ParquetFile, shard: str, group: int, locators: Sequence[Locator], category: str | None
) -> Iterator[tuple[str, str | None]]:
    column, key = image_and_key(file.schema_arrow, shard)
    category_name = category_column(file.schema_arrow, shard, category)
    wanted = [
        (name, leaf) for name, leaf in _leaves(file.schema_arrow, column, key, category_name) if not leaf.is_image
    ]
    if not wanted:
        yield from ((f"{locator['index']:09d}", None) for locator in locators)
        return
    leaves = [leaf for _, leaf in wanted]
    for locator, values in zip(
        locators, rows(stream, file, group, [locator["row"] for locator in locators], leaves, value_of), strict=True
    ):
        row: dict[str, Any] = {column: {}, **{name: value for (name, _), value in zip(wanted, values, strict=True)}}
        sample = sample_of(shard, locator["index"], row, column, key, category_name)
        yield sample.key, sample.category


def lost(shard: str, locator: Locator, fault: Fault) -> Sample:
    """Return the sample of a row that cannot be read."""
    index = locator["index"]
    key = f"{index:09d}" if "group" in locator else f"@{index}"
    return Sample(printable(shard), index, key, None, b"", fault)


def _samples(
    stream: BinaryIO,
    file: pq.ParquetFile,
    shard: str,
    group: int,
    locators: Sequence[Locator],
    column: str,
    key: str | None,
    category_name: str | None,
) -> Iterator[Sample]:
    """Yield the samples of one row group; the first that cannot be decoded, and all after it, are lost."""
    left, fault = iter(locators), CHANGED
    texts = _texts(stream, file, group, [locator["row"] for locator in locators])
    try:
        names, leaves = zip(*_leaves(file.schema_arrow, column, key, category_name), strict=True)
        for values in rows(stream, file, group, [locator["row"] for locator in locators], leaves, value_of):
            row: dict[str, Any] = {}
            for name, value in zip(names, values, strict=True):
                row[name] = row[name] | value if row.get(name) else value  # a struct comes in parts
            sample = sample_of(shard, next(left)["index"], row, column, key, category_name)
            caption, (url_sha256, domain) = next(texts)
            yield replace(sample, caption=caption, url_sha256=url_sha256, domain=domain)
    except AmbiguousColumnError:
        fault = Fault("several_images", f'the file has several columns "{printable(column)}"')
    except LargePageError:
        limits = f"{MAX_IMAGE_PAGE_BYTES // 2**20} MB, or {MAX_TEXT_PAGE_BYTES // 2**20} MB of keys or categories"
        fault = Fault(TOO_LARGE, f"row group {group} has a page that decodes to more than {limits}")
    except DAMAGED:
        fault = Fault("unreadable", f"row group {group} cannot be decoded")
    yield from (lost(shard, locator, fault) for locator in left)


def _texts(
    stream: BinaryIO, file: pq.ParquetFile, group: int, numbers: Sequence[int]
) -> Iterator[tuple[str | None, tuple[str | None, str | None]]]:
    """Yield `caption` and (`url_sha256`, `domain`) of these rows. They are read apart from the images, so that damage
    there costs no image."""
    captions = _made_of_column(stream, file, group, numbers, CAPTION_NAMES, caption_of)
    url_facts = _made_of_column(
        stream, file, group, numbers, URL_NAMES, lambda url: (url_sha256_of(url), domain_of(url))
    )
    yield from zip(captions, (facts or (None, None) for facts in url_facts), strict=True)


def _made_of_column(
    stream: BinaryIO,
    file: pq.ParquetFile,
    group: int,
    numbers: Sequence[int],
    names: Sequence[str],
    made_of: Callable[[bytes], Made | None],
) -> list[Made | None]:
    """Apply `made_of` to each row of the first of these columns that holds text; all None if it is unreadable."""
    kinds = {f.name: f.type for f in file.schema_arrow}
    name = next((name for name in names if name in kinds and is_text(kinds[name])), None)
    if name is None:
        return [None] * len(numbers)
    leaf = Leaf(name, False, pa.types.is_dictionary(kinds[name]))
    try:
        cells = (cell for (cell,) in rows(stream, file, group, numbers, [leaf], value_of))
        values = [made_of(cell) if isinstance(cell, bytes) else None for cell in cells]
    except (*DAMAGED, AmbiguousColumnError, LargePageError):
        values = []
    return values if len(values) == len(numbers) else [None] * len(numbers)


def _leaves(schema: pa.Schema, column: str, key: str | None, category_name: str | None) -> Iterator[tuple[str, Leaf]]:
    """Yield (column, leaf) of all that is read; of a struct with an image its bytes, and its path if that is the key.

    AmbiguousColumnError if several columns of this name hold images.
    """
    kinds = {f.name: f.type for f in schema}
    image, *others = [f.type for f in schema if f.name == column and (is_bytes(f.type) or is_hugging_face(f.type))]
    if others:
        raise AmbiguousColumnError
    if pa.types.is_struct(image):
        parts = {f.name: f.type for f in image}
        yield column, Leaf(f"{column}.bytes", True, pa.types.is_dictionary(parts["bytes"]))
        if key is None and "path" in parts and not pa.types.is_nested(value_type(parts["path"])):
            yield column, Leaf(f"{column}.path", False, pa.types.is_dictionary(parts["path"]))
    else:
        yield column, Leaf(column, True, pa.types.is_dictionary(image))
    for name in dict.fromkeys((key, category_name)):
        if name is not None:
            yield name, Leaf(name, False, pa.types.is_dictionary(kinds[name]))
