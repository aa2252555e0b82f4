"""JPEG 2000: the boxes of a file, the parts of its codestream, and what it takes to decode that. Source: ISO/IEC
15444-1, annexes A (codestream) and I (boxes)."""

from collections import Counter
from collections.abc import Iterator
from math import prod

from ingest.images.files.boxes import boxes, number_at
from ingest.images.files.magic import is_text
from ingest.images.files.metadata import EXIF_MAGIC, IPTC_MAGIC, XMP_OPENING, file_metadata
from ingest.images.files.pieces import DamagedError, Kind, Piece, unclaimed

_CODESTREAM = b"\xff\x4f\xff\x51"
_SIZE, _CODING, _CODING_OF_COMPONENT, _COMMENT, _PACKED_HEADERS = 0x51, 0x52, 0x53, 0x64, (0x60, 0x61)
_TILE_PART, _DATA, _END = 0x90, 0x93, 0xD9
_SETTINGS = frozenset([_SIZE, _CODING, _CODING_OF_COMPONENT, 0x50, *range(0x5C, 0x60), 0x63])
"""Segments of coding, quantisation and order, each of which a header has once for each channel at most."""
_MAX_SETTINGS, _MAX_SETTINGS_BYTES = 4, 256
_LENGTHS, _SPARE_LENGTHS_BYTES, _LEAST_PIXELS_BYTES = (0x55, 0x57, 0x58), 256, 8
"""Segments with the lengths of packets; how many bytes they have, and of how many bytes of pixels each more one is."""
_KNOWN_BOXES = {b"jP  ": 4, b"ftyp": 256, b"rreq": 256, b"uinf": 256, b"jp2i": 256}
"""Boxes that a file has once -> the most bytes that they have."""
_HEADER_BOXES = frozenset([b"ihdr", b"bpcc", b"colr", b"pclr", b"cmap", b"cdef", b"res "])
_MAX_HEADER_BYTES, _MAX_UUID_BYTES, _ID_BYTES = 2**14, 2**16, 16
_XMP, _EXIF, _IPTC, _GEOTIFF = (
    bytes.fromhex("be7acfcb97a942e89c71999491e3afac"),
    b"JpgTiffExif->JP2",
    bytes.fromhex("33c7a4d2b81d4723a0baf1a3e097ad38"),
    bytes.fromhex("b14bf8bd083d4b43a5ae8cd7d5a6ce03"),
)
"""What the content of a box `uuid` is, in its first bytes."""

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
    end, names = 0 if first else last, set[bytes]()
    for box in boxes(encoded, 0, len(encoded)) if first else ():
        end = box.last
        content = encoded[box.first : box.last]
        if box.first == first:
            continue
        if box.name == b"jp2c":
            yield Piece(Kind.EMBEDDED_IMAGE, num_bytes=len(content))
        elif box.name == b"jp2h" and box.name not in names and len(content) <= _MAX_HEADER_BYTES:
            known = [(part.start, part.last) for part in boxes(content, 0, len(content)) if part.name in _HEADER_BOXES]
            yield from (Piece(Kind.METADATA, content[slice(*part)]) for part in known)
            yield from (Piece(Kind.UNKNOWN_CHUNK, content[slice(*part)]) for part in unclaimed(known, len(content)))
        else:
            is_known = _is_metadata(box.name, content)
            is_known |= box.name not in names and len(content) <= _KNOWN_BOXES.get(box.name, -1)
            yield Piece(Kind.METADATA if is_known else Kind.UNKNOWN_CHUNK, content)
        names.add(box.name)
    marker = offset = num_tiles = 0
    tiles, settings = set[int](), Counter[int]()
    lengths_room = _SPARE_LENGTHS_BYTES + (last - first) // _LEAST_PIXELS_BYTES
    for marker, start, offset in _segments(encoded, first, last):
        if marker == _DATA:
            yield Piece(Kind.PIXELS, encoded[start:offset])
        elif marker == _TILE_PART:
            tiles.add(number_at(encoded, start + 2, 2))
            settings.clear()
        elif marker != _END:
            num_tiles = _num_tiles(encoded[start:offset]) if marker == _SIZE else num_tiles
            settings[marker] += 1
            lengths_room -= (offset - start) * (marker in _LENGTHS)
            is_short = settings[marker] <= _MAX_SETTINGS and offset - start <= _MAX_SETTINGS_BYTES
            is_known = is_short if marker in _SETTINGS else lengths_room >= 0 if marker in _LENGTHS else False
            is_known |= marker == _COMMENT or marker in _PACKED_HEADERS
            yield Piece(Kind.METADATA if is_known else Kind.UNKNOWN_CHUNK, encoded[start:offset])
    if marker not in (_END, _DATA) or len(tiles) < num_tiles:
        raise DamagedError("the codestream is cut")
    yield Piece(Kind.TRAILING_DATA, encoded[offset:last])
    yield Piece(Kind.TRAILING_DATA, encoded[end:])


def _is_metadata(name: bytes, content: bytes) -> bool:
    kind = content[:_ID_BYTES]
    if name == b"xml " or (name == b"uuid" and kind == _XMP):
        return is_text(content[_ID_BYTES * (name == b"uuid") :])
    return name == b"uuid" and kind in (_EXIF, _IPTC, _GEOTIFF) and len(content) <= _MAX_UUID_BYTES


def metadata(encoded: bytes) -> set[str]:
    """Return the kinds in the boxes with EXIF, IPTC and XML, those of XMP aside."""
    kinds, blocks = set[str](), list[bytes]()
    for box in boxes(encoded, 0, len(encoded)) if not encoded.startswith(_CODESTREAM) else ():
        content = encoded[box.first : min(box.last, box.first + _MAX_UUID_BYTES)]
        kind, block = content[:_ID_BYTES], content[_ID_BYTES:]
        if box.name == b"uuid" and kind == _EXIF:
            blocks.append(EXIF_MAGIC + block)
        elif box.name == b"uuid" and kind == _IPTC:
            blocks.append(IPTC_MAGIC + bytes(2) + len(block).to_bytes(4) + block)
        elif box.name == b"xml " and content.strip(b"\0 \t\r\n") and XMP_OPENING not in content:
            kinds.add("description")
    return kinds | file_metadata(b"".join(blocks))


def _place(encoded: bytes) -> tuple[int, int]:
    """Return where the codestream that is shown begins and ends."""
    if encoded.startswith(_CODESTREAM):
        return 0, len(encoded)
    shown = next((box for box in boxes(encoded, 0, len(encoded)) if box.name == b"jp2c"), None)
    return (shown.first, shown.last) if shown else (len(encoded), len(encoded))


def _segments(encoded: bytes, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield the marker of each segment, where its content begins, with its length, and ends; up to a cut one."""
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
