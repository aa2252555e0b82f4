"""The rows of a row group of a Parquet file, decoded one by one in a bounded part of the memory.

A dictionary, a delta or a compressed page can make a few bytes of a file into gigabytes. So each column is decoded on
its own, a row at a time, behind a `PageGuard`.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.formats.parquet_pages import DamagedPageError, PageGuard
from ingest.sample import MAX_BYTES

MAX_IMAGE_PAGE_BYTES = 512 * 2**20
MAX_TEXT_PAGE_BYTES = 64 * 2**20
"""Memory limits of a decoded page, of images or of other values. Writers that make one page of a whole row
group keep to about 500 MB."""

HELD_BYTES = 2 * MAX_BYTES
"""Rows kept while the rest of their row group is checked, so that an ordinary slice is decoded only once."""

READ_BYTES = 3 * MAX_IMAGE_PAGE_BYTES + HELD_BYTES
"""Peak memory of reading: a page, a value decoded from it, and that value handed over."""

IMAGE_BUFFER_BYTES = 4 * 2**20
TEXT_BUFFER_BYTES = 256 * 2**10
"""Bytes fetched at once; fewer for text, since few bytes of it can decode to many."""

DICTIONARY_ROWS = 64
"""Rows of a dictionary column decoded at once: Arrow builds the whole dictionary again each time."""


class AmbiguousColumnError(Exception):
    """Several columns have the path of the image."""


@dataclass(frozen=True)
class Leaf:
    """A column that has no columns below it."""

    path: str
    """Path of the column, such as `image.bytes`."""

    is_image: bool

    is_dictionary: bool
    """Whether Arrow reads it as a dictionary."""

    def index(self, file: pq.ParquetFile) -> int:
        """Return the last column of this path. AmbiguousColumnError if several hold images."""
        indices = [index for index in range(len(file.schema)) if file.schema.column(index).path == self.path]
        if not indices:
            raise DamagedPageError
        if self.is_image and len(indices) > 1:
            raise AmbiguousColumnError
        return indices[-1]


def rows(
    stream: BinaryIO,
    file: pq.ParquetFile,
    group: int,
    numbers: Collection[int],
    leaves: Sequence[Leaf],
    value_of: Callable[[pa.Array], Any],
) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the columns for each of these rows, ascending. value_of: takes an array of one value.

    If any row of the group cannot be decoded, LargePageError, DamagedPageError or pyarrow's error comes before the
    first row, since rows of such a group cannot be copied into a release either.
    """
    wanted = sorted(numbers)
    held, num_held_bytes, number = list[tuple[Any, ...]](), 0, 0
    for arrays in _decoded(stream, file, group, leaves):
        if num_held_bytes <= HELD_BYTES and len(held) < len(wanted) and number == wanted[len(held)]:
            num_held_bytes += sum(array.nbytes for array in arrays)
            if num_held_bytes <= HELD_BYTES:
                held.append(tuple(map(value_of, arrays)))
        number += 1
        del arrays  # else they would stay in memory with the next ones
    if number != file.metadata.row_group(group).num_rows:
        raise DamagedPageError
    left = frozenset(wanted[len(held) :])
    yield from held
    held.clear()
    if left:
        again = _decoded(stream, file, group, leaves)
        for number in range(wanted[-1] + 1):
            arrays = next(again, [])
            if not arrays:
                raise DamagedPageError  # the file has changed meanwhile
            if number in left:
                yield tuple(map(value_of, arrays))
            del arrays


def _decoded(stream: BinaryIO, file: pq.ParquetFile, group: int, leaves: Sequence[Leaf]) -> Iterator[list[pa.Array]]:
    """Yield for each row an array of one value per column. Without `zip`, which holds its last result in memory."""
    columns = [_column(stream, file, group, leaf) for leaf in leaves]
    while True:
        try:
            arrays = [next(column) for column in columns]
        except StopIteration:
            return
        yield arrays
        del arrays


def _column(stream: BinaryIO, file: pq.ParquetFile, group: int, leaf: Leaf) -> Iterator[pa.Array]:
    num_rows = file.metadata.row_group(group).num_rows
    max_bytes = MAX_IMAGE_PAGE_BYTES if leaf.is_image else MAX_TEXT_PAGE_BYTES
    at_once = DICTIONARY_ROWS if leaf.is_dictionary else 1
    guard = PageGuard(stream, num_rows, max_bytes, at_once)
    buffer_bytes = IMAGE_BUFFER_BYTES if leaf.is_image else TEXT_BUFFER_BYTES
    column = pq.ParquetFile(guard, metadata=file.metadata, buffer_size=buffer_bytes, pre_buffer=False)
    batches = column.reader.iter_batches(
        at_once, row_groups=[group], column_indices=[leaf.index(file)], use_threads=False
    )
    for batch in batches:
        array = batch.column(0)
        del batch
        for number in range(len(array)):
            yield array.slice(number, 1)
        del array
        guard.next_batch()
