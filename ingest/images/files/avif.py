"""AVIF: the items and samples that are shown, and bytes that no box accounts for.

Shown are the primary item with its tiles and its alpha, or the first track and its alpha, as libavif chooses.
Source: ISO/IEC 14496-12 (boxes and tracks), ISO/IEC 23008-12 (items), AV1 Bitstream & Decoding Process (units).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ingest.images.files.pieces import (
    EMBEDDED_IMAGE,
    FRAMES,
    METADATA,
    PIXELS,
    TRAILING_DATA,
    UNKNOWN_CHUNK,
    Piece,
    Range,
    merged,
    num_bytes_of,
    unclaimed,
)

_HOLDERS = frozenset([b"mdat", b"idat"])
"""Boxes of nothing but data, for which items and samples account."""
_SMALL = frozenset([b"ftyp", b"hdlr", b"pitm", b"mvhd"])
_MAX_SMALL_BYTES = 1024
_TABLES = frozenset([b"iinf", b"iloc", b"iref", b"iprp", b"dinf", b"grpl", b"trak"])
_C2PA = bytes.fromhex("d8fec3d61b0e483c92975828877ec481")
_DERIVED, _MAX_DERIVED_BYTES = (b"grid", b"iden", b"iovl"), 64
"""Items made of others, and how much describes how."""
_UNITS = {
    **{1: METADATA, 2: METADATA, 3: PIXELS, 4: PIXELS, 5: METADATA, 6: PIXELS, 7: PIXELS},
    **{8: UNKNOWN_CHUNK, 15: UNKNOWN_CHUNK},  # a list of tiles, padding
}
"""Types of the units of AV1 (its specification, 6.2.2) -> their kinds."""
_FRAME_UNITS = (3, 6)
_METADATA_ITEMS = (b"Exif", b"mime")
_MAX_PARTS = 2**17
"""Limit of parts of items, and of a track: nothing after it is accounted for."""
_FULL_BYTES = 4
"""Version and flags, in front of the content of some boxes."""


@dataclass(frozen=True)
class _Box:
    """Offsets are in bytes from the start of the file."""

    name: bytes

    start: int
    """Offset of the header."""

    first: int
    """Offset of the content."""

    last: int
    """Offset after the content."""


@dataclass
class _Contents:
    """The facts in the boxes of a file that were read."""

    primary: int = 0
    data: int = 0
    """Offset of the content of the box `idat`."""

    items: dict[int, list[Range]] = field(default_factory=dict)
    """Number of an item -> ranges of its data."""

    kinds: dict[int, bytes] = field(default_factory=dict)
    """Number of an item -> its type."""

    references: list[tuple[bytes, int, int]] = field(default_factory=list)
    """Kind, from item, to item."""

    tracks: list[tuple[bytes, list[Range]]] = field(default_factory=list)
    """Handler of a track, and the ranges of its samples."""

    claimed: list[Range] = field(default_factory=list)
    """Parts of the file that are accounted for."""

    metadata: list[Range] = field(default_factory=list)


def pieces(encoded: bytes, num_seen: int, has_alpha: bool) -> Iterator[Piece]:
    """Yield the parts of a file. num_seen: frames that are scanned. has_alpha: whether the decoded picture has
    alpha."""
    contents, num_bytes, end = _Contents(), len(encoded), 0
    for box in _boxes(encoded, 0, num_bytes):
        end = box.last
        if box.name not in (b"meta", b"moov"):
            _claim(encoded, box, contents)
            continue
        first = box.first + (_FULL_BYTES if box.name == b"meta" else 0)
        contents.claimed.append((box.start, first))
        inner = list(_boxes(encoded, first, box.last))
        for child in sorted(inner, key=lambda child: child.name == b"iloc"):  # last, since it may point into idat
            _claim(encoded, child, contents)
            _read(encoded, child, contents)
    samples = _shown_samples(encoded, contents)
    shown = _shown_items(contents, has_alpha) if samples is None else set()
    seen = [part for _, track in samples or () for part in track[:num_seen]]
    seen += [part for number in shown for part in contents.items.get(number, ())]
    frames = [part for _, track in contents.tracks for part in track]
    for _, track in samples or ():
        for first, last in track[:num_seen]:
            yield from _units(encoded[first:last], is_still=False)
    for number in sorted(shown):
        content = b"".join(encoded[first:last] for first, last in contents.items.get(number, ()))
        is_derived = contents.kinds.get(number) in _DERIVED
        yield from (
            [Piece(UNKNOWN_CHUNK, content[_MAX_DERIVED_BYTES:])] if is_derived else _units(content, is_still=True)
        )
    texts = [number for number, kind in contents.kinds.items() if kind in _METADATA_ITEMS]
    metadata = contents.metadata + [part for number in texts for part in contents.items.get(number, ())]
    for first, last in merged(metadata, num_bytes):
        yield Piece(METADATA, encoded[first:last])
    claimed = [*contents.claimed, *metadata, *seen]
    for kind, ranges in (
        (FRAMES, frames),
        (EMBEDDED_IMAGE, [part for item in contents.items.values() for part in item]),
    ):
        before = num_bytes_of(unclaimed(claimed, num_bytes))
        claimed += ranges
        yield Piece(kind, b"", before - num_bytes_of(unclaimed(claimed, num_bytes)))
    for first, last in unclaimed(claimed, num_bytes):
        yield Piece(TRAILING_DATA if first >= end else UNKNOWN_CHUNK, encoded[first:last])


def _units(content: bytes, is_still: bool) -> Iterator[Piece]:
    """Yield what the units (OBUs) of coded pictures hold besides pixels, and behind them. A still picture needs one
    frame."""
    offset = num_frames = 0
    while offset < len(content):
        head, start = content[offset], offset
        kind, offset = head >> 3 & 15, offset + 1 + (head >> 2 & 1)
        num_bytes = shift = 0
        is_open = bool(head & 2)
        while is_open and offset < len(content) and shift < 56:
            num_bytes |= (content[offset] & 127) << shift
            is_open, offset, shift = content[offset] > 127, offset + 1, shift + 7
        last = offset + num_bytes if head & 2 else len(content)
        if head & 0x81 or kind not in _UNITS or last > len(content):
            yield Piece(UNKNOWN_CHUNK, content[start:])
            return
        num_frames += kind in _FRAME_UNITS
        if is_still and num_frames > 1:
            yield Piece(FRAMES, num_bytes=len(content) - start)
            return
        yield Piece(_UNITS[kind], content[offset:last] if _UNITS[kind] != PIXELS else b"")
        offset = last


def _claim(encoded: bytes, box: _Box, contents: _Contents) -> None:
    if box.name in _HOLDERS:
        contents.claimed.append((box.start, box.first))
    elif box.name in _TABLES or (box.name == b"uuid" and encoded[box.first : box.first + 16] == _C2PA):
        contents.metadata.append((box.start, box.last))
    elif box.name in _SMALL and box.last - box.first <= _MAX_SMALL_BYTES:
        contents.claimed.append((box.start, box.last))


def _read(encoded: bytes, box: _Box, contents: _Contents) -> None:
    offset, version = box.first + _FULL_BYTES, _number(encoded, box.first, 1)
    if box.name == b"pitm":
        contents.primary = _number(encoded, offset, 4 if version else 2)
    elif box.name == b"idat":
        contents.data = box.first
    elif box.name == b"trak":
        contents.tracks.append(_track(encoded, box))
    elif box.name == b"iinf":
        for entry in _boxes(encoded, offset + (4 if version else 2), box.last):
            number_bytes = 2 if _number(encoded, entry.first, 1) < 3 else 4
            offset = entry.first + _FULL_BYTES
            kind = offset + number_bytes + 2
            contents.kinds[_number(encoded, offset, number_bytes)] = encoded[kind : kind + 4]
    elif box.name == b"iref":
        number_bytes = 4 if version else 2
        for entry in _boxes(encoded, offset, box.last):
            source = _number(encoded, entry.first, number_bytes)
            for offset in range(entry.first + number_bytes + 2, entry.last - number_bytes + 1, number_bytes):
                contents.references.append((entry.name, source, _number(encoded, offset, number_bytes)))
    elif box.name == b"iloc":
        _read_extents(encoded, box, contents)


def _read_extents(encoded: bytes, box: _Box, contents: _Contents) -> None:
    version, offset = _number(encoded, box.first, 1), box.first + _FULL_BYTES
    offset_bytes, length_bytes = divmod(_number(encoded, offset, 1), 16)
    base_bytes, index_bytes = divmod(_number(encoded, offset + 1, 1), 16)
    number_bytes = 2 if version < 2 else 4
    offset += 2 + number_bytes
    room = _MAX_PARTS
    while offset < box.last and room > 0:
        number, offset = _number(encoded, offset, number_bytes), offset + number_bytes
        is_in_data = bool(version) and _number(encoded, offset, 2) & 15 == 1
        offset += 4 if version else 2
        base, offset = _number(encoded, offset, base_bytes) + contents.data * is_in_data, offset + base_bytes
        num_extents, offset = _number(encoded, offset, 2), offset + 2
        parts = contents.items.setdefault(number, [])
        room -= max(1, num_extents)
        for _ in range(min(num_extents, _MAX_PARTS)):
            offset += index_bytes if version else 0
            first, offset = base + _number(encoded, offset, offset_bytes), offset + offset_bytes
            length, offset = _number(encoded, offset, length_bytes), offset + length_bytes
            parts.append((first, first + length if length else len(encoded)))
            if offset >= box.last:
                break


def _shown_items(contents: _Contents, has_alpha: bool) -> set[int]:
    """Return the primary item, its alpha, and the tiles of both."""
    shown = {contents.primary}
    auxiliary = [
        source for kind, source, target in contents.references if kind == b"auxl" and target == contents.primary
    ]
    shown.update(auxiliary[:1] if has_alpha else ())
    tiles = [target for kind, source, target in contents.references if kind == b"dimg" and source in shown]
    return shown.union(tiles)


def _shown_samples(encoded: bytes, contents: _Contents) -> list[tuple[bytes, list[Range]]] | None:
    """Return the tracks that are shown, or None if the primary item is."""
    if not contents.tracks or encoded[8:12] == b"avif":
        return None
    colour = [track for track in contents.tracks if track[0] != b"auxv"][:1]
    return colour + [track for track in contents.tracks if track[0] == b"auxv"][:1]


def _track(encoded: bytes, trak: _Box) -> tuple[bytes, list[Range]]:
    """Return the handler of a track and the ranges of its samples."""
    handler, tables, boxes = b"", dict[bytes, _Box](), [trak]
    for box in boxes:
        for child in _boxes(encoded, box.first, box.last):
            if child.name in (b"mdia", b"minf", b"stbl"):
                boxes.append(child)
            elif child.name == b"hdlr":
                handler = encoded[child.first + 8 : child.first + 12]
            else:
                tables[child.name] = child
    sizes = _sample_sizes(encoded, tables.get(b"stsz"))
    chunks = _table(encoded, tables.get(b"co64"), 8) or _table(encoded, tables.get(b"stco"), 4)
    runs = _table(encoded, tables.get(b"stsc"), 4)
    samples, run, number = list[Range](), 0, 0
    for chunk, offset in enumerate(chunks, 1):
        while run + 3 < len(runs) and runs[run + 3] <= chunk:
            run += 3
        for _ in range(runs[run + 1] if run + 1 < len(runs) else 0):
            if number == min(len(sizes), _MAX_PARTS):
                return handler, samples
            samples.append((offset, offset + sizes[number]))
            offset, number = offset + sizes[number], number + 1
    return handler, samples


def _sample_sizes(encoded: bytes, box: _Box | None) -> list[int]:
    if box is None:
        return []
    size, count = _number(encoded, box.first + 4, 4), _number(encoded, box.first + 8, 4)
    if size:
        return [size] * min(count, _MAX_PARTS)
    return [
        _number(encoded, offset, 4)
        for offset in range(box.first + 12, min(box.last - 3, box.first + 12 + 4 * count), 4)
    ]


def _table(encoded: bytes, box: _Box | None, num_bytes: int) -> list[int]:
    """Return the numbers after version, flags and count."""
    if box is None:
        return []
    return [_number(encoded, offset, num_bytes) for offset in range(box.first + 8, box.last - num_bytes + 1, num_bytes)]


def _boxes(encoded: bytes, offset: int, last: int) -> Iterator[_Box]:
    """Yield the boxes from `offset` on, up to the first that makes no sense."""
    while offset + 8 <= last:
        num_bytes, name, first = _number(encoded, offset, 4), encoded[offset + 4 : offset + 8], offset + 8
        if num_bytes == 1:
            num_bytes, first = _number(encoded, first, 8), first + 8
        end = last if num_bytes == 0 else offset + num_bytes
        if end < first or end > last or not name.strip(b" ").isalnum():
            return
        yield _Box(name, offset, first, end)
        offset = end


def _number(encoded: bytes, offset: int, num_bytes: int) -> int:
    return int.from_bytes(encoded[offset : offset + num_bytes])
