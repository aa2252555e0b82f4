"""GIF: blocks, and data after the trailer.

Source: CompuServe, "Graphics Interchange Format, Version 89a".
"""

import re
from collections.abc import Iterator

from ingest.images.files.magic import is_text
from ingest.images.files.metadata import Cleaned
from ingest.images.files.pieces import FRAMES, METADATA, PIXELS, TRAILING_DATA, UNKNOWN_CHUNK, Piece

_SCREEN_BYTES, _IMAGE_BYTES = 13, 10
_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_CONTROL, _COMMENT, _APPLICATION = 0xF9, 0xFE, 0xFF
_METADATA = (b"XMP DataXMP", b"ICCRGBG1012", b"MGK8BIM0000", b"MGKIPTC0000")
_SMALL = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
_NAME_BYTES = 11
_MAX_SMALL_BYTES = 64
_BLOCK = re.compile(rb"[!,;]")


def pieces(encoded: bytes, num_seen: int) -> Iterator[Piece]:
    """Yield the parts of a GIF. num_seen: frames that are scanned. Bytes between blocks are skipped, as in Pillow."""
    offset = _SCREEN_BYTES + _table_bytes(encoded, 10)
    index, pixels = 0, list[bytes]()
    while offset < len(encoded):
        block = encoded[offset]
        if block == _TRAILER:
            offset += 1
            break
        if block == _EXTENSION:
            content, last = _sub_blocks(encoded, offset + 2)
            yield _extension(encoded[offset + 1 : offset + 2], content)
        elif block == _IMAGE:
            content, last = _sub_blocks(encoded, offset + _IMAGE_BYTES + _table_bytes(encoded, offset + 9) + 1)
            if index < num_seen:
                pixels.append(content)
            else:
                yield Piece(FRAMES, b"", last - offset)
            index += 1
        else:
            next_block = _BLOCK.search(encoded, offset)
            last = next_block.start() if next_block else len(encoded)
            yield Piece(UNKNOWN_CHUNK, encoded[offset:last])
        offset = last
    yield Piece(PIXELS, b"".join(pixels))
    yield Piece(TRAILING_DATA, encoded[offset:])


def _table_bytes(encoded: bytes, offset: int) -> int:
    """Return the size of the colour table whose flags are at `offset`."""
    flags = encoded[offset] if offset < len(encoded) else 0
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _sub_blocks(encoded: bytes, offset: int) -> tuple[bytes, int]:
    """Join the blocks from `offset` on, and return where they end."""
    held = []
    while offset < len(encoded) and encoded[offset]:
        held.append(encoded[offset + 1 : offset + 1 + encoded[offset]])
        offset += 1 + encoded[offset]
    return b"".join(held), min(offset + 1, len(encoded))


def _extension(label: bytes, content: bytes) -> Piece:
    name = content[:_NAME_BYTES]
    is_application, is_small = label == bytes([_APPLICATION]), len(content) <= _MAX_SMALL_BYTES
    if label == bytes([_COMMENT]):
        return Piece(METADATA if is_text(content) else UNKNOWN_CHUNK, content)
    if is_application and name in _METADATA:
        return Piece(METADATA, content)
    if is_small and (label == bytes([_CONTROL]) or (is_application and name in _SMALL)):
        return Piece(METADATA, b"")
    return Piece(UNKNOWN_CHUNK, content)


_CONTROL_BYTES = 4
_LOOP = b"NETSCAPE2.0"


def cleaned(encoded: bytes, num_frames: int) -> Cleaned:
    """Write the file again with its first frames, how each is shown, and how often they are repeated. Never usual:
    decoders differ in how they read damaged blocks."""
    offset = _SCREEN_BYTES + _table_bytes(encoded, 10)
    parts, index, has_end, has_loop = [encoded[:offset]], 0, False, False
    while offset < len(encoded) and index < num_frames and not has_end:
        block = encoded[offset]
        if block == _TRAILER:
            has_end, last = True, offset + 1
        elif block == _EXTENSION:
            content, last = _sub_blocks(encoded, offset + 2)
            label = encoded[offset + 1]
            if label == _CONTROL and len(content) >= _CONTROL_BYTES:
                parts.append(bytes([_EXTENSION, _CONTROL, _CONTROL_BYTES, *content[:_CONTROL_BYTES], 0]))
            elif label == _APPLICATION and content.startswith(_LOOP) and content[11:12] == b"\1" and not has_loop:
                loop = content[_NAME_BYTES : _NAME_BYTES + 3].ljust(3, b"\0")
                parts.append(bytes([_EXTENSION, _APPLICATION, _NAME_BYTES, *_LOOP, 3, *loop, 0]))
                has_loop = True
        elif block == _IMAGE:
            first = offset + _IMAGE_BYTES + _table_bytes(encoded, offset + 9) + 1
            last = _sub_blocks(encoded, first)[1]
            parts.append(encoded[offset:last])
            index += 1
        else:
            next_block = _BLOCK.search(encoded, offset)
            last = next_block.start() if next_block else len(encoded)
        offset = last
    return Cleaned(b"".join([*parts, bytes([_TRAILER])]), is_usual=False)
