"""PNG and APNG: chunks, and what lies behind IEND.

Source of the names: W3C, "Portable Network Graphics (PNG) Specification (Third Edition)", and its list of extensions.
"""

from collections import Counter
from collections.abc import Iterator

from PIL.PngImagePlugin import MAX_TEXT_MEMORY

from ingest.magic import is_text
from ingest.metadata import PNG_MAGIC, chunk_text, png_chunks, raw_profile
from ingest.unseen.pieces import FRAMES, METADATA, PIXELS, TRAILING_DATA, UNKNOWN_CHUNK, Piece

_METADATA_CHUNKS = frozenset([b"eXIf", b"caBX"])
_TEXTS = frozenset([b"tEXt", b"zTXt", b"iTXt"])
_PROFILE = b"iCCP"
_SMALL = frozenset(
    b"IHDR PLTE tRNS cHRM gAMA sBIT sRGB cICP mDCV mDCv cLLI cLLi bKGD hIST pHYs sPLT tIME acTL oFFs pCAL sCAL "
    b"gIFg gIFx gIFt sTER iDOT vpAg orNT".split()
)
_MAX_SMALL_BYTES = 1024
"""So much of each name; the largest that is meant is a palette, 768 bytes."""
_CONTROL_BYTES = 26
_NUMBER_BYTES = 4
"""Before the data of a later frame."""


def pieces(encoded: bytes, num_seen: int) -> Iterator[Piece]:
    """num_seen: frames that are scanned, the first picture counted."""
    pixels, index, last, before = list[bytes](), 0, len(PNG_MAGIC), b""
    num_bytes, room = Counter[bytes](), MAX_TEXT_MEMORY
    for name, first, end in png_chunks(encoded):
        content, last = encoded[first:end], min(end + 4, len(encoded))
        if name == b"IEND":
            yield Piece(UNKNOWN_CHUNK, content)
            break
        if name == b"fcTL":
            index += bool(pixels)
            yield Piece(UNKNOWN_CHUNK, content[_CONTROL_BYTES:])
        elif name == b"IDAT" and (not pixels or before == b"IDAT"):
            pixels.append(content)
        elif name == b"fdAT":
            if 0 < index < num_seen:
                pixels.append(content[_NUMBER_BYTES:])
            else:
                yield Piece(FRAMES, b"", len(content))
        elif name in _TEXTS or name == _PROFILE:
            held, num_held = _unpacked(name, content, room)
            room = max(0, room - num_held)
            yield held
            if name != b"tEXt":  # what is packed badly, or lies behind what is packed
                yield Piece(METADATA, content)
        elif name in _METADATA_CHUNKS:
            yield Piece(METADATA, content)
        else:
            num_bytes[name] += len(content)
            if name not in _SMALL or num_bytes[name] > _MAX_SMALL_BYTES:
                yield Piece(UNKNOWN_CHUNK, content)
        before = name
    yield Piece(PIXELS, b"".join(pixels))
    yield Piece(TRAILING_DATA, encoded[last:])


def _unpacked(name: bytes, content: bytes, room: int) -> tuple[Piece, int]:
    """What a text or a colour profile holds once it is unpacked, and its size. As it is where that exceeds `room`."""
    keyword, _, value = content.partition(b"\0")
    held = chunk_text(b"zTXt" if name == _PROFILE else name, value, room)
    if held is None:
        return Piece(UNKNOWN_CHUNK, content), 0
    profile = held if name == _PROFILE else raw_profile(keyword, held)
    return Piece(METADATA if profile or is_text(held) else UNKNOWN_CHUNK, profile or held), len(held)
