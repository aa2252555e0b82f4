"""WebP: the chunks of a RIFF file, and data after its stated size.

Source: RFC 9649, "WebP Image Format".
"""

import io
from collections.abc import Iterator, Sequence

from PIL import Image

from ingest.images.files.metadata import Cleaned, KeptFacts
from ingest.images.files.pieces import FRAMES, METADATA, PIXELS, TRAILING_DATA, UNKNOWN_CHUNK, Piece

_HEADER_BYTES, _FRAME_HEADER_BYTES = 12, 16
_METADATA_CHUNKS = frozenset([b"ICCP", b"EXIF", b"XMP ", b"C2PA"])
_HEADERS = {b"VP8X": 10, b"ANIM": 6}
_ANIMATED, _HAS_ALPHA = 0x02, 0x10
_PICTURES, _ALPHA = (b"VP8 ", b"VP8L"), b"ALPH"


def pieces(encoded: bytes, num_seen: int) -> Iterator[Piece]:
    """Yield the parts of a WebP. num_seen: frames that are scanned. Only the first still picture is scanned."""
    last = min(len(encoded), 8 + int.from_bytes(encoded[4:8], "little"))
    flags = int.from_bytes(encoded[20:21]) if encoded[12:16] == b"VP8X" else 0
    is_animated, has_alpha = bool(flags & _ANIMATED), bool(flags & _HAS_ALPHA)
    chunks = list(_chunks(encoded, _HEADER_BYTES, last))
    decoded = set[int]() if is_animated else _decoded(chunks, has_alpha)
    index, seen_names = 0, set[bytes]()
    for name, first, end in chunks:
        content = encoded[first:end]
        if name == b"ANMF":
            is_seen = is_animated and index < num_seen
            yield from _frame(content, has_alpha) if is_seen else [Piece(FRAMES, b"", len(content))]
            index += 1
        elif name in _METADATA_CHUNKS:
            yield Piece(METADATA, content)
        elif first in decoded:
            yield Piece(PIXELS, content)
        else:
            yield Piece(UNKNOWN_CHUNK, content if name in seen_names else content[_HEADERS.get(name, 0) :])
        seen_names.add(name)
    yield Piece(TRAILING_DATA, encoded[last + last % 2 :])


def _frame(content: bytes, has_alpha: bool) -> Iterator[Piece]:
    chunks = list(_chunks(content, _FRAME_HEADER_BYTES, len(content)))
    decoded = _decoded(chunks, has_alpha)
    for _, first, end in chunks:
        yield Piece(PIXELS if first in decoded else UNKNOWN_CHUNK, content[first:end])


def _decoded(chunks: Sequence[tuple[bytes, int, int]], has_alpha: bool) -> set[int]:
    """Return where the chunks of the picture begin: the first lossy or lossless one, alpha before a lossy one."""
    alpha = None
    for name, first, _ in chunks:
        if name in _PICTURES:
            return {first} if alpha is None or name != _PICTURES[0] else {alpha, first}
        if name == _ALPHA and has_alpha and alpha is None:
            alpha = first
    return set()


def _chunks(encoded: bytes, offset: int, last: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name of each chunk, and where its content begins and ends."""
    while offset + 8 <= last:
        num_bytes = int.from_bytes(encoded[offset + 4 : offset + 8], "little")
        yield encoded[offset : offset + 4], offset + 8, min(offset + 8 + num_bytes, last)
        offset += 8 + num_bytes + num_bytes % 2


_HAS_PROFILE, _HAS_EXIF, _HAS_XMP = 0x20, 0x08, 0x04


def cleaned(encoded: bytes, num_frames: int, facts: KeptFacts) -> Cleaned:
    """Write the file again with its first frames."""
    last = min(len(encoded), 8 + int.from_bytes(encoded[4:8], "little"))
    chunks = list(_chunks(encoded, _HEADER_BYTES, last))
    extended = encoded[20:30] if encoded[12:16] == b"VP8X" else b""
    flags = extended[0] if extended else 0
    is_animated, has_alpha = bool(flags & _ANIMATED), bool(flags & _HAS_ALPHA)
    decoded = set[int]() if is_animated else _decoded(chunks, has_alpha)
    parts, num_taken = list[bytes](), 0
    for name, first, end in chunks:
        content = encoded[first:end]
        if name == b"ANMF" and is_animated and num_taken < num_frames:
            parts.append(_chunk(name, _cleaned_frame(content, has_alpha)))
            num_taken += 1
        elif name == b"ANIM" and is_animated and not parts:
            parts.append(_chunk(name, content[: _HEADERS[name]]))
        elif first in decoded:
            parts.append(_chunk(name, content))
    if extended or facts.profile or facts.exif:
        flags &= ~(_HAS_PROFILE | _HAS_EXIF | _HAS_XMP)
        flags |= _HAS_PROFILE * bool(facts.profile) | _HAS_EXIF * bool(facts.exif)
        header = bytes([flags, 0, 0, 0]) + (extended[4:10] or _canvas(encoded))
        parts = [_chunk(b"VP8X", header), *([_chunk(b"ICCP", facts.profile)] if facts.profile else []), *parts]
        parts += [_chunk(b"EXIF", facts.exif)] if facts.exif else []
    body = b"WEBP" + b"".join(parts)
    names = [name for name, _, _ in chunks]
    is_usual = b"VP8X" not in names[1:] and not is_animated
    return Cleaned(b"RIFF" + len(body).to_bytes(4, "little") + body, is_usual)


def _cleaned_frame(content: bytes, has_alpha: bool) -> bytes:
    chunks = list(_chunks(content, _FRAME_HEADER_BYTES, len(content)))
    decoded = _decoded(chunks, has_alpha)
    kept = [_chunk(name, content[first:end]) for name, first, end in chunks if first in decoded]
    return content[:_FRAME_HEADER_BYTES] + b"".join(kept)


def _canvas(encoded: bytes) -> bytes:
    """Return the size of a picture without an extended header, as that header states it."""
    width, height = Image.open(io.BytesIO(encoded), formats=("WEBP",)).size
    return (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + len(content).to_bytes(4, "little") + content + b"\0" * (len(content) % 2)
