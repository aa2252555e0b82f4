"""The strict tar walker: every member with its place, and every byte that is not a member reported.

Python's tarfile reads the headers; unlike it, this walker does not take a damaged header for the end of the
archive and does not stop at it: it looks for the next header and says which bytes it could not read.
"""

import io
import tarfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

BLOCK = tarfile.BLOCKSIZE
END = b"\0" * (2 * BLOCK)
"""What closes a tar archive."""

MAGIC, MAGIC_OFFSET = b"ustar", 257
SEARCHED_BYTES = 512 * BLOCK

MAX_HEADER_BYTES = 2**20
MAX_HEADER_READS = 64
"""What one member's headers may take: long names and pax records need little, and hostile ones would fill the memory
or follow one another without end."""

_UNREADABLE = (tarfile.TarError, OSError, ValueError, OverflowError, RecursionError)
"""What Python's reader raises over hostile headers; streams must raise something else when the storage fails."""


@dataclass(frozen=True)
class Member:
    """name: as stored. start…end: header to padded end. data_start, size: the content. is_file: a regular file.

    is_folder: a directory. is_sparse: a regular file that is stored without its holes, `size` counts them.
    """

    name: str
    start: int
    data_start: int
    size: int
    end: int
    is_file: bool
    is_folder: bool = False
    is_sparse: bool = False


@dataclass(frozen=True)
class Damage:
    """Bytes start…end that hold no readable member. name: of the member that is cut off there, else None.

    No bytes at all (start is end): the tar lacks its end marker there, so whatever may have followed is lost.

    cause: what ended a compressed stream early, else None.
    """

    start: int
    end: int
    name: str | None
    cause: str | None = None


def walk(stream: BinaryIO, size: int, cause: str | None = None) -> Iterator[Member | Damage]:
    """Members and damage of a tar whose content has `size` bytes, in order. `stream` must be seekable.

    A member that claims to be larger than the tar is damage to the end: all that follows would be its content.
    A tar without an end marker (a block of zeros) is cut, even where the cut falls between two members. cause: what
    ended a compressed stream early.
    """
    last: Member | Damage | None = None
    for last in _walk(stream, size):
        yield last
    end = last.end if last else 0
    if cause is not None:
        yield Damage(size, size, None, cause)
    elif size - end < BLOCK and not isinstance(last, Damage):
        yield Damage(end, end, None)


def _walk(stream: BinaryIO, size: int) -> Iterator[Member | Damage]:
    offset = 0
    while offset < size:
        stopped = yield from _walk_from(stream, offset, size)
        if stopped is None:
            return
        start, resume = stopped
        while (after := _next_header(stream, resume, size)) < size:
            readable = _archive(stream, after)
            if isinstance(readable, tarfile.TarFile):
                break
            resume = readable
        yield Damage(start, after, None)
        offset = after


def _walk_from(stream: BinaryIO, offset: int, size: int) -> Generator[Member | Damage, None, tuple[int, int] | None]:
    """Yields members; returns None at the true end, else the offset of a header that cannot be read, and where to
    look for the next one."""
    archive = _archive(stream, offset)
    if isinstance(archive, int):
        return offset, archive
    while True:
        try:
            archive.members.clear()  # type: ignore[attr-defined]  # tarfile would remember all of them
            cast(_HeaderReader, archive.fileobj).begin()
            info = archive.next()
        except _UNREADABLE:
            # Python's reader also stumbles over a last member without padding; then everything was read.
            return (archive.offset, _after(stream, archive.offset)) if archive.offset < size else None
        if info is None:
            break
        if info.size < 0:
            return info.offset, info.offset + BLOCK  # tarfile would go backwards, and round and round
        is_sparse = info.isreg() and info.issparse()
        stored = archive.offset - info.offset_data  # padded; for a sparse file less than its size
        if is_sparse or not info.isreg():
            is_cut = info.offset_data + stored - size >= BLOCK
        else:
            is_cut = info.offset_data + info.size > size
        if is_cut:
            yield Damage(info.offset, size, info.name)
            return None
        end = min(info.offset_data + stored, size)
        yield Member(info.name, info.offset, info.offset_data, info.size, end, info.isreg(), info.isdir(), is_sparse)
    return None if _is_end(stream, archive.offset) else (archive.offset, archive.offset + BLOCK)


def _archive(stream: BinaryIO, offset: int) -> tarfile.TarFile | int:
    """Python's reader, set upon the header at `offset`; where it cannot read that, where to look for the next one."""
    stream.seek(offset)
    reader = _HeaderReader(stream)
    try:
        archive = tarfile.TarFile(fileobj=cast(BinaryIO, reader), errorlevel=0)
    except _UNREADABLE:
        return _after(stream, offset)
    return archive


def _after(stream: BinaryIO, offset: int) -> int:
    """Where the next header may be, given that the one at `offset` cannot be read: after all that was read of it, so
    that a long chain of headers is gone through once."""
    return max(offset, stream.tell() // BLOCK * BLOCK - BLOCK) + BLOCK


class _HeaderReader(io.RawIOBase):
    """The stream for Python's reader, which would read what a header claims; bounded for each member."""

    def __init__(self, stream: BinaryIO):
        super().__init__()
        self._stream = stream
        self.begin()

    def begin(self) -> None:
        """Another member begins."""
        self._bytes_left, self._reads_left = MAX_HEADER_BYTES, MAX_HEADER_READS

    def read(self, size: int = -1, /) -> bytes:
        self._bytes_left -= size
        self._reads_left -= 1
        if size < 0 or self._bytes_left < 0 or self._reads_left < 0:
            raise tarfile.ReadError("headers of a member that are too long")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


def _is_end(stream: BinaryIO, offset: int) -> bool:
    """Only zeros follow, or nothing does."""
    stream.seek(offset)
    while block := stream.read(2**20):
        if block.count(0) != len(block):
            return False
    return True


def _next_header(stream: BinaryIO, offset: int, size: int) -> int:
    """Offset of the next block that is a valid header with the ustar magic, or `size`."""
    while offset + BLOCK <= size:
        stream.seek(offset)
        blocks = stream.read(SEARCHED_BYTES)
        place = blocks.find(MAGIC)
        while place >= 0:
            start = place - MAGIC_OFFSET
            if start >= 0 and start % BLOCK == 0 and _is_header(blocks[start : start + BLOCK]):
                return offset + start
            place = blocks.find(MAGIC, place + 1)
        offset += SEARCHED_BYTES
    return size


def _is_header(block: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True
