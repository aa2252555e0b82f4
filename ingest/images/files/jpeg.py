"""JPEG: segments, and what lies behind the end. One file may hold several pictures (MPO).

Source of the markers: ITU-T T.81, annex B.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ingest.images.files.magic import is_text
from ingest.images.files.pieces import METADATA, Piece, unclaimed
from ingest.images.files.unseen_kinds import EMBEDDED_IMAGE, TRAILING_DATA, UNKNOWN_CHUNK

_SOI_BYTES, _EOI, _SOS = 2, 0xD9, 0xDA
_APP0, _COM = 0xE0, 0xFE
_GARBAGE = 0x00
_TABLES = frozenset([*range(0xC0, 0xCC), *range(0xCD, 0xD0), 0xDB, 0xDD])
"""Frame headers and the tables that decoding needs."""
_WITHOUT_LENGTH = frozenset([0x00, 0x01, *range(0xD0, 0xD9)])

_METADATA: dict[int, tuple[tuple[bytes, int], ...]] = {
    0xE1: (
        (b"Exif\0", 6),
        (b"http://ns.adobe.com/xap/1.0/\0", 29),
        (b"http://ns.adobe.com/xmp/extension/\0", 75),
        (b"XMP\0://ns.adobe.com/xap/1.0/\0", 29),  # some program's mistake
    ),
    0xE2: ((b"ICC_PROFILE\0", 14),),
    0xEB: ((b"JP", 8),),  # JUMBF, which holds C2PA
    0xED: ((b"Photoshop 3.0\0", 14),),
}
"""Marker -> how segments of metadata begin, and how many bytes stand before their content."""
_SMALL: dict[int, tuple[bytes, ...]] = {
    _APP0: (b"AVI1",),
    0xE2: (b"MPF\0", b"urn:iso:std:iso:ts:21496:-1\0"),
    0xEC: (b"Ducky",),
    0xED: (b"Adobe_CM", b"Adobe_Photoshop2.5:"),
    0xEE: (b"Adobe",),
}
"""Marker -> how known segments of a few bytes begin."""
_MAX_SMALL_BYTES = 1024


@dataclass(frozen=True)
class Stream:
    """One JPEG picture in a file. Offsets are in bytes from the start of the file."""

    first: int
    """Of its start marker (SOI)."""

    last: int
    """Behind its end marker (EOI)."""

    num_scans: int

    segments: tuple[tuple[int, int, int], ...]
    """Segments that hold no picture data: marker, first and last byte."""


def streams(encoded: bytes, starts: Sequence[int]) -> list[Stream]:
    """The pictures that begin at `starts`; one without an end goes on to the end of the file."""
    marks, found = b"", []
    for start in starts:
        at, num_scans, segments = start + _SOI_BYTES, 0, list[tuple[int, int, int]]()
        while at + 1 < len(encoded):
            if encoded[at] != 0xFF:
                garbage, at = at, encoded.find(b"\xff", at)
                at = len(encoded) if at < 0 else at
                segments.append((_GARBAGE, garbage, at))
                continue
            marker = encoded[at + 1]
            if marker == _EOI:
                break
            if marker == 0xFF or marker in _WITHOUT_LENGTH:
                at += 1 if marker == 0xFF else 2
                continue
            last = at + 2 + max(2, int.from_bytes(encoded[at + 2 : at + 4]))
            if marker == _SOS:
                num_scans += 1
                marks = marks or _marks(encoded)
                last = _next_marker(encoded, marks, last)
            elif marker not in _TABLES:
                segments.append((marker, at + 4, min(last, len(encoded))))
            at = last
        found.append(Stream(start, min(at + 2, len(encoded)), num_scans, tuple(segments)))
    return found


def _marks(encoded: bytes) -> bytes:
    """1 for each 0xFF with no zero behind it, which is where a marker may be; else 0."""
    values = np.frombuffer(encoded, np.uint8)
    is_marker = values[:-1] == 0xFF
    is_marker &= values[1:] != 0
    return bytes(is_marker)


def _next_marker(encoded: bytes, marks: bytes, at: int) -> int:
    """Where the data of a scan ends that goes on at `at`."""
    at = marks.find(1, at)
    while at >= 0 and (encoded[at + 1] == 0xFF or 0xD0 <= encoded[at + 1] <= 0xD7):
        at = marks.find(1, at + 1)
    return at if at >= 0 else len(encoded)


def pieces(encoded: bytes, seen: Sequence[Stream]) -> Iterator[Piece]:
    """What lies in the segments of the pictures that are scanned, between these pictures, and behind them."""
    for stream in seen:
        # Content that does not fit into one segment goes on in the next one of its kind.
        joined: dict[tuple[str, int, bytes], list[bytes]] = {}
        for marker, first, last in stream.segments:
            content = encoded[first:last]
            if marker == _APP0 and content.startswith((b"JFIF\0", b"JFXX\0")):
                thumbnail, content = _jfif(content)
                yield Piece(EMBEDDED_IMAGE, thumbnail, len(thumbnail)) if thumbnail else Piece(METADATA, b"")
            kind, name, content = _part(marker, content)
            joined.setdefault((kind, marker, name), []).append(content)
        yield from (Piece(kind, b"".join(parts)) for (kind, *_), parts in joined.items())
    for first, last in unclaimed([(stream.first, stream.last) for stream in seen], len(encoded)):
        yield Piece(TRAILING_DATA, encoded[first:last])


def _part(marker: int, content: bytes) -> tuple[str, bytes, bytes]:
    """Kind, name and content of what one segment holds."""
    for head, num_bytes in _METADATA.get(marker, ()):
        if content.startswith(head):
            goes_on = head == b"JP" and content[4:8] > b"\0\0\0\1"  # then the header of its box comes again
            return METADATA, head, content[num_bytes + 8 * goes_on :]
    if marker == _COM:
        return METADATA if is_text(content) else UNKNOWN_CHUNK, b"", content
    is_small = len(content) <= _MAX_SMALL_BYTES and any(content.startswith(head) for head in _SMALL.get(marker, ()))
    return (METADATA, b"", b"") if is_small else (UNKNOWN_CHUNK, b"", content)


def _jfif(content: bytes) -> tuple[bytes, bytes]:
    """The bare pixels that a JFIF or JFXX segment holds as a file of their own, and what else it holds."""
    extension = content[5:6] if content.startswith(b"JFXX") else b""
    if extension not in (b"", b"\x11", b"\x13"):
        return b"", content[6:]
    at = 6 if extension else 12
    width, height = (*content[at : at + 2], 0, 0)[:2]
    at, num_pixels = at + 2, width * height
    if extension == b"\x11":
        palette, at = content[at : at + 768], at + 768
        pixels = b"".join(palette[3 * index : 3 * index + 3] for index in content[at : at + num_pixels])
        rest = content[at + num_pixels :]
    else:
        pixels, rest = content[at : at + 3 * num_pixels], content[at + 3 * num_pixels :]
    return b"P6 %d %d 255\n" % (width, height) + pixels if num_pixels else b"", rest
