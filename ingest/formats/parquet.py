"""Parquet files with image bytes: plain binary columns and Hugging Face's struct<bytes, path>.

A file is a shard, and each of its image columns has a sample in each row: sample `row * columns + column`. Slices are
row ranges of one row group, sized by what its metadata says.
"""

import io
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import pyarrow as pa

from ingest.errors import CORRUPT_SHARD, NO_IMAGE_COLUMN, TOO_MANY_ROWS, Fault, StorageError
from ingest.formats.parquet_decoding import GroupFaultError
from ingest.formats.parquet_release import write as write
from ingest.formats.parquet_rows import RowGroup, UnreadColumn, columns_of, footer, image_columns, unread_columns
from ingest.formats.parquet_schema import (
    Columns,
    byte_columns,
    category_column,
    key_column,
    no_image_column,
    parquet_file,
    sample_of,
)
from ingest.formats.released import RELEASE, REMOVED
from ingest.formats.shard import blocks_sha256 as blocks_sha256
from ingest.formats.shard import files_below, opened
from ingest.formats.shard import version_mark as version_mark
from ingest.formats.shard import version_marks as version_marks
from ingest.sample import MAX_BYTES, MAX_SAMPLES, Locator, Sample, Slice, caption_of, columns_of_url, printable
from ingest.storage.place import Place

SUFFIX = ".parquet"
CAPTION_NAMES = ("caption", "text", "TEXT", "alt")
URL_NAMES = ("url", "URL")

MAX_ROWS = 2**20
"""A file with more rows than this and more rows than bytes is not listed row by row."""

MAX_EXPANSION = 1024
"""Largest believed ratio of a row group's size, by the footer, to the file's size when slices are cut."""

MAX_CHECKED = 64
"""Number of files whose columns are read before a scan is refused for lack of an image column."""

CHANGED = Fault("unreadable", "the file is not what it was when it was listed")


def shards(root: Place) -> list[str]:
    """Return every Parquet file below the folder, relative to it, sorted; not the `removed.parquet` of a release."""
    paths = files_below(root)
    return [path for path in paths if path.lower().endswith(SUFFIX) and not (path == REMOVED and RELEASE in paths)]


def check(
    root: Place, names: Sequence[str], category: str | None, image_names: Sequence[str]
) -> tuple[UnreadColumn, ...]:
    """Return what is not read of the first shard with an image column. SourceError if no shard has one, or that shard
    lacks the category column."""
    without = list[tuple[pa.Schema, str]]()
    for shard in names:
        try:
            file = footer(root, shard)
        except StorageError:
            continue  # the scan makes it a row with a reason
        if file is None:
            continue
        images = image_columns(root, shard, file, image_names)
        if images and {file.schema_arrow.names[number] for number in images} >= {*image_names}:
            category_column(file.schema_arrow, shard, category)
            return tuple(unread_columns(root, shard, file, images))
        without.append((file.schema_arrow, shard))
        if len(without) == MAX_CHECKED:
            break
    if without:
        raise no_image_column(*without[0], image_names)
    return ()


def slices(root: Place, shard: str, category: str | None, image_names: Sequence[str] = ()) -> Iterator[Slice]:
    ranges = _ranges(root, shard, category, image_names)
    number, waiting = 0, next(ranges, [])
    for following in ranges:
        yield Slice(shard, number, False, waiting)
        number, waiting = number + 1, following
    yield Slice(shard, number, True, waiting)


def _ranges(root: Place, shard: str, category: str | None, image_names: Sequence[str]) -> Iterator[list[Locator]]:
    """Yield locators of rows that are read together. A missing or contradictory footer gives a sample with a fault."""
    with opened(root, shard) as stream:
        file, file_bytes = parquet_file(stream), stream.seek(0, io.SEEK_END)
    if file is None:
        yield [_unlisted(CORRUPT_SHARD, "the file is cut or damaged: its footer cannot be read")]
        return
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    num_rows = [group.num_rows for group in groups]
    if min(num_rows, default=0) < 0 or sum(num_rows) != file.metadata.num_rows:
        message = "the file is damaged: its footer contradicts itself about the number of rows"
        yield [_unlisted(CORRUPT_SHARD, message)]
        return
    if sum(num_rows) > max(MAX_ROWS, file_bytes):
        yield [_unlisted(TOO_MANY_ROWS, f"the file says that it has {sum(num_rows)} rows, in {file_bytes} bytes")]
        return
    images = columns_of(root, shard, file, category, image_names).images
    if not images:
        yield [_unlisted(NO_IMAGE_COLUMN, "the file has no column with image bytes")]
        return
    names, first = file.schema_arrow.names, 0
    for number, group in enumerate(groups):
        # By the mean size of a row. Facts about single columns are not read: damaged ones end the process of pyarrow.
        group_bytes = max(1, min(group.total_byte_size, MAX_EXPANSION * file_bytes))
        slice_rows = max(1, min(MAX_SAMPLES, MAX_BYTES * group.num_rows // group_bytes) // len(images))
        for offset in range(0, group.num_rows, slice_rows):
            yield [
                {
                    "index": (first + row) * len(images) + n,
                    "group": number,
                    "row": row,
                    "column": image,
                    "name": names[image] if len(images) > 1 else "",
                }
                for row in range(offset, min(offset + slice_rows, group.num_rows))
                for n, image in enumerate(images)
            ]
        first += group.num_rows


def _unlisted(reason: str, message: str) -> Locator:
    """Return the only locator of a file whose rows cannot be listed. reason: from `SHARD_REASONS`."""
    return {"index": 0, "fault": [reason, message]}


def read(root: Place, slice_: Slice, category: str | None) -> Iterator[Sample]:
    """Yield the samples. Rows that cannot be decoded in bounded memory have a fault and no bytes."""
    for group, locators in _row_groups(root, slice_.shard, [slice_]):
        if group is not None:
            yield from _samples(group, locators, category)
            continue
        for locator in locators:
            yield lost(slice_.shard, locator, Fault(*locator["fault"]) if "fault" in locator else CHANGED)


def _row_groups(
    root: Place, shard: str, slices_: Iterable[Slice]
) -> Iterator[tuple[RowGroup | None, Sequence[Locator]]]:
    """Yield each row group, None if it is not there, with the locators of its rows in a slice."""
    file = footer(root, shard)
    for slice_ in slices_:
        for number, located in groupby(slice_.locators, key=lambda locator: locator.get("group")):
            is_gone = file is None or number is None or number >= file.num_row_groups
            yield None if is_gone else RowGroup(root, shard, file, number), list(located)


def _samples(group: RowGroup, locators: Sequence[Locator], category: str | None) -> Iterator[Sample]:
    """Yield the samples of one row group; the first row that cannot be decoded, and all after it, are lost."""
    # Texts are read apart from the images, so that damage there costs no image.
    numbers = [locator["row"] for locator in locators]
    texts = group.made_of_column(numbers, CAPTION_NAMES, caption_of)
    urls = group.made_of_column(numbers, URL_NAMES, columns_of_url)
    for locator, sample in zip(locators, _named(group, locators, category, with_images=True), strict=True):
        url_sha256, domain = urls.get(locator["row"], (None, None))
        if sample.fault is None or sample.fault.reason == "no_image":
            sample = replace(sample, caption=texts.get(locator["row"]), url_sha256=url_sha256, domain=domain)
        yield sample


def _named(group: RowGroup, locators: Sequence[Locator], category: str | None, with_images: bool) -> Iterator[Sample]:
    """Yield the samples of one row group, or without images samples that have nothing but key and category."""
    schema, images = group.file.schema_arrow, {locator["column"] for locator in locators}
    waiting, fault = deque(locators), CHANGED
    try:
        if images <= {*byte_columns(schema)}:
            columns = Columns(tuple(images), key_column(schema), category_column(schema, group.shard, category))
            numbers, kinds = {locator["row"] for locator in locators}, columns.kinds(schema, with_images)
            for number, row in zip(sorted(numbers), group.rows(numbers, kinds), strict=True):
                while waiting and waiting[0]["row"] == number:
                    locator = waiting.popleft()
                    yield (
                        lost(group.shard, locator, row)
                        if isinstance(row, Fault)
                        else sample_of(group.shard, locator["index"], row, columns, locator["column"], locator["name"])
                    )
    except GroupFaultError as error:
        fault = error.fault
    for locator in waiting:
        yield lost(group.shard, locator, fault)


def names(
    root: Place, shard: str, category: str | None, image_names: Sequence[str] = ()
) -> Iterator[tuple[str, str | None]]:
    """Yield keys and categories, reading only their columns; rows with damaged ones count as lost."""
    for group, locators in _row_groups(root, shard, slices(root, shard, category, image_names)):
        if group is None:
            yield from ((lost(shard, locator, CHANGED).key, None) for locator in locators)
        else:
            named = _named(group, locators, category, with_images=False)
            yield from ((sample.key, sample.category) for sample in named)


def captions(root: Place, shard: str, image_names: Sequence[str] = ()) -> Iterator[str | None]:
    for group, locators in _row_groups(root, shard, slices(root, shard, None, image_names)):
        rows = [locator.get("row", 0) for locator in locators]
        made = {} if group is None else group.made_of_column(rows, CAPTION_NAMES, caption_of)
        yield from map(made.get, rows)


def lost(shard: str, locator: Locator, fault: Fault) -> Sample:
    """Return the sample of a row that cannot be read."""
    index = locator["index"]
    key = f"{index:09d}" if "group" in locator else f"@{index}"
    return Sample(printable(shard), index, key, None, b"", fault)
