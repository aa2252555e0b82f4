"""What a walker finds in a file besides the pictures that are scanned."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

METADATA, PIXELS = "metadata", "pixels"
"""What is looked at: it counts only where another picture lies in it."""

IGNORED_BYTES = 64
"""So much of one kind in a file is padding or a marker, and counts as nothing."""

Range = tuple[int, int]
"""First byte, and the byte behind the last one."""


@dataclass(frozen=True)
class Piece:
    """Some bytes of a file."""

    kind: str

    content: bytes
    """The bytes. With `num_bytes` it is one picture as a file of its own (TIFF or PPM), which counts unless it is a
    copy; or empty, which always counts."""

    num_bytes: int | None = None
    """None, or how many bytes of the file these are."""


def unclaimed(claimed: Iterable[Range], num_bytes: int) -> Iterator[Range]:
    """The ranges of a file of `num_bytes` that no claimed range covers, in order."""
    at = 0
    for first, last in sorted(claimed):
        if first >= num_bytes:
            break
        if first > at:
            yield at, first
        at = max(at, last)
    if at < num_bytes:
        yield at, num_bytes


def merged(ranges: Iterable[Range], num_bytes: int) -> Iterator[Range]:
    """The same bytes, each of them once."""
    return unclaimed(unclaimed(ranges, num_bytes), num_bytes)


def num_bytes_of(ranges: Iterable[Range]) -> int:
    return sum(last - first for first, last in ranges)
