"""WebP: the chunks of a RIFF file, and what lies behind its size.

Source: RFC 9649, "WebP Image Format".
"""

from collections.abc import Iterator

from ingest.unseen.pieces import FRAMES, METADATA, PIXELS, TRAILING_DATA, UNKNOWN_CHUNK, Piece

_HEADER_BYTES, _FRAME_HEADER_BYTES = 12, 16
_METADATA_CHUNKS = frozenset([b"ICCP", b"EXIF", b"XMP ", b"C2PA"])
_HEADERS = {b"VP8X": 10, b"ANIM": 6}
_ANIMATED = 0x02
_PIXEL_CHUNKS = frozenset([b"VP8 ", b"VP8L", b"ALPH"])


def pieces(encoded: bytes, num_seen: int) -> Iterator[Piece]:
    """num_seen: frames that are scanned. Of chunks that may stand once only the first one is looked at."""
    last = min(len(encoded), 8 + int.from_bytes(encoded[4:8], "little"))
    is_animated = encoded[12:16] == b"VP8X" and bool(encoded[20:21]) and bool(encoded[20] & _ANIMATED)
    index, met = 0, set[bytes]()
    for name, first, end in _chunks(encoded, _HEADER_BYTES, last):
        content = encoded[first:end]
        if name == b"ANMF":
            is_seen = is_animated and index < num_seen
            yield from _frame(content) if is_seen else [Piece(FRAMES, b"", len(content))]
            index += 1
        elif name in _METADATA_CHUNKS:
            yield Piece(METADATA, content)
        elif name in _PIXEL_CHUNKS - met and not is_animated:
            yield Piece(PIXELS, content)
        else:
            yield Piece(UNKNOWN_CHUNK, content if name in met else content[_HEADERS.get(name, 0) :])
        met.add(name)
    yield Piece(TRAILING_DATA, encoded[last + last % 2 :])


def _frame(content: bytes) -> Iterator[Piece]:
    met = set[bytes]()
    for name, first, end in _chunks(content, _FRAME_HEADER_BYTES, len(content)):
        yield Piece(PIXELS if name in _PIXEL_CHUNKS - met else UNKNOWN_CHUNK, content[first:end])
        met.add(name)


def _chunks(encoded: bytes, at: int, last: int) -> Iterator[tuple[bytes, int, int]]:
    """Name of each chunk, and where its content begins and ends."""
    while at + 8 <= last:
        num_bytes = int.from_bytes(encoded[at + 4 : at + 8], "little")
        yield encoded[at : at + 4], at + 8, min(at + 8 + num_bytes, last)
        at += 8 + num_bytes + num_bytes % 2
