"""The pieces of a file, as the walker of its format reports them, and the kinds of what no engine sees; how much of
deflated pixel data a picture needs.

A piece is needed to show the picture, known and harmless, or neither. `unseen` names what is neither, and a cleaned
file is made of what is needed.

Imports no decoder, since the schema of the rows needs the kinds.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple


class Kind:
    """What a piece is."""

    FRAMES: Final = "frames"
    TRAILING_DATA: Final = "trailing_data"
    EMBEDDED_IMAGE: Final = "embedded_image"
    UNKNOWN_CHUNK: Final = "unknown_chunk"
    HIDDEN_PIXELS: Final = "hidden_pixels"
    METADATA: Final = "metadata"
    PIXELS: Final = "pixels"
    """The last two count only if they contain another picture."""


UNSEEN_KINDS = {
    Kind.EMBEDDED_IMAGE: (
        "another picture inside the file, unless found to be a smaller copy of what was scanned; any TIFF with "
        "sub-directories, such as pyramids, or with both strips and tiles"
    ),
    Kind.FRAMES: "frames or pages after those that were scanned; any animated AVIF",
    Kind.HIDDEN_PIXELS: "pixels that no viewer shows: a scan that another one replaces, or a pattern in equal colours",
    Kind.TRAILING_DATA: "data after the end of the picture; the colour profile of a BMP",
    Kind.UNKNOWN_CHUNK: (
        "a part of the file that is neither a picture nor known metadata; the pixels of a run-length encoded BMP, and "
        "of a PBM, PGM or PPM in text"
    ),
}
"""Every kind of what may not be seen, and its meaning. What follows a semicolon is always named: which of its data is
shown is not told apart."""

IGNORED_BYTES = 64
"""This much of one kind in a file is taken for padding or a marker and ignored."""

Range = tuple[int, int]
"""Offset of the first byte, and of the byte after the last one."""


class Piece(NamedTuple):
    """Some bytes of a file."""

    kind: str

    content: bytes = b""
    """The bytes. With `num_bytes` it is one picture as a file of its own, which counts unless it is a
    copy; or empty, which always counts."""

    num_bytes: int | None = None
    """Number of bytes of the file, or None for those of `content`."""

    kept: bytes | memoryview = b""
    """What is needed to show the picture, as a cleaned file holds it."""


def needed(pieces: Iterable[Piece]) -> list[bytes | memoryview]:
    """Return what a cleaned file is made of, in order."""
    return [piece.kept for piece in pieces if piece.kept]


def unclaimed(claimed: Iterable[Range], num_bytes: int) -> Iterator[Range]:
    """Yield the ranges of a file of `num_bytes` that no claimed range covers, in order."""
    offset = 0
    for first, last in sorted(claimed):
        if first >= num_bytes:
            break
        if first > offset:
            yield offset, first
        offset = max(offset, last)
    if offset < num_bytes:
        yield offset, num_bytes


def merged(ranges: Iterable[Range], num_bytes: int) -> Iterator[Range]:
    """Yield the same bytes as ranges without overlap."""
    return unclaimed(unclaimed(ranges, num_bytes), num_bytes)


def num_bytes_of(ranges: Iterable[Range]) -> int:
    return sum(last - first for first, last in ranges)


_HEADER_BYTES, _CHECKSUM_BYTES = 2, 4
_READ_BYTES, _UNPACKED_BYTES = 2**16, 2**20
"""Bytes read and unpacked at a time, so that memory does not grow with the picture."""


class DamagedError(Exception):
    """Pixels of a frame are missing or changed."""

    def __init__(self, message: str, frame: int = 0):
        super().__init__(message)
        self.frame = frame


def checked_bytes(packed: bytes, num_needed: int, frame: int) -> tuple[int, int]:
    """Return `used_bytes` of a frame. DamagedError if more is unpacked than needed, without a right checksum behind at
    most as much again: decoders stop before they reach that."""
    used, num_surplus = used_bytes(packed, num_needed)
    if num_surplus > 0 and not _has_right_checksum(packed, 2 * num_needed):
        raise DamagedError("the checksum of the pixels is missing or wrong", frame)
    return used, num_surplus


def _has_right_checksum(packed: bytes, max_bytes: int) -> bool:
    unpacker = zlib.decompressobj()
    for first in range(0, len(packed), _READ_BYTES):
        given = packed[first : first + _READ_BYTES]
        while given and not unpacker.eof and max_bytes > 0:
            try:
                max_bytes -= len(unpacker.decompress(given, _UNPACKED_BYTES))
            except zlib.error:
                return False
            given = unpacker.unconsumed_tail
    return unpacker.eof


def used_bytes(packed: bytes, num_needed: int) -> tuple[int, int]:
    """Return where the zlib stream ends, or where the bytes that a picture needs end if more follow; and how many more
    (or, if negative, fewer) bytes than needed were unpacked until then.

    The checksum is left to the decoder, which saves a fifth of the time.
    """
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    offset, num_left = min(_HEADER_BYTES, len(packed)), num_needed
    last = offset
    while offset < len(packed):
        given = packed[offset : offset + _READ_BYTES]
        offset += len(given)
        while given and not unpacker.eof:
            try:
                unpacked = unpacker.decompress(given, max(1, min(num_left, _UNPACKED_BYTES)))
            except zlib.error:
                return last, -num_left or 1
            if unpacked and not num_left:
                return last, len(unpacked)
            num_left -= len(unpacked)
            given = unpacker.unconsumed_tail
            if unpacked:
                last = offset - len(given)
        if unpacker.eof:
            end = min(offset - len(unpacker.unused_data) + _CHECKSUM_BYTES, len(packed))
            return end if num_left or end - last <= IGNORED_BYTES else last, -num_left
    # Blocks that unpack to nothing can hold much.
    return len(packed) if num_left or len(packed) - last <= IGNORED_BYTES else last, -num_left
