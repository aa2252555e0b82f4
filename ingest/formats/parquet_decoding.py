"""The rows of a row group of a hostile Parquet file, decoded in a child process with limited memory.

pyarrow allocates what a page header says, up to 2 GB a page, and a file of 2 KB can fill that: a dictionary, a delta or
a compressed page can make a few bytes of a file into gigabytes. Sizes in the footer cannot be trusted, and some damaged
files end the process. So pyarrow decodes in a child, where an allocation above the limit is an error, and hands over
pieces of a bounded size.
"""

import io
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.child import Ask, LimitedChild, LimitError, Limits
from ingest.errors import Fault
from ingest.formats.shard import opened
from ingest.machine import available_bytes
from ingest.storage.place import Place
from ingest.storage.streams import SeekableReader

MAX_MEMORY_BYTES = 4608 * 2**20
"""The largest page of the format has 2 GB, and is in memory twice: compressed and decoded."""

MEMORY_SHARE = 0.5
"""Largest share of the memory available when the child starts."""

MAX_CPU_S = 600
"""For each piece, with all rows of the group that lie before it."""

MAX_ROW_BYTES = 512 * 2**20
"""Limit of the wanted columns of a row."""

MAX_ANSWER_BYTES = MAX_ROW_BYTES + 64 * 2**20
"""A row as a message of Arrow's IPC, which pads the values of each column."""

PIECE_BYTES = 4 * 2**20
"""Rows that are handed over together have at most this size, or are a single row."""

BUFFER_BYTES = 4 * 2**20
"""Bytes of the file fetched at once; shared among the columns, and at least `MIN_BUFFER_BYTES` for each."""
MIN_BUFFER_BYTES = 256 * 2**10

ROWS_AT_ONCE = (64, 1)
"""Rows decoded at once; the second number from the row on where the first fails, for damage or lack of memory."""

DAMAGED = (OSError, pa.ArrowException, UnicodeDecodeError)
"""What a damaged file raises; failures of the storage are StorageErrors before pyarrow sees them."""

TOO_LARGE = "too_large"


class GroupFaultError(Exception):
    """The other rows of the group cannot be decoded."""

    def __init__(self, fault: Fault):
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True)
class LostRow:
    """A row that is too large to be handed over."""

    fault: Fault
    num_rows: ClassVar[int] = 1


@dataclass(frozen=True)
class Request:
    """Consecutive rows of one row group."""

    root: Place | None
    """None in the child if the parent reads the file, being not of this machine."""

    shard: str
    metadata: pq.FileMetaData
    group: int

    rows: range
    """Positions in the group."""

    leaves: Sequence[int]
    """Numbers of the columns that have no columns below them, ascending."""

    schema: pa.Schema
    """Types to which the columns are converted."""


def decoded(request: Request) -> Iterator[pa.RecordBatch | LostRow]:
    """Yield the rows in order, several at once, or one that is too large. GroupFaultError if the rest cannot be
    decoded; StorageError."""
    try:
        child = _idle.pop()
    except IndexError:
        memory_bytes = min(MAX_MEMORY_BYTES, int(available_bytes() * MEMORY_SHARE))
        # This pool allocates no more than it is asked for, so that the limit means what it says.
        limits = Limits(MAX_CPU_S, memory_bytes, MAX_ANSWER_BYTES)
        child = LimitedChild(_Decoder, limits, {"ARROW_DEFAULT_MEMORY_POOL": "system"})
    assert request.root is not None
    try:
        if request.root.is_local:
            yield from _answers(child, request, None)
        else:  # credentials and connections stay in this process
            with opened(request.root, request.shard) as stream:
                yield from _answers(child, replace(request, root=None), partial(_told, stream))
    except LimitError as error:
        raise GroupFaultError(Fault("unreadable", f"row group {request.group} cannot be decoded: it {error}")) from None
    finally:
        if child.is_alive:
            _idle.append(child)  # it drops what it was asked for when it is asked for something else


def _answers(child: LimitedChild, request: Request, tell: Ask | None) -> Iterator[pa.RecordBatch | LostRow]:
    child.begin(request)
    num_rows, answer = 0, child.answer(tell)
    while answer and not answer.startswith(_END):
        piece = LostRow(_fault(answer)) if answer.startswith(_LOST) else _rows(answer, request)
        num_rows += piece.num_rows
        child.begin(None)  # so that it decodes the next rows while these are used
        try:
            yield piece
            del piece  # else it would stay in memory with the next one
        finally:
            answer = child.answer(tell)
    if answer:
        raise GroupFaultError(_fault(answer))
    if num_rows < len(request.rows):
        raise GroupFaultError(_undecodable(request.group))


_SPAN = struct.Struct("<qq")
"""Question for bytes of the file: offset and size."""

_LOST, _END = b"lost ", b"end "
"""How answers begin that are no message of Arrow's IPC, which begins with 255; a fault as JSON follows. `_LOST` is in
place of a row, `_END` after the last rows that can be decoded. After the last row the answer is empty."""


def _rows(answer: bytes, request: Request) -> pa.RecordBatch:
    """Return rows as the child sent them: every offset in them is checked, since the file may have taken it over."""
    try:
        rows = pa.ipc.read_record_batch(answer, request.schema)
        for column in rows.columns:
            _check(column)
    except (pa.ArrowException, OSError):
        raise GroupFaultError(_undecodable(request.group)) from None
    return rows


def _check(array: pa.Array) -> None:
    """Raise ArrowInvalid for an offset that leads out of the array. Text need not be UTF-8: a reader makes it null."""
    if pa.types.is_struct(array.type):
        for child in array.flatten():
            _check(child)
    elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array.cast(pa.binary() if pa.types.is_string(array.type) else pa.large_binary()).validate(full=True)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        array.validate()
        _check(array.values)
    else:
        array.validate(full=True)


def _fault(answer: bytes) -> Fault:
    try:
        return Fault(**json.loads(answer[answer.index(b" ") :]))
    except (TypeError, ValueError):
        return Fault("unreadable", "a row cannot be decoded")


def _answer(kind: bytes, fault: Fault) -> bytes:
    return kind + json.dumps(asdict(fault)).encode()


def _told(stream: BinaryIO, question: bytes) -> bytes | int:
    """Return the bytes of the file that the child asks for by `_SPAN`; or the size of the file, if it asks nothing."""
    if not question:
        return stream.seek(0, io.SEEK_END)
    offset, size = _SPAN.unpack(question)
    stream.seek(offset)
    return stream.read(size)


_idle = list[LimitedChild]()
"""Children at rest. Threads that read at the same time have children of their own."""


def _undecodable(group: int) -> Fault:
    return Fault("unreadable", f"row group {group} cannot be decoded")


class _Remote(SeekableReader):
    """A file that the parent reads."""

    def __init__(self, ask: Ask):
        super().__init__()
        self._ask, self._offset = ask, 0

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        begin = self._ask(b"") if whence == io.SEEK_END else self._offset if whence == io.SEEK_CUR else 0
        self._offset = max(0, begin + offset)
        return self._offset

    def read(self, size: int = -1, /) -> bytes:
        content: bytes = self._ask(_SPAN.pack(self._offset, size))
        self._offset += len(content)
        return content


_OVERFLOWS = ("overflowed binary array capacity", "chunked array outputs")
"""In pyarrow's errors about one row whose lists hold more than 2 GB of text."""


class _Decoder:
    """Answers requests. Runs in the child, as all below."""

    def __init__(self, ask: Ask):
        self._ask = ask
        self._pieces: Iterator[bytes] = iter(())
        self._group = -1

    def __call__(self, request: Request | None) -> bytes:
        """Return the first rows that are asked for, or with None the next ones; nothing after the last."""
        if request is not None:
            self._pieces, self._group = _pieces(request, self._ask), request.group
        try:
            return next(self._pieces, b"")
        except (MemoryError, *DAMAGED) as error:
            if not isinstance(error, MemoryError) and not any(text in str(error) for text in _OVERFLOWS):
                return _answer(_END, _undecodable(self._group))
            why = "takes too much memory to be decoded; write the file again with fewer rows in a row group"
            return _answer(_END, Fault(TOO_LARGE, f"row group {self._group} {why}"))


def _pieces(request: Request, ask: Ask) -> Iterator[bytes]:
    """Yield record batches as messages of Arrow's IPC."""
    number = request.rows.start
    for rows_at_once in ROWS_AT_ONCE:
        try:
            for first, batch in _batches(request, ask, rows_at_once):
                if first + batch.num_rows <= number:
                    continue
                wanted = batch.slice(number - first, request.rows.stop - number)
                for piece in _cut(wanted.cast(request.schema)):
                    if piece.nbytes > MAX_ROW_BYTES:
                        fault = Fault(TOO_LARGE, f"the row decodes to more than {MAX_ROW_BYTES // 2**20} MB")
                        yield _answer(_LOST, fault)
                    else:
                        yield piece.serialize().to_pybytes()
                    number += piece.num_rows
            return
        except (MemoryError, *DAMAGED):
            if rows_at_once == ROWS_AT_ONCE[-1]:
                raise


def _batches(request: Request, ask: Ask, rows_at_once: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches up to the last row that is asked for, each with the number of its first row."""
    buffer_bytes = max(MIN_BUFFER_BYTES, BUFFER_BYTES // len(request.leaves))
    first = 0
    with _Remote(ask) if request.root is None else opened(request.root, request.shard) as stream:
        file = pq.ParquetFile(stream, metadata=request.metadata, buffer_size=buffer_bytes, pre_buffer=False)
        for batch in file.reader.iter_batches(
            rows_at_once, row_groups=[request.group], column_indices=request.leaves, use_threads=False
        ):
            yield first, batch
            first += batch.num_rows
            if first >= request.rows.stop:
                return


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces of at most `PIECE_BYTES`, or of one row."""
    if batch.num_rows > 1 and batch.nbytes > PIECE_BYTES:
        half = batch.num_rows // 2
        yield from _cut(batch.slice(0, half))
        yield from _cut(batch.slice(half))
    elif batch.num_rows:
        yield batch
