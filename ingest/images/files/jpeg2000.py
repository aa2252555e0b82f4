"""JPEG 2000: the boxes of a file, the parts of its codestream, and what it takes to decode that.

Source: ISO/IEC 15444-1, annexes A (codestream) and I (boxes).
"""

from collections.abc import Iterator
from math import prod

from ingest.images.files.boxes import boxes, number_at
from ingest.images.files.pieces import (
    EMBEDDED_IMAGE,
    METADATA,
    PIXELS,
    TRAILING_DATA,
    UNKNOWN_CHUNK,
    DamagedError,
    Piece,
)

_CODESTREAM = b"\xff\x4f\xff\x51"
_SIZE, _CODING, _CODING_OF_COMPONENT, _COMMENT = 0x51, 0x52, 0x53, 0x64
_TILE_PART, _DATA, _END = 0x90, 0x93, 0xD9
_NEEDED = frozenset([_SIZE, _CODING, _CODING_OF_COMPONENT, 0x50, *range(0x55, 0x59), *range(0x5C, 0x62), 0x63])
"""Segments that decoding reads: sizes, coding, quantisation, order and lengths of packets."""
_KNOWN_BOXES = frozenset([b"jP  ", b"ftyp", b"jp2h"])
_METADATA_BOXES = frozenset([b"rreq", b"xml ", b"uuid", b"uinf", b"jp2i"])
_MAX_KNOWN_BYTES = 2**14

_MAX_TILES, _MAX_LAYERS, _LEAST_BITS = 2**12, 2**5, 10
"""Limits of tiles, layers, and the sides of blocks and precincts, as the sum of their logarithms: each takes memory and
time, of which a small file could ask for gigabytes. Encoders make blocks of 10 to 12, precincts of 14 or more, and up
to 20 layers."""


def is_usual(encoded: bytes, size: tuple[int, int]) -> bool:
    """Return whether a picture is divided as encoders do, and as large as the file says before: only then the memory to
    decode it follows from its pixels."""
    for marker, start, end in _segments(encoded, *_place(encoded)):
        segment = encoded[start:end]
        if marker == _SIZE:
            width, height, left, upper = (number_at(segment, at, 4) for at in range(4, 20, 4))
            if (width - left, height - upper) != size or _num_tiles(segment) > _MAX_TILES:
                return False
        elif marker in (_CODING, _CODING_OF_COMPONENT):
            is_whole = marker == _CODING
            style, at = number_at(segment, 2 if is_whole else 3, 1), 7 if is_whole else 4
            blocks = number_at(segment, at + 1, 1) + number_at(segment, at + 2, 1) + 4
            precincts = segment[at + 5 : at + 6 + number_at(segment, at, 1)] if style & 1 else b""
            bits = min([blocks, *((side & 15) + (side >> 4) for side in precincts)])
            if bits < _LEAST_BITS or (is_whole and number_at(segment, 4, 2) > _MAX_LAYERS):
                return False
    return True


def _num_tiles(segment: bytes) -> int:
    width, height, _, _, across, down, left, upper = (number_at(segment, at, 4) for at in range(4, 36, 4))
    return prod(-(-max(0, last) // max(1, side)) for last, side in ((width - left, across), (height - upper, down)))


def pieces(encoded: bytes) -> Iterator[Piece]:
    """Yield the parts of a file. DamagedError if its codestream is cut."""
    first, last = _place(encoded)
    end = 0 if first else last
    for box in boxes(encoded, 0, len(encoded)) if first else ():
        end = box.last
        content = encoded[box.first : box.last]
        if box.first == first:
            continue
        if box.name == b"jp2c":
            yield Piece(EMBEDDED_IMAGE, num_bytes=len(content))
        elif box.name in _KNOWN_BOXES and len(content) <= _MAX_KNOWN_BYTES:
            yield Piece(METADATA, content)
        else:
            yield Piece(METADATA if box.name in _METADATA_BOXES else UNKNOWN_CHUNK, content)
    marker = offset = num_tiles = 0
    tiles = set[int]()
    for marker, start, offset in _segments(encoded, first, last):
        if marker == _DATA:
            yield Piece(PIXELS, encoded[start:offset])
        elif marker == _TILE_PART:
            tiles.add(number_at(encoded, start + 2, 2))
        elif marker != _END:
            num_tiles = _num_tiles(encoded[start:offset]) if marker == _SIZE else num_tiles
            kind = METADATA if marker in _NEEDED or marker == _COMMENT else UNKNOWN_CHUNK
            yield Piece(kind, encoded[start:offset])
    if marker not in (_END, _DATA) or len(tiles) < num_tiles:
        raise DamagedError("the codestream is cut")
    yield Piece(TRAILING_DATA, encoded[offset:last])
    yield Piece(TRAILING_DATA, encoded[end:])


def _place(encoded: bytes) -> tuple[int, int]:
    """Return where the codestream that is shown begins and ends."""
    if encoded.startswith(_CODESTREAM):
        return 0, len(encoded)
    shown = next((box for box in boxes(encoded, 0, len(encoded)) if box.name == b"jp2c"), None)
    return (shown.first, shown.last) if shown else (len(encoded), len(encoded))


def _segments(encoded: bytes, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield the marker of each segment, and where its content begins, with its length, and ends. They end where one is
    cut or makes no sense. The data of a tile part has no length of its own."""
    offset, part_ends = first + 2, last
    while offset + 2 <= last and encoded[offset] == 0xFF:
        marker, start = encoded[offset + 1], offset + 2
        if marker == _END:
            yield marker, start, start
            return
        if marker == _DATA:
            has_end = encoded[last - 2 : last] == bytes([0xFF, _END])
            offset = part_ends - 2 * (part_ends == last and has_end)
        else:
            offset = start + max(2, number_at(encoded, start, 2))
        if offset > last or (marker == _DATA and offset < start):
            return
        if marker == _TILE_PART:
            num_bytes = number_at(encoded, start + 4, 4)
            part_ends = start - 2 + num_bytes if num_bytes else last
            if part_ends > last:
                return
        yield marker, start, offset
