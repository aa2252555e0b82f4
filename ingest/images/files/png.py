"""PNG and APNG: chunks, and data after IEND.

Source of the names: W3C, "Portable Network Graphics (PNG) Specification (Third Edition)", and its list of extensions.
"""

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from PIL.PngImagePlugin import MAX_TEXT_MEMORY

from ingest.images.files.magic import is_text
from ingest.images.files.metadata import PNG_MAGIC, Cleaned, KeptFacts, chunk_text, png_chunks, raw_profile
from ingest.images.files.pieces import FRAMES, METADATA, PIXELS, TRAILING_DATA, UNKNOWN_CHUNK, Piece, used_bytes

_METADATA_CHUNKS = frozenset([b"eXIf", b"caBX"])
_TEXTS = frozenset([b"tEXt", b"zTXt", b"iTXt"])
_PROFILE = b"iCCP"
_SMALL = frozenset(
    b"IHDR PLTE tRNS cHRM gAMA sBIT sRGB cICP mDCV mDCv cLLI cLLi bKGD hIST pHYs sPLT tIME acTL oFFs pCAL sCAL "
    b"gIFg gIFx gIFt sTER iDOT vpAg orNT".split()
)
_MAX_SMALL_BYTES = 1024
"""Limit of all chunks of one name; the largest legitimate one is a palette, 768 bytes."""
_CONTROL_BYTES = 26
_NUMBER_BYTES = 4
"""Bytes before the data of a later frame."""
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Left, top, and steps to the right and down, of each pass of an interlaced picture."""


@dataclass
class _Frame:
    """Packed data of a frame. size: width and height as stored, each in 4 bytes."""

    size: bytes
    packed: list[bytes] = field(default_factory=list)


def pieces(encoded: bytes, num_seen: int) -> Iterator[Piece]:
    """Yield the parts of a PNG. num_seen: frames that are scanned, including the first picture."""
    frames, index, last, before = [_Frame(b"")], 0, len(PNG_MAGIC), b""
    header = b""
    num_bytes, room = Counter[bytes](), MAX_TEXT_MEMORY
    for name, first, end in png_chunks(encoded):
        content, last = encoded[first:end], min(end + 4, len(encoded))
        if name == b"IEND":
            yield Piece(UNKNOWN_CHUNK, content)
            break
        if name == b"fcTL":
            index += bool(frames[0].packed)
            if index:
                frames.append(_Frame(content[4:12]))
            yield Piece(UNKNOWN_CHUNK, content[_CONTROL_BYTES:])
        elif name == b"IDAT" and (not frames[0].packed or before == b"IDAT"):
            frames[0].packed.append(content)
        elif name == b"fdAT":
            if 0 < index < num_seen:
                frames[-1].packed.append(content[_NUMBER_BYTES:])
            else:
                yield Piece(FRAMES, b"", len(content))
        elif name in _TEXTS or name == _PROFILE:
            held, num_held = _unpacked(name, content, room)
            room = max(0, room - num_held)
            yield held
            if name != b"tEXt":  # badly packed data, or data after the packed text
                yield Piece(METADATA, content)
        elif name in _METADATA_CHUNKS:
            yield Piece(METADATA, content)
        else:
            num_bytes[name] += len(content)
            if name not in _SMALL or num_bytes[name] > _MAX_SMALL_BYTES:
                yield Piece(UNKNOWN_CHUNK, content)
            if name == b"IHDR" and not frames[0].packed:
                header, frames[0].size = content, content[:8]
        before = name
    for frame in frames:
        packed = b"".join(frame.packed)
        used = used_bytes(packed, _pixel_bytes(frame.size, header))
        yield Piece(PIXELS, packed[:used])
        yield Piece(TRAILING_DATA, packed[used:])
    yield Piece(TRAILING_DATA, encoded[last:])


def _pixel_bytes(size: bytes, header: bytes) -> int:
    """Return the size of all rows of a frame, each with the byte that names its filter."""
    width, height = int.from_bytes(size[:4]), int.from_bytes(size[4:8])
    depth, colour, interlacing = header[8:9], header[9:10], header[12:13]
    bits = int.from_bytes(depth) * _CHANNELS.get(int.from_bytes(colour), 1)
    num_bytes = 0
    for left, top, right, down in _PASSES if interlacing == b"\1" else ((0, 0, 1, 1),):
        columns, rows = max(0, -((left - width) // right)), max(0, -((top - height) // down))
        num_bytes += rows * (1 + -(-columns * bits // 8)) if columns else 0
    return num_bytes


def _unpacked(name: bytes, content: bytes, room: int) -> tuple[Piece, int]:
    """Unpack a text or colour profile and return its size; left packed if it exceeds `room`."""
    keyword, _, value = content.partition(b"\0")
    held = chunk_text(b"zTXt" if name == _PROFILE else name, value, room)
    if held is None:
        return Piece(UNKNOWN_CHUNK, content), 0
    profile = held if name == _PROFILE else raw_profile(keyword, held)
    return Piece(METADATA if profile or is_text(held) else UNKNOWN_CHUNK, profile or held), len(held)


_COLOUR_BYTES = {b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"cICP": 4, b"PLTE": 768, b"tRNS": 256}
"""Chunks that decide how colours are shown -> the most bytes that they have."""
_HEADER_BYTES = 13


def cleaned(encoded: bytes, num_frames: int, facts: KeptFacts) -> Cleaned:
    """Write the file again with its first frames. Packed pixels are copied, unless more than the pixels is packed."""
    colours, names = dict[bytes, bytes](), list[bytes]()
    header, num_loops, frames, controls = b"", b"", [_Frame(b"")], list[tuple[int, bytes]]()
    for name, first, end in png_chunks(encoded):
        content = encoded[first:end]
        names.append(name)
        if name == b"IEND":
            break
        if name == b"IHDR":
            header, frames[0].size = header or content[:_HEADER_BYTES], frames[0].size or content[:8]
        elif name == b"acTL":
            num_loops = content[4:8]
        elif name == b"fcTL":
            if frames[0].packed:
                frames.append(_Frame(content[4:12]))
            controls.append((len(frames) - 1, content[_NUMBER_BYTES:_CONTROL_BYTES]))
        elif name == b"IDAT":
            frames[0].packed.append(content)
        elif name == b"fdAT" and len(frames) > 1:
            frames[-1].packed.append(content[_NUMBER_BYTES:])
        elif name in _COLOUR_BYTES and len(content) <= _COLOUR_BYTES[name]:
            colours.setdefault(name, content)
    frames, controls = frames[:num_frames], [control for control in controls if control[0] < num_frames]
    if facts.profile:
        colours[b"iCCP"] = b"icc\0\0" + zlib.compress(facts.profile)
    order = sorted(colours, key=lambda name: (name in (b"PLTE", b"tRNS"), name == b"tRNS"))  # as the standard has it
    parts = [PNG_MAGIC, _chunk(b"IHDR", header), *(_chunk(name, colours[name]) for name in order)]
    parts += [_chunk(b"eXIf", facts.exif)] if facts.exif else []
    is_animated = len(controls) > 0 and len(num_loops) == _NUMBER_BYTES
    if is_animated:
        parts.append(_chunk(b"acTL", len(controls).to_bytes(4) + num_loops))
    number, of_frame, is_usual = 0, dict(controls), len(frames) == 1 and not controls and _is_usual(names)
    for index, frame in enumerate(frames):
        if is_animated and index in of_frame:
            parts.append(_chunk(b"fcTL", number.to_bytes(4) + of_frame[index]))
            number += 1
        packed = b"".join(frame.packed)
        num_pixel_bytes = _pixel_bytes(frame.size, header)
        if used_bytes(packed, num_pixel_bytes) < len(packed):
            try:
                packed = zlib.compress(zlib.decompressobj().decompress(packed, num_pixel_bytes))
            except zlib.error:
                is_usual = False
        parts.append(_chunk(b"fdAT", number.to_bytes(4) + packed) if index else _chunk(b"IDAT", packed))
        number += bool(index)
    parts.append(_chunk(b"IEND", b""))
    return Cleaned(b"".join(parts), is_usual)


def _is_usual(names: list[bytes]) -> bool:
    """Return whether the pixels are in one run of chunks, and what decides about colours comes before, once."""
    if b"IDAT" not in names:
        return False
    first = names.index(b"IDAT")
    last = next((number for number in range(first, len(names)) if names[number] != b"IDAT"), len(names))
    return (
        names[0] == b"IHDR"
        and all(names[:first].count(name) <= 1 for name in [b"IHDR", b"acTL", *_COLOUR_BYTES])
        and not {b"IHDR", b"IDAT", b"acTL", *_COLOUR_BYTES} & set(names[last:])
        and names[-1] == b"IEND"
    )


def _chunk(name: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4) + name + content + zlib.crc32(name + content).to_bytes(4)
