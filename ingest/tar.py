"""The strict tar walker: every member with its place, and every byte that is not a member reported.

Python's tarfile reads the headers; unlike it, this walker does not take a damaged header for the end of the
archive and does not stop at it: it looks for the next header and says which bytes it could not read.
"""

import tarfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK = tarfile.BLOCKSIZE
END = b"\0" * (2 * BLOCK)
"""What closes a tar archive."""


@dataclass(frozen=True)
class Member:
    """name: as stored. start…end: header to padded end. data_start, size: the content. is_file: a regular file.

    is_folder: a directory.
    """

    name: str
    start: int
    data_start: int
    size: int
    end: int
    is_file: bool
    is_folder: bool = False


@dataclass(frozen=True)
class Damage:
    """Bytes start…end that hold no readable member. name: of the member that is cut off there, else None."""

    start: int
    end: int
    name: str | None


def walk(stream: BinaryIO, size: int) -> Iterator[Member | Damage]:
    """Members and damage of an uncompressed tar of `size` bytes, in order. `stream` must be seekable."""
    offset = 0
    while offset < size:
        found = yield from _walk_from(stream, offset, size)
        if found is None:
            return
        after = _next_header(stream, found + BLOCK, size)
        yield Damage(found, after, None)
        offset = after


def _walk_from(stream: BinaryIO, offset: int, size: int) -> Generator[Member | Damage, None, int | None]:
    """Yields members; returns None at the true end, else the offset of a header that cannot be read."""
    stream.seek(offset)
    try:
        archive = tarfile.TarFile(fileobj=stream, errorlevel=0)
    except tarfile.TarError:
        return offset
    while True:
        try:
            info = archive.next()
        except (tarfile.TarError, OSError, ValueError, OverflowError):
            # Python's reader also stumbles over a last member without padding; then everything was read.
            return archive.offset if archive.offset < size else None
        if info is None:
            break
        if info.size < 0:
            return info.offset  # tarfile would go backwards, and round and round
        padded = -(-info.size // BLOCK) * BLOCK if info.isreg() else archive.offset - info.offset_data
        end = info.offset_data + padded
        if info.offset_data + (info.size if info.isreg() else 0) > size:
            yield Damage(info.offset, size, info.name)
            return None
        yield Member(info.name, info.offset, info.offset_data, info.size, min(end, size), info.isreg(), info.isdir())
    return None if _is_end(stream, archive.offset) else archive.offset


def _is_end(stream: BinaryIO, offset: int) -> bool:
    """Only zeros follow, or nothing does (writers that were stopped may leave out the closing blocks)."""
    stream.seek(offset)
    while block := stream.read(2**20):
        if block.count(0) != len(block):
            return False
    return True


def _next_header(stream: BinaryIO, offset: int, size: int) -> int:
    """Offset of the next block that is a valid header with the ustar magic, or `size`."""
    while offset + BLOCK <= size:
        stream.seek(offset)
        block = stream.read(BLOCK)
        if block[257:262] == b"ustar":
            try:
                tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape")
                return offset
            except tarfile.HeaderError:
                pass
        offset += BLOCK
    return size
