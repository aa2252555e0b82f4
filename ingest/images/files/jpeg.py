"""JPEG: segments, and data after the end. One file may hold several pictures (MPO). Source of the markers: ITU-T T.81,
annex B."""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ingest.images.files.magic import is_text
from ingest.images.files.metadata import KeptFacts
from ingest.images.files.pieces import Kind, Piece, needed, unclaimed
from ingest.images.files.profiles import profile_pieces

START, END = b"\xff\xd8\xff", b"\xff\xd9"
_SOI_BYTES, _EOI, _SOS = 2, 0xD9, 0xDA
_APP0, _EXIF, _ICC, _ADOBE, _COM = 0xE0, 0xE1, 0xE2, 0xEE, 0xFE
_GARBAGE = 0x00
_GARBAGE_BYTES = re.compile(rb"(?:[^\xff]|\xff[\x00\x01\xd0-\xd8])++", re.DOTALL)
"""Bytes outside of segments and scans, and markers that mean nothing there."""
_HUFFMAN, _ARITHMETIC, _QUANTISATION, _RESTARTS = 0xC4, 0xCC, 0xDB, 0xDD
_TABLES = frozenset([_HUFFMAN, _ARITHMETIC, _QUANTISATION, _RESTARTS])
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
"""Ends the data of a scan: zeros and restarts belong to it."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {_HUFFMAN, _ARITHMETIC, 0xC8}
_PROGRESSIVE = frozenset([0xC2, 0xCA])
_STANDARD_TABLES = frozenset([0x13BC22C1, 0x76431CC4, 0xBF876D00, 0xDB3E692F])
"""CRC-32 of the Huffman tables of annex K, which some encoders write whether they use them or not."""
_SEQUENTIAL = frozenset([0xC0, 0xC1, 0xC9])
_WHOLE_BLOCKS = bytes([0, 63, 0])
"""How a scan of a sequential picture ends its header. Some phones write other numbers there, which mean nothing."""

_FLAWS = re.compile(
    r"extraneous bytes before marker|bad ICC marker|unknown JFIF revision|Invalid SOS parameters|Unknown Adobe color"
)
"""Warnings of libjpeg (`jerror.h`) that say nothing of the pixels, unless the bytes are in a scan's data."""
_STRAY_BYTES = re.compile(r"(\d+) extraneous bytes before marker 0xd9")
_MAX_STRAY_BYTES = 16
"""More bytes before the end marker are a sign of damage: the decoder has lost its place."""

_HEADER_BYTES = 4
"""Marker and length of a segment."""
_NOT_YET = -1
"""Level of a coefficient that no scan has given; later the number of low bits that are still missing."""
_MAX_CONDITIONS_BYTES = 64
"""Limit of arithmetic conditioning; two bytes each for at most 32 tables."""
_JFIF_BYTES, _ADOBE_BYTES = 14, 12
_TRANSFORMS = {3: b"\0\1", 4: b"\0\2"}
"""Number of components -> the colour transforms that an Adobe segment may name; the last one is assumed otherwise."""
_PROFILE = b"ICC_PROFILE\0"

_METADATA: dict[int, tuple[tuple[bytes, int], ...]] = {
    0xE1: (
        (b"Exif\0", 6),
        (b"http://ns.adobe.com/xap/1.0/\0", 29),
        (b"http://ns.adobe.com/xmp/extension/\0", 75),
        (b"XMP\0://ns.adobe.com/xap/1.0/\0", 29),  # a mistake of some programs
    ),
    _ICC: ((_PROFILE, 14),),
    0xEB: ((b"JP", 8),),  # JUMBF, which holds C2PA
    0xED: ((b"Photoshop 3.0\0", 14),),
}
"""Marker -> how segments of metadata begin, and how many bytes precede their content."""
_SMALL: dict[int, tuple[bytes, ...]] = {
    _APP0: (b"AVI1",),
    _ICC: (b"MPF\0", b"urn:iso:std:iso:ts:21496:-1\0"),
    0xEC: (b"Ducky",),
    0xED: (b"Adobe_CM", b"Adobe_Photoshop2.5:"),
    _ADOBE: (b"Adobe",),
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

    segments: tuple[tuple[int, int, int], ...]
    """Marker, first and last byte of each segment, in order; a scan with its data."""

    @property
    def num_scans(self) -> int:
        return sum(marker == _SOS for marker, _, _ in self.segments)


_MAX_SEGMENTS = 10_000
"""Limit of the segments of a picture; each takes time and memory, and a file needs some dozens."""


def streams(encoded: bytes, starts: Sequence[int]) -> list[Stream]:
    """Return the pictures that begin at `starts`; one without an end goes on to the end of the file."""
    pictures = []
    for start in starts:
        offset, segments = start + _SOI_BYTES, list[tuple[int, int, int]]()
        while offset + 1 < len(encoded):
            if len(segments) > _MAX_SEGMENTS:
                raise ValueError(f"more than {_MAX_SEGMENTS:,} segments")
            garbage = _GARBAGE_BYTES.match(encoded, offset)
            if garbage:
                segments.append((_GARBAGE, offset, garbage.end()))
                offset = garbage.end()
                continue
            marker = encoded[offset + 1]
            if marker == _EOI:
                break
            if marker == 0xFF:
                offset += 1
                continue
            last = offset + 2 + max(2, int.from_bytes(encoded[offset + 2 : offset + 4]))
            if marker == _SOS:
                marked = _MARKER.search(encoded, last)
                last = marked.start() if marked else len(encoded)
            segments.append((marker, offset, min(last, len(encoded))))
            offset = last
        pictures.append(Stream(start, min(offset + 2, len(encoded)), tuple(segments)))
    return pictures


def num_pictures(encoded: bytes, starts: Sequence[int]) -> int:
    """Count the pictures of an MPO before the first one that is not where the index says: many programs keep the index
    and drop what follows the first picture."""
    missing = (number for number, start in enumerate(starts) if not encoded.startswith(START, start))
    return next(missing, len(starts))


def is_unusual(encoded: bytes) -> bool:
    """Return whether a JPEG has other samples than 8 bits of 1, 3 or 4 colours, or is lossless or hierarchical."""
    try:
        segments = streams(encoded, [0])[0].segments
    except ValueError:  # too many
        return False
    frames = ((marker, first) for marker, first, _ in segments if marker in _FRAMES)
    marker, first = next(frames, (0, len(encoded)))
    header = encoded[first + _HEADER_BYTES : first + _HEADER_BYTES + 6]
    is_usual = marker in _SEQUENTIAL | _PROGRESSIVE and header[:1] == b"\x08" and header[5:] in (b"\1", b"\3", b"\4")
    return len(header) == 6 and not is_usual


def outside_scans(encoded: bytes, seen: Sequence[Stream]) -> tuple[bytes, int]:
    """Return all of the file but the scans of these pictures, and where the first scan was."""
    scans = [(first, last) for stream in seen for marker, first, last in stream.segments if marker == _SOS]
    rest = b"".join(encoded[first:last] for first, last in unclaimed(scans, len(encoded)))
    return rest, min(scans, default=(0, 0))[0]


def pieces(encoded: bytes, seen: Sequence[Stream]) -> Iterator[Piece]:
    """Yield the parts of the scanned pictures, what is between these pictures, and after them."""
    for stream in seen:
        yield from _pieces_of(encoded, stream)
    for first, last in unclaimed([(stream.first, stream.last) for stream in seen], len(encoded)):
        yield Piece(Kind.TRAILING_DATA, encoded[first:last])


def _pieces_of(encoded: bytes, stream: Stream) -> Iterator[Piece]:
    tables_of = {
        number: _tables(marker, encoded[first + _HEADER_BYTES : last])
        for number, (marker, first, last) in enumerate(stream.segments)
        if marker in _TABLES
    }
    used, replacing = _used(encoded, stream, tables_of)
    # Content that does not fit into one segment continues in the next one of its kind.
    joined: dict[tuple[str, int, bytes], list[bytes]] = {}
    kept, frame = set[int](), 0
    for number, (marker, first, last) in enumerate(stream.segments):
        if marker == _SOS or marker in _FRAMES:
            num_bytes = last - first if number in replacing else 0
            frame = frame if marker == _SOS else marker
            is_sequential = marker == _SOS and frame in _SEQUENTIAL
            part = memoryview(encoded)[first:last]  # without a copy: most of the file
            yield Piece(Kind.HIDDEN_PIXELS, b"", num_bytes, _whole_blocks(part) if is_sequential else part)
            continue
        content = encoded[first + (0 if marker == _GARBAGE else _HEADER_BYTES) : last]
        if marker in _TABLES:
            tables = tables_of[number]
            tables_used = b"".join(table for index, (_, table) in enumerate(tables) if (number, index) in used)
            yield Piece(Kind.METADATA, kept=_segment(marker, tables_used) if tables_used else b"")
            unused = [table for index, (_, table) in enumerate(tables) if (number, index) not in used]
            parts = [table[marker != _RESTARTS :] for table in unused if zlib.crc32(table) not in _STANDARD_TABLES]
            joined.setdefault((Kind.UNKNOWN_CHUNK, marker, b""), []).extend(parts)
            continue
        if marker in (_APP0, _ADOBE) and marker not in kept:
            yield Piece(Kind.METADATA, kept=_colours(marker, content, _num_components(encoded, stream)))
            kept.add(marker)
        if marker == _APP0 and content.startswith(b"JFIF\0"):
            thumbnail, content = _jfif(content)
            yield Piece(Kind.EMBEDDED_IMAGE, thumbnail, len(thumbnail)) if thumbnail else Piece(Kind.METADATA)
        kind, name, content = _part(marker, content)
        joined.setdefault((kind, marker, name), []).append(content)
    for (kind, marker, name), parts in joined.items():
        whole = b"".join(parts)
        yield from profile_pieces(whole) if (marker, name) == (_ICC, _PROFILE) else [Piece(kind, whole)]


def without_flaws(encoded: bytes, stream: Stream, warning: str) -> bytes | None:
    """Return the picture without that of which a decoder warns and which says nothing of the pixels; None if the
    warning is of the pixels. warning: the first one of libjpeg, which tells no others."""
    return cleaned(encoded, stream, KeptFacts(None, b"")) if _FLAWS.search(warning) else None


def is_stray(warning: str) -> bool:
    """Return whether a warning is of a few bytes before the end marker."""
    match = _STRAY_BYTES.search(warning)
    return match is not None and int(match[1]) <= _MAX_STRAY_BYTES


def _tables(marker: int, content: bytes) -> list[tuple[int, bytes]]:
    """Return number and bytes of each table that a segment defines; the number includes a Huffman table's class."""
    tables, offset = list[tuple[int, bytes]](), 0
    while offset < len(content):
        head = content[offset]
        match marker:
            case 0xC4:  # Huffman
                num_bytes = 17 + sum(content[offset + 1 : offset + 17])
            case 0xDB:  # quantisation
                num_bytes, head = 65 + 64 * (head >> 4 > 0), head & 15
            case _:
                num_bytes, head = len(content), 0 if len(content) <= _MAX_CONDITIONS_BYTES else _NOT_YET
        tables.append((head, content[offset : offset + num_bytes]))
        offset += num_bytes
    return tables


def _used(
    encoded: bytes, stream: Stream, tables_of: Mapping[int, list[tuple[int, bytes]]]
) -> tuple[set[tuple[int, int]], set[int]]:
    """Return the tables that scans use (segment, number in it), and segments of scans that replace earlier ones."""
    latest, used, replacing = dict[tuple[int, int], tuple[int, int]](), set[tuple[int, int]](), set[int]()
    quantisation, levels = dict[tuple[int, int], int](), dict[tuple[int, int], list[int]]()
    frame = 0
    for number, (marker, first, last) in enumerate(stream.segments):
        content = encoded[first + _HEADER_BYTES : min(last, first + 2 + int.from_bytes(encoded[first + 2 : first + 4]))]
        if number in tables_of:
            latest |= {(marker, slot): (number, index) for index, (slot, _) in enumerate(tables_of[number])}
        elif marker in _FRAMES:
            frame, ids = marker, content[6::3]
            quantisation = dict(zip(_numbered(ids), content[8::3], strict=False))
        elif marker == _SOS and content:
            last_byte = 1 + 2 * content[0]
            components, tables = _numbered(content[1:last_byte:2]), content[2:last_byte:2]
            first_k, last_k, approximation = (*content[last_byte : last_byte + 3], 0, 63, 0)[:3]
            if frame not in _PROGRESSIVE:
                first_k, last_k, approximation = 0, 63, 0
            before, after = divmod(approximation, 16)
            slots = [(_RESTARTS, 0), (_ARITHMETIC, 0)]
            for component, table in zip(components, tables, strict=False):
                slots.append((_QUANTISATION, quantisation.pop(component, -1)))  # the first scan decides
                if first_k == 0 and before == 0:
                    slots.append((_HUFFMAN, table >> 4))
                if last_k > 0:
                    slots.append((_HUFFMAN, 16 + (table & 15)))
                level = levels.setdefault(component, [_NOT_YET] * 64)
                num_levels = len(level[first_k : last_k + 1])
                if level[first_k : last_k + 1] != [before or _NOT_YET] * num_levels:
                    replacing.add(number)
                level[first_k : last_k + 1] = [after] * num_levels
            used |= {latest[slot] for slot in slots if slot in latest}
    return used, replacing


def _numbered(ids: bytes) -> list[tuple[int, int]]:
    """Return each component with the number of those before it of the same name, as decoders tell them apart."""
    return [(component, ids[:index].count(component)) for index, component in enumerate(ids)]


def _part(marker: int, content: bytes) -> tuple[str, bytes, bytes]:
    """Return kind, name and content of one segment."""
    for head, num_bytes in _METADATA.get(marker, ()):
        if content.startswith(head):
            is_continuation = head == b"JP" and content[4:8] > b"\0\0\0\1"  # then the header of its box comes again
            return Kind.METADATA, head, content[num_bytes + 8 * is_continuation :]
    if marker == _COM:
        return Kind.METADATA if is_text(content) else Kind.UNKNOWN_CHUNK, b"", content
    is_small = len(content) <= _MAX_SMALL_BYTES and any(content.startswith(head) for head in _SMALL.get(marker, ()))
    return (Kind.METADATA, b"", b"") if is_small else (Kind.UNKNOWN_CHUNK, b"", content)


def _jfif(content: bytes) -> tuple[bytes, bytes]:
    """Return the uncompressed thumbnail of a JFIF segment as a file of its own, and the rest of the segment."""
    width, height = (*content[12:14], 0, 0)[:2]
    last = 14 + 3 * width * height
    return b"P6 %d %d 255\n" % (width, height) + content[14:last] if width * height else b"", content[last:]


def _num_components(encoded: bytes, stream: Stream) -> int:
    frames = (first for marker, first, _ in stream.segments if marker in _FRAMES)
    return int.from_bytes(encoded[(at := next(frames, len(encoded)) + 9) : at + 1])


def _whole_blocks(scan: memoryview) -> bytes | memoryview:
    last = 2 + int.from_bytes(scan[2:4])
    is_usual = scan[last - 3 : last] == _WHOLE_BLOCKS or not 8 <= last <= len(scan)
    return scan if is_usual else b"".join([scan[: last - 3], _WHOLE_BLOCKS, scan[last:]])


def _colours(marker: int, content: bytes, num_components: int) -> bytes:
    """Return the part of a JFIF or Adobe segment that decides on colours, with values that decoders do not warn of."""
    if marker == _APP0 and content.startswith(b"JFIF\0") and len(content) >= _JFIF_BYTES:
        version = content[5:7] if content[5] == 1 else b"\1\2"
        return _segment(_APP0, content[:5] + version + content[7 : _JFIF_BYTES - 2] + b"\0\0")
    if marker == _ADOBE and content.startswith(b"Adobe") and len(content) >= _ADOBE_BYTES:
        known = _TRANSFORMS.get(num_components, b"")
        transform = known[-1:] if content[_ADOBE_BYTES - 1] not in known else b""
        return _segment(_ADOBE, content[: _ADOBE_BYTES - len(transform)] + transform)
    return b""


def cleaned(encoded: bytes, stream: Stream, facts: KeptFacts) -> bytes:
    """Write the first picture again. stream: this picture."""
    parts = needed(_pieces_of(encoded, stream))
    num_before = len(parts[0]) > 1 and parts[0][1] == _APP0 if parts else 0  # JFIF comes first
    exif = [_segment(_EXIF, b"Exif\0\0" + facts.exif)] if facts.exif else []
    profile = [_segment(_ICC, _PROFILE + b"\1\1" + facts.profile)] if facts.profile else []
    made = [*parts[:num_before], *exif, *profile, *parts[num_before:]]
    return START[:_SOI_BYTES] + b"".join(made) + END


def _segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(content) + 2).to_bytes(2) + content
