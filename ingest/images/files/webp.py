"""WebP: the chunks of a RIFF file, and data after its stated size.

Source: RFC 9649, "WebP Image Format".
"""

from collections.abc import Iterator, Sequence

from ingest.images.files.pieces import METADATA, PIXELS, Piece
from ingest.images.files.unseen_kinds import FRAMES, TRAILING_DATA, UNKNOWN_CHUNK

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
