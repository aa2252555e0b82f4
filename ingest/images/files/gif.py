"""GIF: blocks, and what lies behind the trailer.

Source: CompuServe, "Graphics Interchange Format, Version 89a".
"""

import re
from collections.abc import Iterator

from ingest.images.files.magic import is_text
from ingest.images.files.pieces import METADATA, PIXELS, Piece
from ingest.images.files.unseen_kinds import FRAMES, TRAILING_DATA, UNKNOWN_CHUNK

_SCREEN_BYTES, _IMAGE_BYTES = 13, 10
_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_CONTROL, _COMMENT, _APPLICATION = 0xF9, 0xFE, 0xFF
_METADATA = (b"XMP DataXMP", b"ICCRGBG1012", b"MGK8BIM0000", b"MGKIPTC0000")
_SMALL = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
_NAME_BYTES = 11
_MAX_SMALL_BYTES = 64
_BLOCK = re.compile(rb"[!,;]")


def pieces(encoded: bytes, num_seen: int) -> Iterator[Piece]:
    """num_seen: frames that are scanned. Bytes between blocks are passed over, as Pillow does."""
    at = _SCREEN_BYTES + _table_bytes(encoded, 10)
    index, pixels = 0, list[bytes]()
    while at < len(encoded):
        block = encoded[at]
        if block == _TRAILER:
            at += 1
            break
        if block == _EXTENSION:
            content, last = _sub_blocks(encoded, at + 2)
            yield _extension(encoded[at + 1 : at + 2], content)
        elif block == _IMAGE:
            content, last = _sub_blocks(encoded, at + _IMAGE_BYTES + _table_bytes(encoded, at + 9) + 1)
            if index < num_seen:
                pixels.append(content)
            else:
                yield Piece(FRAMES, b"", last - at)
            index += 1
        else:
            found = _BLOCK.search(encoded, at)
            last = found.start() if found else len(encoded)
            yield Piece(UNKNOWN_CHUNK, encoded[at:last])
        at = last
    yield Piece(PIXELS, b"".join(pixels))
    yield Piece(TRAILING_DATA, encoded[at:])


def _table_bytes(encoded: bytes, at: int) -> int:
    """How many bytes the colour table has of which the flags stand at `at`."""
    flags = encoded[at] if at < len(encoded) else 0
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _sub_blocks(encoded: bytes, at: int) -> tuple[bytes, int]:
    """What the blocks from `at` on hold together, and where they end."""
    held = []
    while at < len(encoded) and encoded[at]:
        held.append(encoded[at + 1 : at + 1 + encoded[at]])
        at += 1 + encoded[at]
    return b"".join(held), min(at + 1, len(encoded))


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
