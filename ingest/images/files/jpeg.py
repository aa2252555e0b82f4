"""JPEG: segments, and data after the end. One file may hold several pictures (MPO).

Source of the markers: ITU-T T.81, annex B.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ingest.images.files.magic import is_text
from ingest.images.files.metadata import Cleaned, KeptFacts
from ingest.images.files.pieces import EMBEDDED_IMAGE, METADATA, TRAILING_DATA, UNKNOWN_CHUNK, Piece, Range, unclaimed

START = b"\xff\xd8\xff"
_SOI_BYTES, _EOI, _SOS = 2, 0xD9, 0xDA
_APP0, _COM = 0xE0, 0xFE
_GARBAGE = 0x00
_TABLES = frozenset([*range(0xC0, 0xCC), *range(0xCD, 0xD0), 0xDB, 0xDD])
"""Frame headers and the tables that decoding needs."""
_FACTS = frozenset([0xE1, 0xE2])
"""Segments that may hold EXIF and XMP, or a colour profile and the index of further pictures (MPO)."""
_WITHOUT_LENGTH = frozenset([0x00, 0x01, *range(0xD0, 0xD9)])

_METADATA: dict[int, tuple[tuple[bytes, int], ...]] = {
    0xE1: (
        (b"Exif\0", 6),
        (b"http://ns.adobe.com/xap/1.0/\0", 29),
        (b"http://ns.adobe.com/xmp/extension/\0", 75),
        (b"XMP\0://ns.adobe.com/xap/1.0/\0", 29),  # a mistake of some programs
    ),
    0xE2: ((b"ICC_PROFILE\0", 14),),
    0xEB: ((b"JP", 8),),  # JUMBF, which holds C2PA
    0xED: ((b"Photoshop 3.0\0", 14),),
}
"""Marker -> how segments of metadata begin, and how many bytes precede their content."""
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
    """Offset of its start marker (SOI)."""

    last: int
    """Offset after its end marker (EOI)."""

    num_scans: int

    segments: tuple[tuple[int, int, int], ...]
    """Segments that hold no picture data: marker, first and last byte."""

    picture: tuple[Range, ...]
    """What decoding needs, in order: tables, frame headers, and scans with their data."""

    @property
    def may_have_facts(self) -> bool:
        """Return whether something may say how the picture is turned, or which profile it has, or that it is not the
        only one."""
        return any(marker in _FACTS or marker == _GARBAGE for marker, _, _ in self.segments)


def streams(encoded: bytes, starts: Sequence[int]) -> list[Stream]:
    """Return the pictures that begin at `starts`; one without an end goes on to the end of the file."""
    marks, pictures = b"", []
    for start in starts:
        offset, num_scans, segments, picture = start + _SOI_BYTES, 0, list[tuple[int, int, int]](), list[Range]()
        while offset + 1 < len(encoded):
            if encoded[offset] != 0xFF:
                garbage, offset = offset, encoded.find(b"\xff", offset)
                offset = len(encoded) if offset < 0 else offset
                segments.append((_GARBAGE, garbage, offset))
                continue
            marker = encoded[offset + 1]
            if marker == _EOI:
                break
            if marker == 0xFF or marker in _WITHOUT_LENGTH:
                offset += 1 if marker == 0xFF else 2
                continue
            last = offset + 2 + max(2, int.from_bytes(encoded[offset + 2 : offset + 4]))
            if marker == _SOS:
                num_scans += 1
                marks = marks or _marks(encoded)
                last = _next_marker(encoded, marks, last)
            if marker in _TABLES or marker == _SOS:
                picture.append((offset, min(last, len(encoded))))
            else:
                segments.append((marker, offset + 4, min(last, len(encoded))))
            offset = last
        pictures.append(Stream(start, min(offset + 2, len(encoded)), num_scans, tuple(segments), tuple(picture)))
    return pictures


def _marks(encoded: bytes) -> bytes:
    """Return 1 for each 0xFF not followed by zero, where a marker may be, and 0 for other bytes."""
    values = np.frombuffer(encoded, np.uint8)
    is_marker = values[:-1] == 0xFF
    is_marker &= values[1:] != 0
    return bytes(is_marker)


def _next_marker(encoded: bytes, marks: bytes, offset: int) -> int:
    """Return where the data of a scan ends that continues at `offset`."""
    offset = marks.find(1, offset)
    while offset >= 0 and (encoded[offset + 1] == 0xFF or 0xD0 <= encoded[offset + 1] <= 0xD7):
        offset = marks.find(1, offset + 1)
    return offset if offset >= 0 else len(encoded)


def pieces(encoded: bytes, seen: Sequence[Stream]) -> Iterator[Piece]:
    """Yield the parts in the segments of the scanned pictures, between these pictures, and after them."""
    for stream in seen:
        # Content that does not fit into one segment continues in the next one of its kind.
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
    """Return kind, name and content of one segment."""
    for head, num_bytes in _METADATA.get(marker, ()):
        if content.startswith(head):
            is_continuation = head == b"JP" and content[4:8] > b"\0\0\0\1"  # then the header of its box comes again
            return METADATA, head, content[num_bytes + 8 * is_continuation :]
    if marker == _COM:
        return METADATA if is_text(content) else UNKNOWN_CHUNK, b"", content
    is_small = len(content) <= _MAX_SMALL_BYTES and any(content.startswith(head) for head in _SMALL.get(marker, ()))
    return (METADATA, b"", b"") if is_small else (UNKNOWN_CHUNK, b"", content)


def _jfif(content: bytes) -> tuple[bytes, bytes]:
    """Return the uncompressed pixels of a JFIF or JFXX segment as a file of their own, and the rest of the segment."""
    extension = content[5:6] if content.startswith(b"JFXX") else b""
    if extension not in (b"", b"\x11", b"\x13"):
        return b"", content[6:]
    offset = 6 if extension else 12
    width, height = (*content[offset : offset + 2], 0, 0)[:2]
    offset, num_pixels = offset + 2, width * height
    if extension == b"\x11":
        palette, offset = content[offset : offset + 768], offset + 768
        pixels = b"".join(palette[3 * index : 3 * index + 3] for index in content[offset : offset + num_pixels])
        rest = content[offset + num_pixels :]
    else:
        pixels, rest = content[offset : offset + 3 * num_pixels], content[offset + 3 * num_pixels :]
    return b"P6 %d %d 255\n" % (width, height) + pixels if num_pixels else b"", rest


_ADOBE, _ADOBE_BYTES, _JFIF_BYTES = b"Adobe", 12, 14
_ICC, _ICC_PART_BYTES = b"ICC_PROFILE\0", 65_519
_END = b"\xff\xd9"


def cleaned(encoded: bytes, stream: Stream, facts: KeptFacts) -> Cleaned:
    """Write the first picture again. Of the segments that are no picture data, two decide how colours are decoded:
    JFIF, without its thumbnail, and Adobe. stream: this picture."""
    jfif = [encoded[first:last] for marker, first, last in stream.segments if marker == _APP0]
    jfif = [content for content in jfif if content.startswith(b"JFIF\0") and len(content) >= _JFIF_BYTES]
    adobe = [encoded[first : first + _ADOBE_BYTES] for marker, first, last in stream.segments if marker == 0xEE]
    adobe = [content for content in adobe if content.startswith(_ADOBE) and len(content) == _ADOBE_BYTES]
    parts = [encoded[stream.first : stream.first + _SOI_BYTES]]
    parts += [_segment(_APP0, content[: _JFIF_BYTES - 2] + b"\0\0") for content in jfif[:1]]
    parts += [_segment(0xE1, b"Exif\0\0" + facts.exif)] if facts.exif else []
    parts += _profile_segments(facts.profile or b"")
    parts += [_segment(0xEE, content) for content in adobe[-1:]]
    parts += [encoded[first:last] for first, last in stream.picture]
    has_garbage = any(marker == _GARBAGE for marker, _, _ in stream.segments)
    first_table = stream.picture[0][0] if stream.picture else 0
    is_late = any(first > first_table for marker, first, _ in stream.segments if marker in (_APP0, 0xEE))
    is_usual = not (has_garbage or is_late or len(adobe) > 1) and encoded[stream.last - 2 : stream.last] == _END
    return Cleaned(b"".join([*parts, _END]), is_usual)


def _segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(content) + 2).to_bytes(2) + content


def _profile_segments(profile: bytes) -> list[bytes]:
    """Cut a profile into numbered APP2 segments (ICC.1:2022, annex B.4)."""
    parts = [profile[first : first + _ICC_PART_BYTES] for first in range(0, len(profile), _ICC_PART_BYTES)]
    return [_segment(0xE2, _ICC + bytes([number, len(parts)]) + part) for number, part in enumerate(parts, 1)]
