"""The rows of a row group of a hostile Parquet file, decoded in a bounded part of the memory.

pyarrow allocates what a page header says, up to 2 GB a page, and a file of 2 KB can fill that: a dictionary, a delta or
a compressed page can make a few bytes of a file into gigabytes. Sizes in the footer cannot be trusted. So each column
is decoded on its own, a row at a time, behind a `PageGuard`, which reads the header of each page before pyarrow does.

A child process with limited memory cannot do this work: it would die once for each sample of such a group, it could not
tell a damaged group from a lack of memory, and releases are copied in the process of the worker.
"""

import io
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.sample import MAX_BYTES
from ingest.storage.streams import SeekableReader

MAX_HEADER_BYTES = 16 * 2**20
"""pyarrow's own limit."""


class LargePageError(Exception):
    """Decoding would take more memory than is allowed."""


class DamagedPageError(Exception):
    """A page header cannot be read here; such a page is not handed to pyarrow either."""


class PageGuard(SeekableReader):
    """A Parquet file through which pyarrow reads one column chunk, front to back.

    It raises LargePageError instead of returning a page header whose page would take too much memory.
    num_values: of the chunk. max_bytes: what its decoded dictionary and one decoded page may take together.
    values_at_once: how many are decoded at most before `next_batch`. value_bytes: memory of each, for encodings where a
    few bytes of a page encode any number of values.
    """

    def __init__(self, stream: BinaryIO, num_values: int, max_bytes: int, values_at_once: int, value_bytes: int = 0):
        super().__init__()
        self._stream, self._offset = stream, 0
        self._num_values_left, self._max_bytes = num_values, max_bytes
        self._values_at_once, self._value_bytes = values_at_once, value_bytes
        self.peak_bytes = 0
        """Peak memory of a dictionary and a page together."""

        self._next_header = -1
        self._held = b""
        self._dictionary_bytes = self._batch_bytes = 0

    def next_batch(self) -> None:
        """Start the next batch. Pages of a batch, except dictionary indices, may take `max_bytes` together."""
        self._batch_bytes = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence == io.SEEK_SET:
            self._offset = offset
        else:
            self._offset = self._stream.seek(offset, whence)
        return self._offset

    def tell(self) -> int:
        return self._offset

    def read(self, size: int = -1, /) -> bytes:
        self._stream.seek(self._offset)
        content = self._stream.read(size)
        self._check(content)
        self._offset += len(content)
        return content

    def _check(self, new: bytes) -> None:
        """Check every header that begins in these bytes; an incomplete one is held until the next read."""
        begin, content = self._offset - len(self._held), self._held + new
        self._held = b""
        if self._next_header < 0:
            self._next_header = begin
        while begin <= self._next_header < begin + len(content):
            try:
                header = page_header(content, self._next_header - begin)
            except IndexError:
                self._held = content[self._next_header - begin :]
                if len(self._held) > MAX_HEADER_BYTES:
                    raise DamagedPageError from None
                return
            except DamagedPageError:
                if self._num_values_left > 0:
                    raise
                return  # after the last page there may be anything
            self._weigh(header)
            self._next_header += header.num_bytes + header.compressed_bytes

    def _weigh(self, header: "PageHeader") -> None:
        page_bytes = 0
        if header.is_dictionary:
            self._dictionary_bytes = header.decoded_bytes
        else:
            page_bytes = header.decoded_bytes
            self._num_values_left -= header.num_values
            self._batch_bytes += self._value_bytes * header.num_values
            if header.encoding == _DELTA_BYTE_ARRAY:  # each value may repeat the whole of the value before it
                self._batch_bytes += page_bytes * min(header.num_values, self._values_at_once)
            elif header.encoding not in _INDICES:
                self._batch_bytes += page_bytes
        self.peak_bytes = max(self.peak_bytes, self._dictionary_bytes + page_bytes)
        is_batched = self._values_at_once > 1
        if self.peak_bytes > self._max_bytes or (is_batched and self._batch_bytes > self._max_bytes):
            raise LargePageError


@dataclass(frozen=True)
class PageHeader:
    """The Thrift header in front of a page."""

    num_bytes: int
    """Size of the header itself."""

    kind: int

    compressed_bytes: int
    """Size of the page behind the header."""

    uncompressed_bytes: int

    num_values: int
    """0 if the page holds no data."""

    encoding: int

    @property
    def is_dictionary(self) -> bool:
        return self.kind == _DICTIONARY_PAGE

    @property
    def decoded_bytes(self) -> int:
        """Memory after decoding. pyarrow holds a dictionary twice, with a pointer per value; deltas have lengths."""
        content = max(self.compressed_bytes, self.uncompressed_bytes)
        if self.is_dictionary:
            return 2 * content + 16 * self.num_values
        return content + 8 * self.num_values * (self.encoding in (6, 7))  # DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY


_DICTIONARY_PAGE = 2
_DELTA_BYTE_ARRAY = 7
_INDICES = (2, 8)
"""PLAIN_DICTIONARY, RLE_DICTIONARY."""
_DATA_HEADERS = {0: (5, 2), _DICTIONARY_PAGE: (7, 2), 3: (8, 4)}
"""Kind of page -> the field with its own header, and the field of the encoding in that header."""

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 4, 5, 6, 7, 8, 12
_MAX_DEPTH = 8


def page_header(content: bytes, offset: int) -> PageHeader:
    """Parse the header that begins at this offset. IndexError if the content ends first.

    It must mean the same here as to pyarrow, so of two fields with one number the last counts, and what Parquet has
    no use for (lists, maps, unknown types) is refused: DamagedPageError.
    """
    thrift = _Compact(content, offset)
    numbers: dict[int, int] = {}
    inner: dict[int, dict[int, int]] = {}
    for field, kind in thrift.fields():
        if kind == _I32:
            numbers[field] = thrift.integer()
        elif kind == _STRUCT and field in (5, 7, 8):
            inner[field] = thrift.integers()
        else:
            thrift.skip(kind)
    try:
        kind, uncompressed, compressed = numbers[1], numbers[2], numbers[3]
        num_values = encoding = 0
        if kind in _DATA_HEADERS:
            number, encoding_field = _DATA_HEADERS[kind]
            num_values, encoding = inner[number][1], inner[number][encoding_field]
    except KeyError:
        raise DamagedPageError from None
    if min(uncompressed, compressed, num_values) < 0:
        raise DamagedPageError
    return PageHeader(thrift.offset - offset, kind, compressed, uncompressed, num_values, encoding)


class _Compact:
    """A cursor in Thrift's compact protocol. IndexError at the end of the content."""

    def __init__(self, content: bytes, offset: int):
        self._content, self.offset = content, offset

    def _byte(self) -> int:
        self.offset += 1
        return self._content[self.offset - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise DamagedPageError

    def integer(self) -> int:
        """Read a zigzag integer of 32 bits; higher bits are dropped, as in pyarrow."""
        value = self._varint() & 0xFFFFFFFF
        return (value >> 1) ^ -(value & 1)

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield (number, type) of each field of a struct; take the value before asking for the next field."""
        number = 0
        while (head := self._byte()) & 15 != _STOP:
            number = number + (head >> 4) if head >> 4 else self.integer()
            number = (number + 0x8000) % 0x10000 - 0x8000
            yield number, head & 15

    def integers(self) -> dict[int, int]:
        """Read the 32-bit fields of a struct."""
        values: dict[int, int] = {}
        for field, kind in self.fields():
            if kind == _I32:
                values[field] = self.integer()
            else:
                self.skip(kind)
        return values

    def skip(self, kind: int, depth: int = 0) -> None:
        if kind in (_TRUE, _FALSE):
            return
        if kind in (_I16, _I32, _I64):
            self._varint()
        elif kind in (_BYTE, _DOUBLE, _BINARY):
            length = self._varint() & 0xFFFFFFFF if kind == _BINARY else 8 if kind == _DOUBLE else 1
            if length >= 2**31:
                raise DamagedPageError
            self.offset += length
            if self.offset > len(self._content):
                raise IndexError
        elif kind == _STRUCT and depth < _MAX_DEPTH:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        else:
            raise DamagedPageError


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
