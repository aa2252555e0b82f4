"""GIF: blocks, and data after the trailer. Source: CompuServe, "Graphics Interchange Format, Version 89a"."""

import re
from collections.abc import Container, Generator, Iterator

import numpy as np
from PIL import Image

from ingest.images.files.hidden import has_pattern
from ingest.images.files.magic import is_text
from ingest.images.files.metadata import MAX_CHUNKS
from ingest.images.files.pieces import Kind, Piece, needed

_SCREEN_BYTES, _IMAGE_BYTES = 13, 10
_BACKGROUND = 11
"""Where the number of the colour is that disposed frames leave."""
_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_CONTROL, _COMMENT, _APPLICATION = 0xF9, 0xFE, 0xFF
_METADATA = (b"XMP DataXMP", b"ICCRGBG1012", b"MGK8BIM0000", b"MGKIPTC0000")
_SMALL = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
_NAME_BYTES = 11
_MAX_SMALL_BYTES = 64
_BLOCK = re.compile(rb"[!,;]")
_CONTROL_BYTES, _MAX_BITS = 4, 12
_MAX_PIXELS = 2**28
"""Limit of a frame, above that of a scan: damage may have made this a frame that no scan has decoded."""
_LOOP = b"NETSCAPE2.0\1"
_FED_BYTES = 32
"""Bytes that the decoder is given at a time, since it only says when it has enough."""


def pieces(encoded: bytes, num_seen: int) -> Iterator[Piece]:
    """Yield the parts of a GIF, the header last. num_seen: frames that are scanned. Bytes between blocks are skipped,
    as in Pillow."""
    offset = _SCREEN_BYTES + _table_bytes(encoded, 10)
    colours = encoded[_SCREEN_BYTES:offset]
    used = set(encoded[_BACKGROUND : _BACKGROUND + 1])
    index, control, has_loop, num_blocks = 0, b"", False, 0
    while offset < len(encoded) and num_blocks < MAX_CHUNKS:
        num_blocks += 1
        block = encoded[offset]
        if block == _TRAILER:
            offset += 1
            break
        if block == _EXTENSION:
            label = encoded[offset + 1 : offset + 2]
            content, last = _sub_blocks(encoded, offset + 2)
            kept = b""
            if label == bytes([_CONTROL]) and len(content) >= _CONTROL_BYTES:
                control = content[:_CONTROL_BYTES]
            elif label == bytes([_APPLICATION]) and content.startswith(_LOOP) and not has_loop and index < num_seen:
                loop = content[len(_LOOP) : _NAME_BYTES + 3].ljust(3, b"\0")
                kept = bytes([_EXTENSION, _APPLICATION, _NAME_BYTES, *_LOOP[:_NAME_BYTES], 3, 1, *loop[:2], 0])
                has_loop = True
            yield _extension(label, content, kept)
        elif block == _IMAGE:
            first = offset + _IMAGE_BYTES + _table_bytes(encoded, offset + 9) + 1
            packed, last = _sub_blocks(encoded, first)
            if index < num_seen:
                used |= yield from _image(encoded[offset:first], packed, colours, control)
            else:
                yield Piece(Kind.FRAMES, b"", last - offset)
            index, control = index + 1, b""
        else:
            next_block = _BLOCK.search(encoded, offset)
            last = next_block.start() if next_block else len(encoded)
            yield Piece(Kind.UNKNOWN_CHUNK, encoded[offset:last])
        offset = last
    yield Piece(Kind.TRAILING_DATA, encoded[offset:], kept=bytes([_TRAILER]))
    yield Piece(Kind.METADATA, kept=encoded[:_SCREEN_BYTES] + _only(used, colours))


def _image(head: bytes, packed: bytes, colours: bytes, control: bytes) -> Generator[Piece, None, set[int]]:
    """Yield the pieces of a frame, return the colours it uses. head: its block before the pixels."""
    width, height = int.from_bytes(head[5:7], "little"), int.from_bytes(head[7:9], "little")
    is_interlaced = bool(head[9:10] and head[9] & 0x40)
    is_sound = 0 < width * height <= _MAX_PIXELS and 1 <= head[-1] <= _MAX_BITS
    used, indices = _unpacked(packed, (width, height), head[-1], is_interlaced) if is_sound else (len(packed), None)
    blocks = b"".join(_block(packed[first : min(first + 255, used)]) for first in range(0, used, 255))
    shown = bytes([_EXTENSION, _CONTROL, _CONTROL_BYTES, *control, 0]) if control else b""
    numbers = set(range(256)) if indices is None else {number for number, n in enumerate(indices.histogram()) if n}
    of_frame = head[_IMAGE_BYTES:-1]
    kept = head[:_IMAGE_BYTES] + _only(numbers, of_frame) + head[-1:]
    yield Piece(Kind.PIXELS, packed, kept=shown + kept + blocks + b"\0")
    yield Piece(Kind.TRAILING_DATA, packed[used:])
    table = np.zeros((256, 4), np.uint8)
    values = np.frombuffer(of_frame or colours, np.uint8)
    table[: len(values) // 3, :3] = values[: len(values) // 3 * 3].reshape(-1, 3)
    if control and control[0] & 1:
        table[control[3], 3] = 1
    if indices is not None and len(values) and has_pattern(indices, table):
        yield Piece(Kind.HIDDEN_PIXELS, b"", len(packed))
    return set() if of_frame else numbers


def _only(used: Container[int], colours: bytes) -> bytes:
    """Return a table of colours in which those that are not used are black."""
    entries = (colours[first : first + 3] for first in range(0, len(colours), 3))
    return b"".join(entry if number in used else bytes(len(entry)) for number, entry in enumerate(entries))


def _unpacked(packed: bytes, size: tuple[int, int], bits: int, is_interlaced: bool) -> tuple[int, Image.Image | None]:
    """Return how many bytes the pixels need, to about `_FED_BYTES`, and the pixels; all and None for damaged ones."""
    image = Image.new("P", size)
    decoder = Image._getdecoder("P", "gif", (bits, is_interlaced, -1))
    decoder.setimage(image.im, (0, 0, *size))
    for first in range(0, len(packed), _FED_BYTES):
        num_read, fault = decoder.decode(_block(packed[first : first + _FED_BYTES]))
        if num_read < 0 or fault:
            return (len(packed), None) if fault else (min(first + _FED_BYTES, len(packed)), image)
    return len(packed), None


def _block(content: bytes) -> bytes:
    return bytes([len(content)]) + content


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


def _extension(label: bytes, content: bytes, kept: bytes) -> Piece:
    name = content[:_NAME_BYTES]
    is_application, is_small = label == bytes([_APPLICATION]), len(content) <= _MAX_SMALL_BYTES
    if label == bytes([_COMMENT]):
        return Piece(Kind.METADATA if is_text(content) else Kind.UNKNOWN_CHUNK, content)
    if is_application and name in _METADATA:
        return Piece(Kind.METADATA, content, kept=kept)
    if is_small and (label == bytes([_CONTROL]) or (is_application and name in _SMALL)):
        return Piece(Kind.METADATA, kept=kept)
    return Piece(Kind.UNKNOWN_CHUNK, content, kept=kept)


def cleaned(encoded: bytes, num_frames: int) -> bytes:
    """Write the file again with its first frames, how each is shown, and how often they are repeated."""
    *parts, header = needed(pieces(encoded, num_frames))
    return b"".join([header, *parts])
