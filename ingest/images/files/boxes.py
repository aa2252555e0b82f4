"""The boxes of HEIF, AVIF and JPEG 2000: a length, a name and a content, which may be boxes again. Source: ISO/IEC
14496-12, 4.2; ISO/IEC 15444-1, annex I."""

from collections.abc import Iterator
from dataclasses import dataclass

MAX_BOXES = 2**17
"""Limit of the boxes on one level; the walkers see no box after it."""


@dataclass(frozen=True)
class Box:
    """Offsets are in bytes from the start of the file."""

    name: bytes

    start: int
    """Offset of the header."""

    first: int
    """Offset of the content."""

    last: int
    """Offset after the content."""


def boxes(encoded: bytes, offset: int, last: int) -> Iterator[Box]:
    """Yield the boxes from `offset` on, up to the first that makes no sense."""
    for _ in range(MAX_BOXES):
        if offset + 8 > last:
            return
        num_bytes, name, first = number_at(encoded, offset, 4), encoded[offset + 4 : offset + 8], offset + 8
        if num_bytes == 1:
            num_bytes, first = number_at(encoded, first, 8), first + 8
        end = last if num_bytes == 0 else offset + num_bytes
        if end < first or end > last or not name.strip(b" ").isalnum():
            return
        yield Box(name, offset, first, end)
        offset = end


def number_at(encoded: bytes, offset: int, num_bytes: int) -> int:
    return int.from_bytes(encoded[offset : offset + num_bytes])
