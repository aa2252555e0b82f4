"""The strict tar walker: every member with its offset, and every byte that is not a member reported.

Python's tarfile reads the headers; unlike it, this walker does not take a damaged header for the end of the
archive and does not stop at it: it looks for the next header and says which bytes it could not read. The stream is
read forward, with steps back of at most `SEARCHED_BYTES` (`ingest.formats.tar_samples` depends on it).
"""

import hashlib
import io
import re
import stat
import tarfile
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

BLOCK = tarfile.BLOCKSIZE
END = b"\0" * (2 * BLOCK)
"""End marker of a tar archive."""

MAGIC, MAGIC_OFFSET = b"ustar", 257
FIRST_SEARCHED_BYTES, SEARCHED_BYTES = 8 * BLOCK, 512 * BLOCK
"""Initial and maximum read size when searching for the next header or the end."""

MAX_NAME_BYTES = 4096
"""A longer name is shortened: no file system takes it as a path, and names travel with every slice."""
SHORTENED_CHARACTERS = 100

MAX_HEADER_BYTES = 2**20
MAX_HEADER_READS = 64
"""Limits on one member's headers: long names and pax records need little, and hostile ones would fill the memory or
follow one another without end."""

MAX_MTIME = 8**11

_UNREADABLE = (tarfile.TarError, OSError, ValueError, OverflowError, RecursionError)
"""Errors that Python's reader raises over hostile headers; streams must raise something else when the storage fails."""


@dataclass(frozen=True)
class Member:
    """One entry of a tar. Offsets are in bytes from the start of the tar."""

    name: str
    """Name as stored, or shortened (`is_name_shortened`)."""

    start: int
    """Offset of the header."""

    data_start: int
    """Offset of the content."""

    size: int
    """Bytes of the content, including the holes of a sparse file."""

    end: int
    """Offset after the padded content."""

    is_file: bool
    is_folder: bool = False

    is_sparse: bool = False
    """Whether it is a regular file stored without its holes."""

    has_set_id: bool = False
    """Whether it would run as another user or group."""

    is_name_shortened: bool = False

    mtime: int = 0
    """Seconds since 1970; 0 if the stored number makes no sense."""

    @property
    def is_plain(self) -> bool:
        return self.is_file and not self.is_sparse


@dataclass(frozen=True)
class TarDamage:
    """Bytes of a tar that hold no readable member. If `start` is `end`, the tar lacks its end marker there, so what may
    have followed is lost."""

    start: int
    end: int

    name: str | None
    """Name of the member that is cut off here, if any."""

    cause: str | None = None
    """Why a compressed stream ended early, if it did."""


def walk(stream: BinaryIO, size: int, cause: str | None = None) -> Iterator[Member | TarDamage]:
    """Yield members and damage of a tar whose content has `size` bytes, in order. `stream` must be seekable.

    A member that claims to be larger than the tar is damage to the end: all that follows would be its content.
    A tar without an end marker (a block of zeros) is cut, even if the cut falls between two members. cause: why
    a compressed stream ended early.
    """
    last: Member | TarDamage | None = None
    for last in _walk(stream, size):
        yield last
    end = last.end if last else 0
    if cause is not None:
        yield TarDamage(size, size, None, cause)
    elif size - end < BLOCK and not isinstance(last, TarDamage):
        yield TarDamage(end, end, None)


MAX_PLAIN_SIZE = 8**11
"""Bytes of content; the size of a larger file is written otherwise."""


def _plain() -> tuple[bytes, int]:
    """Return a header without name, size, time and checksum, and the sum of its bytes with blanks for the checksum."""
    block = bytearray(tarfile.TarInfo().tobuf(tarfile.GNU_FORMAT))
    block[124:135] = block[136:147] = bytes(11)
    return bytes(block), sum(block) - sum(block[148:156]) + 8 * ord(" ")


_PLAIN, _PLAIN_SUM = _plain()  # Python's writer takes ten times as long for each header


def header(member: Member, size: int | None = None) -> bytes:
    """Build a header for a regular file, with the name, size and time of the old one. size: of changed content."""
    num_bytes, name = member.size if size is None else size, member.name.encode("utf-8", "surrogateescape")
    if len(name) > tarfile.LENGTH_NAME or num_bytes >= MAX_PLAIN_SIZE:
        info = tarfile.TarInfo(member.name)
        info.size, info.mtime = num_bytes, member.mtime
        return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    size_text, mtime_text = b"%011o" % num_bytes, b"%011o" % member.mtime
    block, checksum = bytearray(_PLAIN), _PLAIN_SUM + sum(name) + sum(size_text) + sum(mtime_text)
    block[: len(name)], block[124:135], block[136:147], block[148:154] = name, size_text, mtime_text, b"%06o" % checksum
    return bytes(block)


def _walk(stream: BinaryIO, size: int) -> Iterator[Member | TarDamage]:
    start, archive = 0, _archive(stream, 0)
    while True:
        if isinstance(archive, tarfile.TarFile):
            stopped = yield from _members(archive, stream, size)
            if stopped is None:
                return
            start, archive = stopped
        after = _next_header(stream, archive, size)
        readable = _archive(stream, after) if after < size else None
        if isinstance(readable, int):
            archive = readable
            continue
        if start < after:
            yield TarDamage(start, after, None)
        if readable is None:
            return
        archive = readable


def _members(
    archive: tarfile.TarFile, stream: BinaryIO, size: int
) -> Generator[Member | TarDamage, None, tuple[int, int] | None]:
    """Yield members; return None at the end, else where a header cannot be read, and where to look for the next one."""
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
            return info.offset, _after(stream, info.offset)  # tarfile would go backwards without end
        is_sparse = info.isreg() and info.issparse()
        stored = archive.offset - info.offset_data  # padded; for a sparse file less than its size
        if is_sparse or not info.isreg():
            is_cut = info.offset_data + stored - size >= BLOCK
        else:
            is_cut = info.offset_data + info.size > size
        name, is_name_shortened = _name(info.name)
        if is_cut:
            yield TarDamage(info.offset, size, name)
            return None
        yield Member(
            name,
            info.offset,
            info.offset_data,
            info.size,
            min(info.offset_data + stored, size),
            info.isreg(),
            info.isdir(),
            is_sparse,
            has_set_id=bool(info.mode & (stat.S_ISUID | stat.S_ISGID)),
            is_name_shortened=is_name_shortened,
            mtime=int(info.mtime) if 0 <= info.mtime < MAX_MTIME else 0,
        )
        while (member := _plain_member(stream, archive.offset, size)) is not None:
            archive.offset = -(-member.end // BLOCK) * BLOCK
            yield member
    next_block = _after_zeros(stream, archive.offset)
    if next_block is None:
        return None
    # Joined archives, or one that was appended to: zeros are the end of the first, and no damage.
    return (next_block, next_block) if next_block > archive.offset else (archive.offset, archive.offset + BLOCK)


_NUMBER, _LARGE = rb"(?:[0-7]{7}[\0 ]|[0-7]{6} \0)", rb"([0-7]{11})[\0 ]"
_PLAIN_HEADER = re.compile(
    rb"([^\0].{99})(%b)%b{2}%b%b([0-7]{6})\0 0.{172}(?:\0{16}|%b{2})\0.{166}"
    % (_NUMBER, _NUMBER, _LARGE, _LARGE, _NUMBER),
    re.DOTALL,
)
"""Header of a regular file, with neither a prefix of its name nor a number in binary: name, mode, size, time, sum."""


def _plain_member(stream: BinaryIO, start: int, size: int) -> Member | None:
    """Return the whole member whose header is at `start`, if the header is plain: Python's reader takes four times as
    long for it. None for any other."""
    stream.seek(start)
    block = stream.read(BLOCK)
    plain = _PLAIN_HEADER.fullmatch(block)
    if plain is None or not block.isascii():
        return None
    # Adler's sum of bytes is exact for ASCII: 512 of these stay below its modulus.
    checksum = (zlib.adler32(block) & 0xFFFF) - 1 - sum(block[148:156]) + 8 * ord(" ")
    data_start, num_bytes = start + BLOCK, int(plain[3], 8)
    if checksum != int(plain[5], 8) or data_start + num_bytes > size:
        return None
    name = plain[1].partition(b"\0")[0].decode()
    end = min(data_start + -(-num_bytes // BLOCK) * BLOCK, size)
    has_set_id = bool(int(plain[2].rstrip(b"\0"), 8) & (stat.S_ISUID | stat.S_ISGID))
    return Member(name, start, data_start, num_bytes, end, True, has_set_id=has_set_id, mtime=int(plain[4], 8))


def _name(stored: str) -> tuple[str, bool]:
    """Return the name, and whether it was shortened to its beginning and a hash of the whole."""
    encoded = stored.encode("utf-8", "surrogateescape")
    if len(encoded) <= MAX_NAME_BYTES:
        return stored, False
    return f"{stored[:SHORTENED_CHARACTERS]}…{hashlib.sha256(encoded).hexdigest()[:12]}", True


class _NoGlobals(dict[str, str]):
    """Loses the records of pax global headers, which would set name or size of every member after them."""

    def __setitem__(self, key: str, value: str) -> None:
        pass


def _archive(stream: BinaryIO, offset: int) -> tarfile.TarFile | int:
    """Return Python's reader at the header at `offset`; if that is unreadable, the offset to search from."""
    stream.seek(offset)
    reader = _HeaderReader(stream)
    try:
        return tarfile.TarFile(fileobj=cast(BinaryIO, reader), errorlevel=0, pax_headers=_NoGlobals())
    except _UNREADABLE:
        return _after(stream, offset)


def _after(stream: BinaryIO, offset: int) -> int:
    """Return where the next header may be: after all bytes read, so that a chain of headers is read only once."""
    return max(offset, stream.tell() // BLOCK * BLOCK - BLOCK) + BLOCK


class _HeaderReader(io.RawIOBase):
    """The stream for Python's reader, with a limit per member on the bytes and reads that headers may claim."""

    def __init__(self, stream: BinaryIO):
        super().__init__()
        self._stream = stream
        self.begin()

    def begin(self) -> None:
        """Reset the limits for the next member."""
        self._bytes_left, self._reads_left = MAX_HEADER_BYTES, MAX_HEADER_READS

    def read(self, size: int = -1, /) -> bytes:
        self._bytes_left -= size
        self._reads_left -= 1
        if size < 0 or self._bytes_left < 0 or self._reads_left < 0:
            raise tarfile.ReadError("headers of a member that are too long")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._stream.seek(offset, whence)


def _after_zeros(stream: BinaryIO, offset: int) -> int | None:
    """Return the offset of the next block that is not all zeros, None if there is none."""
    stream.seek(offset)
    while blocks := stream.read(SEARCHED_BYTES):
        rest = blocks.lstrip(b"\0")
        if rest:
            return offset + (len(blocks) - len(rest)) // BLOCK * BLOCK
        offset += len(blocks)
    return None


def _next_header(stream: BinaryIO, offset: int, size: int) -> int:
    """Return the offset of the next block that is a valid header with the ustar magic, or `size`."""
    num_bytes = FIRST_SEARCHED_BYTES  # then more and more: headers that cannot be read may be close together
    while offset + BLOCK <= size:
        stream.seek(offset)
        blocks = stream.read(num_bytes)
        position = blocks.find(MAGIC)
        while position >= 0:
            start = position - MAGIC_OFFSET
            if start >= 0 and start % BLOCK == 0 and _is_header(blocks[start : start + BLOCK]):
                return offset + start
            position = blocks.find(MAGIC, position + 1)
        offset += num_bytes
        num_bytes = min(2 * num_bytes, SEARCHED_BYTES)
    return size


def _is_header(block: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True
