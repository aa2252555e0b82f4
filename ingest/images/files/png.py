"""PNG and APNG: chunks, and data after IEND. Source of the names: W3C, "Portable Network Graphics (PNG) Specification
(Third Edition)", and its list of extensions."""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from PIL.PngImagePlugin import MAX_TEXT_MEMORY

from ingest.images.files.magic import is_text
from ingest.images.files.metadata import PNG_MAGIC, TEXT_CHUNKS, KeptFacts, chunk_text, png_chunks, raw_profile
from ingest.images.files.pieces import DamagedError, Kind, Piece, checked_bytes, needed
from ingest.images.files.profiles import profile_pieces

_METADATA_CHUNKS = frozenset([b"eXIf", b"caBX"])
_PROFILE = b"iCCP"
_COLOURS = {b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"cICP": 4, b"PLTE": 768, b"tRNS": 256}
"""Chunks that decide how colours are shown -> the most bytes that they have."""
_LARGEST = _COLOURS | {
    **{b"IHDR": 13, b"sBIT": 4, b"mDCV": 24, b"mDCv": 24, b"cLLI": 8, b"cLLi": 8, b"bKGD": 6, b"hIST": 512, b"pHYs": 9},
    **{b"tIME": 7, b"acTL": 8, b"oFFs": 9, b"gIFg": 4, b"sTER": 1, b"iDOT": 64, b"vpAg": 9, b"orNT": 1},
}
"""Known chunks of few bytes -> the most that all of one name have."""
_PALETTE = 3
_OPACITY_BYTES = {b"\0": 2, b"\2": 6, bytes([_PALETTE]): 256}
"""Kind of colour -> the most bytes of tRNS that are read."""
_CONTROL_BYTES = 26
_NUMBER_BYTES = 4
"""Bytes before the data of a later frame."""
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Left, top, and steps to the right and down, of each pass of an interlaced picture."""


@dataclass
class _Frame:
    """A frame as it is stored."""

    size: bytes
    """Width and height, each in 4 bytes."""

    packed: list[bytes] = field(default_factory=list)


def pieces(encoded: bytes, num_seen: int) -> Iterator[Piece]:
    """Yield the parts of a PNG. num_seen: frames that are scanned, including the first picture."""
    chunks = list(png_chunks(encoded))
    num_controls, frame, index, last, before = _num_controls(chunks, num_seen), _Frame(b""), 0, len(PNG_MAGIC), b""
    header, control, number, is_animated = b"", b"", 0, False
    num_bytes, room = Counter[bytes](), MAX_TEXT_MEMORY
    for name, first, end in chunks:
        content, last = encoded[first:end], min(end + 4, len(encoded))
        if name == b"IEND":
            yield Piece(Kind.UNKNOWN_CHUNK, content)
            break
        if name == b"fcTL":
            if frame.packed:
                yield from _pixels(frame, header, index, number)
                number, index, frame = number + (is_animated and 0 < index < num_seen), index + 1, _Frame(content[4:12])
            elif index:
                index, frame = index + 1, _Frame(content[4:12])
            is_kept = is_animated and index < num_seen
            control = _chunk(name, number.to_bytes(4) + content[_NUMBER_BYTES:_CONTROL_BYTES]) if is_kept else b""
            number += is_kept
            yield Piece(Kind.UNKNOWN_CHUNK, content[_CONTROL_BYTES:], kept=control)
        elif name == b"IDAT" and index == 0 and (not frame.packed or before == b"IDAT"):
            frame.packed.append(content)
        elif name == b"fdAT":
            if 0 < index < num_seen:
                frame.packed.append(content[_NUMBER_BYTES:])
            else:
                yield Piece(Kind.FRAMES, b"", len(content))
        elif name in TEXT_CHUNKS or name == _PROFILE:
            held, num_held = _unpacked(name, content, room)
            room = max(0, room - num_held)
            yield from held
            if name != b"tEXt":  # badly packed data, or data after the packed text
                yield Piece(Kind.METADATA, content)
        elif name in _METADATA_CHUNKS:
            yield Piece(Kind.METADATA, content)
        else:
            is_first = name not in num_bytes
            num_bytes[name] += len(content)
            kept = b""
            if name == b"IHDR" and is_first:
                header, frame.size, kept = content[: _LARGEST[name]], content[:8], PNG_MAGIC + _chunk(name, content)
            elif name == b"acTL" and is_first and not frame.packed and len(content) == _LARGEST[name] and num_controls:
                kept, is_animated = _chunk(name, num_controls.to_bytes(4) + content[4:]), True
            is_known = num_bytes[name] <= _LARGEST.get(name, 0)
            is_known &= name != b"PLTE" or header[9:10] == bytes([_PALETTE])
            if name in _COLOURS and is_known and is_first:
                most = _OPACITY_BYTES.get(header[9:10], 0) if name == b"tRNS" else len(content)
                kept = _chunk(name, content[:most]) if most else b""
            yield Piece(Kind.METADATA if is_known else Kind.UNKNOWN_CHUNK, content, kept=kept)
        before = name
    yield from _pixels(frame, header, index, number)
    yield Piece(Kind.TRAILING_DATA, encoded[last:])


def _num_controls(chunks: Iterable[tuple[bytes, int, int]], num_seen: int) -> int:
    """Count the chunks that say how one of the first frames is shown."""
    index = num_controls = 0
    has_pixels = False
    for name, _, _ in chunks:
        has_pixels |= name == b"IDAT"
        if name == b"fcTL":
            index += has_pixels
            num_controls += index < num_seen
    return num_controls


def _pixels(frame: _Frame, header: bytes, index: int, number: int) -> Iterator[Piece]:
    """Yield the pixels of a frame, and what is packed with them; DamagedError. number: in the animation."""
    if not frame.packed:
        return
    packed = b"".join(frame.packed)
    num_needed = _pixel_bytes(frame.size, header)
    used, num_surplus = checked_bytes(packed, num_needed, index)
    if num_surplus < 0:
        raise DamagedError("the pixels are truncated", index)
    kept = packed
    if used < len(packed):
        kept = zlib.compress(zlib.decompressobj().decompress(packed, num_needed))
    kept = _chunk(b"fdAT", number.to_bytes(4) + kept) if index else _chunk(b"IDAT", kept)
    yield Piece(Kind.PIXELS, packed[:used], kept=kept)
    yield Piece(Kind.TRAILING_DATA, packed[used:])


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


def _unpacked(name: bytes, content: bytes, room: int) -> tuple[list[Piece], int]:
    """Unpack a text or colour profile and return its size; left packed if it exceeds `room`."""
    keyword, _, value = content.partition(b"\0")
    held = chunk_text(b"zTXt" if name == _PROFILE else name, value, room)
    if held is None:
        return [Piece(Kind.UNKNOWN_CHUNK, content)], 0
    if name == _PROFILE:
        return list(profile_pieces(held)), len(held)
    profile = raw_profile(keyword, held)
    return [Piece(Kind.METADATA if profile or is_text(held) else Kind.UNKNOWN_CHUNK, profile or held)], len(held)


def cleaned(encoded: bytes, num_frames: int, facts: KeptFacts, colours: set[int] | None) -> bytes:
    """Write the file again with its first frames. Packed pixels are copied, unless more than the pixels is packed.
    colours: the entries of the palette that are used; None to keep all."""
    parts = needed(pieces(encoded, num_frames))
    if colours is not None:
        parts = [_with_colours(part, colours) for part in parts]
    profile = [_chunk(_PROFILE, b"icc\0\0" + zlib.compress(facts.profile))] if facts.profile else []
    exif = [_chunk(b"eXIf", facts.exif)] if facts.exif else []
    return b"".join([*parts[:1], *profile, *exif, *parts[1:], _chunk(b"IEND", b"")])


def is_deep(encoded: bytes) -> bool:
    """Return whether each channel has 16 bits, of which viewers show eight."""
    return encoded[24:25] == b"\x10"


def _with_colours(part: bytes | memoryview, used: set[int]) -> bytes | memoryview:
    """Return a chunk; entries of a palette that are not used become black and opaque."""
    name = bytes(part[4:8])
    num_bytes, unused = {b"PLTE": (3, b"\0\0\0"), b"tRNS": (1, b"\xff")}.get(name, (0, b""))
    if not num_bytes:
        return part
    content = bytes(part[8:-4])
    entries = [content[first : first + num_bytes] for first in range(0, len(content), num_bytes)]
    return _chunk(name, b"".join(entry if number in used else unused for number, entry in enumerate(entries)))


def _chunk(name: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4) + name + content + zlib.crc32(name + content).to_bytes(4)
