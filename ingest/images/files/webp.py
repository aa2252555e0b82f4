"""WebP: the chunks of a RIFF file, and data after its stated size.

Source: RFC 9649, "WebP Image Format".
"""

import io
from collections.abc import Callable, Iterator, Sequence

from PIL import Image

from ingest.images.files.metadata import MAX_CHUNKS, KeptFacts
from ingest.images.files.pieces import (
    FRAMES,
    IGNORED_BYTES,
    METADATA,
    PIXELS,
    TRAILING_DATA,
    UNKNOWN_CHUNK,
    Piece,
    needed,
)
from ingest.images.files.profiles import profile_pieces

_HEADER_BYTES, _FRAME_HEADER_BYTES = 12, 16
_LOSSY_HEADER_BYTES = 10
_MAX_TRIES = 14
"""Limit of decodings to find where the pixels of a chunk end: a megabyte is cut to less than `IGNORED_BYTES`."""
_READ_AHEAD_BYTES = 8
"""libwebp fails only some bytes after the first one that is missing."""
_METADATA_CHUNKS = frozenset([b"EXIF", b"XMP ", b"C2PA"])
_HEADERS = {b"VP8X": 10, b"ANIM": 6}
_ANIMATED, _HAS_ALPHA = 0x02, 0x10
_HAS_PROFILE, _HAS_EXIF, _HAS_XMP = 0x20, 0x08, 0x04
_PICTURES, _ALPHA = (b"VP8 ", b"VP8L"), b"ALPH"
_ALPHA_HINT = 0x10
"""In the fifth byte of a lossless picture: viewers that find it cleared take every pixel for opaque."""


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
        elif name == b"ICCP":
            yield from profile_pieces(content)
        elif name in _METADATA_CHUNKS:
            yield Piece(METADATA, content)
        elif first in decoded:
            yield from _picture(name, content, chunks, encoded)
        else:
            num_known = _HEADERS.get(name, 0) if name not in seen_names else 0
            is_kept = name == b"ANIM" and num_known and is_animated and not index
            kept = _chunk(name, content[:num_known]) if is_kept else b""
            yield Piece(UNKNOWN_CHUNK, content[num_known:], kept=kept)
        seen_names.add(name)
    yield Piece(TRAILING_DATA, encoded[last + last % 2 :])


def is_lossless(encoded: bytes) -> bool:
    """Return whether a still picture is packed without loss: its first chunk of pixels is decoded."""
    chunks = _chunks(encoded, _HEADER_BYTES, len(encoded))
    return next((name for name, *_ in chunks if name in _PICTURES), b"") == _PICTURES[1]


def stored_frame(encoded: bytes, index: int) -> tuple[bytes, tuple[int, int]] | None:
    """Return a frame as a still file that shows its opacity, and its left and top on the canvas; None if it has no
    opacity."""
    flags = int.from_bytes(encoded[20:21]) if encoded[12:16] == b"VP8X" else 0
    holder, chunks, place = encoded, list(_chunks(encoded, _HEADER_BYTES, len(encoded))), (0, 0)
    if flags & _ANIMATED:
        first, end = [(first, end) for name, first, end in chunks if name == b"ANMF"][index]
        holder = encoded[first:end]
        chunks = list(_chunks(holder, _FRAME_HEADER_BYTES, len(holder)))
        place = 2 * int.from_bytes(holder[:3], "little"), 2 * int.from_bytes(holder[3:6], "little")
    decoded = _decoded(chunks, bool(flags & _HAS_ALPHA))
    contents = {name: holder[first:end] for name, first, end in chunks if first in decoded}
    if lossless := contents.get(_PICTURES[1]):
        # The bit is a hint: the pixels have opacity in any case.
        body = _chunk(_PICTURES[1], lossless[:4] + bytes([lossless[4] | _ALPHA_HINT]) + lossless[5:])
    elif _ALPHA in contents:
        lossy = contents[_PICTURES[0]]
        sides = [(int.from_bytes(lossy[at : at + 2], "little") & 0x3FFF) - 1 for at in (6, 8)]
        header = bytes([_HAS_ALPHA, 0, 0, 0]) + b"".join(side.to_bytes(3, "little") for side in sides)
        body = _chunk(b"VP8X", header) + b"".join(_chunk(name, content) for name, content in contents.items())
    else:
        return None
    return _file(body), place


def _frame(content: bytes, has_alpha: bool) -> Iterator[Piece]:
    chunks = list(_chunks(content, _FRAME_HEADER_BYTES, len(content)))
    decoded, kept = _decoded(chunks, has_alpha), list[bytes | memoryview]([content[:_FRAME_HEADER_BYTES]])
    for name, first, end in chunks:
        if first not in decoded:
            yield Piece(UNKNOWN_CHUNK, content[first:end])
            continue
        for piece in _picture(name, content[first:end], chunks, content):
            kept.append(piece.kept)
            yield piece._replace(kept=b"")
    yield Piece(METADATA, kept=_chunk(b"ANMF", b"".join(kept)))


def _picture(name: bytes, content: bytes, chunks: Sequence[tuple[bytes, int, int]], encoded: bytes) -> Iterator[Piece]:
    """Yield what a chunk of the picture needs, and what is behind it. chunks: those of the picture, in `encoded`."""
    lossy = next((encoded[first:end] for other, first, end in chunks if other == b"VP8 "), b"")
    used, tail = _parted(name, content, lossy[6:10])
    yield Piece(PIXELS, content, kept=_chunk(name, used))
    yield Piece(TRAILING_DATA, tail)


def _parted(name: bytes, content: bytes, size: bytes) -> tuple[bytes, bytes]:
    """Return what decoding a chunk needs, and the rest, if that is more than `IGNORED_BYTES`. size: width and height of
    the lossy picture, which alpha needs.

    libwebp does not say how much it reads. But it fails if bytes are missing, so the picture is decoded without the
    last ones; and a lossy one again without the last ones of its first part.
    """
    width, height = (max(1, int.from_bytes(size[at : at + 2], "little") & 0x3FFF) for at in (0, 2))
    if name == _ALPHA and content[:1] and not content[0] & 3:  # not packed
        return content[: 1 + width * height], content[1 + width * height :]
    if name == _ALPHA:
        head = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little")
        used = _num_used(content, 1, lambda part: _decodes(_PICTURES[1], head + part[1:]))
        return content[:used], content[used:]
    used = _num_used(content, 0, lambda part: _decodes(name, part))
    content, tail = content[:used], content[used:]
    if name == _PICTURES[0]:
        tag = int.from_bytes(content[:3], "little")
        last = _LOSSY_HEADER_BYTES + (tag >> 5)

        def without(part: bytes) -> bytes:
            num_bytes = len(part) - _LOSSY_HEADER_BYTES
            return (tag & 31 | num_bytes << 5).to_bytes(3, "little") + part[3:] + content[last:]

        used = _num_used(content[:last], _LOSSY_HEADER_BYTES, lambda part: _decodes(name, without(part)))
        tail += content[used:last]
        content = without(content[:used]) if used < last else content
    return content, tail


def _num_used(content: bytes, fewest: int, is_enough: Callable[[bytes], bool]) -> int:
    """Return the least number of bytes that are enough, roughly; or all if `IGNORED_BYTES` fewer are not."""
    most = len(content) - IGNORED_BYTES
    if most <= fewest or not is_enough(content[:most]):
        return len(content)
    for _ in range(_MAX_TRIES):
        middle = (fewest + most) // 2
        fewest, most = (fewest, middle) if is_enough(content[:middle]) else (middle, most)
    return most + _READ_AHEAD_BYTES


def _decodes(name: bytes, content: bytes) -> bool:
    try:
        Image.open(io.BytesIO(_file(_chunk(name, content))), formats=("WEBP",)).load()
    except (OSError, EOFError, ValueError, SyntaxError):
        return False
    return True


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
    return _file(b"".join(parts))


def _file(body: bytes) -> bytes:
    return _chunk(b"RIFF", b"WEBP" + body)


def _canvas(encoded: bytes) -> bytes:
    """Return the size of a picture without an extended header, as that header states it."""
    width, height = Image.open(io.BytesIO(encoded), formats=("WEBP",)).size
    return (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + len(content).to_bytes(4, "little") + content + b"\0" * (len(content) % 2)
