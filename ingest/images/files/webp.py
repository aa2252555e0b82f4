"""WebP: the chunks of a RIFF file, and data after its stated size. Source: RFC 9649, "WebP Image Format"."""

import io
from collections.abc import Iterator, Sequence

from PIL import Image

from ingest.images.files.metadata import MAX_CHUNKS, KeptFacts
from ingest.images.files.pieces import Kind, Piece, needed
from ingest.images.files.profiles import profile_pieces

_HEADER_BYTES, _FRAME_HEADER_BYTES = 12, 16
_METADATA_CHUNKS = frozenset([b"EXIF", b"XMP ", b"C2PA"])
_HEADERS = {b"VP8X": 10, b"ANIM": 6}
_ANIMATED, _HAS_ALPHA = 0x02, 0x10
_HAS_PROFILE, _HAS_EXIF, _HAS_XMP = 0x20, 0x08, 0x04
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
            yield from _frame(content, has_alpha) if is_seen else [Piece(Kind.FRAMES, b"", len(content))]
            index += 1
        elif name == b"ICCP":
            yield from profile_pieces(content)
        elif name in _METADATA_CHUNKS:
            yield Piece(Kind.METADATA, content)
        elif first in decoded:
            yield Piece(Kind.PIXELS, content, kept=_chunk(name, content))
        else:
            num_known = _HEADERS.get(name, 0) if name not in seen_names else 0
            is_kept = name == b"ANIM" and num_known and is_animated and not index
            kept = _chunk(name, content[:num_known]) if is_kept else b""
            yield Piece(Kind.UNKNOWN_CHUNK, content[num_known:], kept=kept)
        seen_names.add(name)
    yield Piece(Kind.TRAILING_DATA, encoded[last + last % 2 :])


def is_lossless(encoded: bytes) -> bool:
    """Return whether a still picture is packed without loss: its first chunk of pixels is decoded."""
    chunks = _chunks(encoded, _HEADER_BYTES, len(encoded))
    return next((name for name, *_ in chunks if name in _PICTURES), b"") == _PICTURES[1]


def _frame(content: bytes, has_alpha: bool) -> Iterator[Piece]:
    chunks = list(_chunks(content, _FRAME_HEADER_BYTES, len(content)))
    decoded, kept = _decoded(chunks, has_alpha), list[bytes | memoryview]([content[:_FRAME_HEADER_BYTES]])
    for name, first, end in chunks:
        if first not in decoded:
            yield Piece(Kind.UNKNOWN_CHUNK, content[first:end])
            continue
        kept.append(_chunk(name, content[first:end]))
        yield Piece(Kind.PIXELS, content[first:end])
    yield Piece(Kind.METADATA, kept=_chunk(b"ANMF", b"".join(kept)))


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
    """Yield the name of each chunk, and where its content begins and ends. ValueError if they are too many."""
    num_chunks = 0
    while offset + 8 <= last:
        num_chunks += 1
        if num_chunks > MAX_CHUNKS:
            raise ValueError(f"more than {MAX_CHUNKS:,} chunks")
        num_bytes = int.from_bytes(encoded[offset + 4 : offset + 8], "little")
        yield encoded[offset : offset + 4], offset + 8, min(offset + 8 + num_bytes, last)
        offset += 8 + num_bytes + num_bytes % 2


def cleaned(encoded: bytes, num_frames: int, facts: KeptFacts) -> bytes:
    """Write the file again with its first frames."""
    parts = needed(pieces(encoded, num_frames))
    extended = encoded[20:30] if encoded[12:16] == b"VP8X" else b""
    if extended or facts.profile or facts.exif:
        flags = (extended[0] if extended else 0) & ~(_HAS_PROFILE | _HAS_EXIF | _HAS_XMP)
        flags |= _HAS_PROFILE * bool(facts.profile) | _HAS_EXIF * bool(facts.exif)
        header = bytes([flags, 0, 0, 0]) + (extended[4:10] or _canvas(encoded))
        parts = [_chunk(b"VP8X", header), *([_chunk(b"ICCP", facts.profile)] if facts.profile else []), *parts]
        parts += [_chunk(b"EXIF", facts.exif)] if facts.exif else []
    return _chunk(b"RIFF", b"WEBP" + b"".join(parts))


def _canvas(encoded: bytes) -> bytes:
    """Return the size of a picture without an extended header, as that header states it."""
    width, height = Image.open(io.BytesIO(encoded), formats=("WEBP",)).size
    return (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + len(content).to_bytes(4, "little") + content + b"\0" * (len(content) % 2)
