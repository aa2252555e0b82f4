"""HEIF, of which AVIF is a kind: the items and samples that are shown, and bytes that no box accounts for.

Shown are the primary item with its tiles and its alpha, as libheif and libavif choose; of an animated AVIF the first
track and its alpha.
Source: ISO/IEC 14496-12 (boxes and tracks), ISO/IEC 23008-12 (items), AV1 Bitstream & Decoding Process (units of AV1),
ITU-T H.265 (units of HEVC).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from ingest.images.files.boxes import Box, boxes, number_at
from ingest.images.files.pieces import (
    EMBEDDED_IMAGE,
    FRAMES,
    HIDDEN_PIXELS,
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
_ONCE = frozenset([b"pitm", b"iinf", b"iloc", b"iref", b"iprp", b"idat"])
_TABLES = frozenset([b"iinf", b"iloc", b"iref", b"iprp", b"dinf", b"grpl", b"trak"])
_C2PA = bytes.fromhex("d8fec3d61b0e483c92975828877ec481")
_DERIVED, _MAX_DERIVED_BYTES = (b"grid", b"iden", b"iovl"), 64
"""Items made of others, and how much describes how."""
_MAX_DEPTH = 4
"""Limit of items made of items that are made of others."""
_DECODED = (b"hvc1", b"grid", b"iden")
"""Types of the items that a picture in HEIF may be made of. An overlay (`iovl`) would hide one under another."""
_ALPHA = (
    b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0",
    b"urn:mpeg:hevc:2015:auxid:1\0",
)
_MAX_TILES, _SPARE_PIXELS = 4, 2**22
"""How many times the pixels of the picture its tiles and those of its alpha may have, and how many more: they reach
beyond its border."""
_BLOCK_PX = 64
_MAX_THUMBNAILS = 2
"""Limit of thumbnails that are compared with the picture."""
_UNITS = {
    **{1: METADATA, 3: PIXELS, 4: PIXELS, 5: METADATA, 6: PIXELS},
    **dict.fromkeys((2, 7, 8, 15), UNKNOWN_CHUNK),  # an empty mark, a header again, a list of tiles, padding
}
"""Types of the units of AV1 (its specification, 6.2.2) -> their kinds."""
_FRAME_UNITS, _SETTINGS_UNIT = (3, 6), 1
_SLICES, _PARAMETER_SETS, _MESSAGES = frozenset([*range(10), *range(16, 22)]), range(32, 35), (39, 40)
"""Types of the units of HEVC (table 7-1)."""
_MAX_SETTINGS_BYTES = 512
"""Limit of a unit of settings, of which decoders ignore the end."""
_METADATA_ITEMS = (b"Exif", b"mime")
_MAX_PARTS = 2**17
"""Limit of parts of items, and of a track: nothing after it is accounted for."""
_LENGTHS_AT = 21
"""Offset in `hvcC` of the size of the lengths of units."""
_FULL_BYTES = 4
"""Version and flags, in front of the content of some boxes."""


@dataclass
class _Contents:
    """The facts in the boxes of a file that were read."""

    primary: int = 0
    primary_at: Range = (0, 0)
    """Where the file says so."""

    data: int = 0
    """Offset of the content of the box `idat`."""

    items: dict[int, list[Range]] = field(default_factory=dict)
    """Number of an item -> ranges of its data."""

    kinds: dict[int, bytes] = field(default_factory=dict)
    """Number of an item -> its type."""

    references: list[tuple[bytes, int, int]] = field(default_factory=list)
    """Kind, from item, to item."""

    thumbnails_at: list[int] = field(default_factory=list)
    """Offsets of the boxes that say which item is a thumbnail."""

    tables: list[bytes] = field(default_factory=list)
    """Names of the boxes that a file has once; if it has more, decoders differ on which counts."""

    properties: list[Box] = field(default_factory=list)
    linked: dict[int, list[int]] = field(default_factory=dict)
    """Number of an item -> numbers of its properties, from 1."""

    tracks: list[tuple[bytes, list[Range]]] = field(default_factory=list)
    """Handler of a track, and the ranges of its samples."""

    claimed: list[Range] = field(default_factory=list)
    """Parts of the file that are accounted for."""

    metadata: list[Range] = field(default_factory=list)


_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1")


def is_heif(encoded: bytes) -> bool:
    return encoded[4:8] == b"ftyp" and encoded[8:12] in _BRANDS


def canvas(encoded: bytes) -> tuple[int, int] | None:
    """Return the largest size that a part of the shown picture states, which bounds the memory to decode a HEIF. None
    if there is no bound: the picture is made of items that are not decoded, of too many one in another, or of tiles
    that are much larger than it, are made of others, or have an alpha of their own.
    """
    contents = _contents(encoded)
    if len(contents.tables) > len(set(contents.tables)):
        return None
    shown = _made_of(contents, {contents.primary, *_alphas(encoded, contents, {contents.primary})})
    parts = shown - {contents.primary}
    if shown != _made_of(contents, shown) or any(_alphas(encoded, contents, parts)):
        return None
    sizes = dict[int, tuple[int, int]]()
    for item in shown:
        stated = _property(encoded, contents, item, b"ispe")
        if contents.kinds.get(item) not in _DECODED or len(stated) < 12:
            return None
        sizes[item] = number_at(stated, 4, 4), number_at(stated, 8, 4)
        if contents.kinds[item] == b"grid":
            grid = _content(encoded, contents, item)[:_MAX_DERIVED_BYTES]
            num_bytes = 4 if number_at(grid, 1, 1) & 1 else 2
            output = number_at(grid, 4, num_bytes), number_at(grid, 4 + num_bytes, num_bytes)
            sizes[item] = max(sizes[item], output, key=prod)
    largest = max(sizes.values(), key=prod)
    made = [(source, target) for kind, source, target in contents.references if kind == b"dimg" and source in shown]
    if any(contents.kinds[source] == b"grid" and contents.kinds[target] in _DERIVED for source, target in made):
        return None
    num_pixels = sum(prod(sizes.get(target, (0, 0))) for _, target in made)
    return largest if num_pixels <= _MAX_TILES * prod(largest) + _SPARE_PIXELS else None


def pieces(encoded: bytes, num_seen: int, has_alpha: bool, has_tracks: bool) -> Iterator[Piece]:
    """Yield the parts of a file. num_seen: frames that are scanned. has_alpha: whether the decoded picture has alpha.
    has_tracks: whether the decoder reads tracks."""
    num_bytes, end = len(encoded), 0
    for box in boxes(encoded, 0, num_bytes):
        end = box.last
    contents = _contents(encoded)
    samples = _shown_samples(encoded, contents) if has_tracks else None
    shown = _shown_items(encoded, contents, has_alpha) if samples is None else set()
    seen = [part for _, track in samples or () for part in track[:num_seen]]
    seen += [part for item in shown for part in contents.items.get(item, ())]
    frames = [part for _, track in contents.tracks for part in track]
    for _, track in samples or ():
        for first, last in track[:num_seen]:
            yield from _units(encoded[first:last], is_still=False)
    for item in sorted(shown):
        yield from _item(encoded, contents, item)
        if _is_cut(encoded, contents, item):
            yield Piece(HIDDEN_PIXELS, num_bytes=num_bytes_of(contents.items.get(item, ())))
    for settings in {_property(encoded, contents, item, b"hvcC") for item in shown} - {b""}:
        yield from _unneeded_settings(settings)
    texts = [item for item, kind in contents.kinds.items() if kind in _METADATA_ITEMS]
    metadata = contents.metadata + [part for item in texts for part in contents.items.get(item, ())]
    for first, last in merged(metadata, num_bytes):
        yield Piece(METADATA, encoded[first:last])
    claimed = [*contents.claimed, *metadata, *seen]
    thumbnails = [
        source for kind, source, target in contents.references if (kind, target) == (b"thmb", contents.primary)
    ]
    for item in thumbnails[:_MAX_THUMBNAILS]:
        parts = contents.items.get(item, ())
        yield Piece(
            EMBEDDED_IMAGE,
            _shown_instead(encoded, contents, item),
            num_bytes_of(unclaimed(claimed, num_bytes)) - num_bytes_of(unclaimed([*claimed, *parts], num_bytes)),
        )
        claimed += parts
    for kind, ranges in (
        (FRAMES, frames),
        (EMBEDDED_IMAGE, [part for item in contents.items.values() for part in item]),
    ):
        before = num_bytes_of(unclaimed(claimed, num_bytes))
        claimed += ranges
        yield Piece(kind, b"", before - num_bytes_of(unclaimed(claimed, num_bytes)))
    for first, last in unclaimed(claimed, num_bytes):
        yield Piece(TRAILING_DATA if first >= end else UNKNOWN_CHUNK, encoded[first:last])


def _contents(encoded: bytes) -> _Contents:
    contents = _Contents()
    for box in boxes(encoded, 0, len(encoded)):
        if box.name not in (b"meta", b"moov"):
            _claim(encoded, box, contents)
            continue
        first = box.first + (_FULL_BYTES if box.name == b"meta" else 0)
        contents.claimed.append((box.start, first))
        inner = list(boxes(encoded, first, box.last))
        contents.tables += (child.name for child in inner if child.name in _ONCE)
        for child in sorted(inner, key=lambda child: child.name == b"iloc"):  # last, since it may point into idat
            _claim(encoded, child, contents)
            _read(encoded, child, contents)
    return contents


def _content(encoded: bytes, contents: _Contents, item: int) -> bytes:
    return b"".join(encoded[first:last] for first, last in contents.items.get(item, ()))


def _property(encoded: bytes, contents: _Contents, item: int, name: bytes) -> bytes:
    """Return the content of the first property of an item with a name; empty if it has none."""
    for place in contents.linked.get(item, ()):
        box = contents.properties[place - 1] if 0 < place <= len(contents.properties) else None
        if box is not None and box.name == name:
            return encoded[box.first : box.last]
    return b""


def _shown_instead(encoded: bytes, contents: _Contents, item: int) -> bytes:
    """Return the file with another primary item, which is no thumbnail then."""
    file, (first, last) = bytearray(encoded), contents.primary_at
    file[first:last] = item.to_bytes(last - first) if item < 256 ** (last - first) else file[first:last]
    for offset in contents.thumbnails_at:
        file[offset : offset + 4] = b"cdsc"
    return bytes(file)


def _item(encoded: bytes, contents: _Contents, item: int) -> Iterator[Piece]:
    """Yield the parts of an item that is shown."""
    content, coding = _content(encoded, contents, item), contents.kinds.get(item)
    if coding in _DERIVED:
        yield Piece(UNKNOWN_CHUNK, content[_MAX_DERIVED_BYTES:])
    elif coding == b"hvc1":
        settings = _property(encoded, contents, item, b"hvcC")
        yield from _hevc_units(content, settings[: 4 * _MAX_SETTINGS_BYTES])
    else:
        yield from _units(content, is_still=True)


def _unneeded_settings(settings: bytes) -> Iterator[Piece]:
    """Yield what the settings of HEVC (`hvcC`) hold besides one short set of each kind of parameters."""
    offset, kinds = _LENGTHS_AT + 2, set[int]()
    for _ in range(number_at(settings, offset - 1, 1)):
        kind, num_units = number_at(settings, offset, 1) & 63, number_at(settings, offset + 1, 2)
        offset += 3
        for _ in range(num_units):
            if offset >= len(settings):
                return
            first, offset = offset + 2, offset + 2 + number_at(settings, offset, 2)
            is_needed = kind in _PARAMETER_SETS and kind not in kinds and offset - first <= _MAX_SETTINGS_BYTES
            kinds.add(kind)
            if not is_needed:
                yield Piece(METADATA if kind in _MESSAGES else UNKNOWN_CHUNK, settings[first:offset])
    yield Piece(UNKNOWN_CHUNK, settings[offset:])


def _is_cut(encoded: bytes, contents: _Contents, item: int) -> bool:
    """Return whether viewers show only a part of an item (`clap`), less than padding to whole blocks explains."""
    whole, shown = _property(encoded, contents, item, b"ispe"), _property(encoded, contents, item, b"clap")
    sides = [number_at(whole, at, 4) for at in (4, 8)]
    kept = [number_at(shown, at, 4) / max(1, number_at(shown, at + 4, 4)) for at in (0, 8)]
    return bool(shown) and any(side - part > _BLOCK_PX for side, part in zip(sides, kept, strict=True))


def _hevc_units(content: bytes, settings: bytes) -> Iterator[Piece]:
    """Yield what the units (NAL units) of a picture hold: its slices, what is not pixels, and later pictures. settings:
    the beginning of `hvcC`, whose parameters cameras repeat."""
    offset = num_pictures = 0
    num_length_bytes = (number_at(settings, _LENGTHS_AT, 1) & 3) + 1
    while offset + num_length_bytes + 3 <= len(content):
        start, first = offset, offset + num_length_bytes
        offset = first + number_at(content, offset, num_length_bytes)
        kind, layer = content[first] >> 1 & 63, (content[first] & 1) << 5 | content[first + 1] >> 3
        if offset > len(content) or offset < first + 3:
            offset = start
            break
        if kind in _SLICES and not layer:
            num_pictures += content[first + 2] >> 7  # the first slice of a picture
            if num_pictures > 1:
                yield Piece(FRAMES, num_bytes=len(content) - start)
                return
        if kind in _PARAMETER_SETS and content[first:offset] in settings:
            continue
        is_pixels = kind in _SLICES and not layer
        yield Piece(PIXELS if is_pixels else METADATA if kind in _MESSAGES else UNKNOWN_CHUNK, content[first:offset])
    yield Piece(UNKNOWN_CHUNK, content[offset:])


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
        is_long = kind == _SETTINGS_UNIT and num_bytes > _MAX_SETTINGS_BYTES
        name = UNKNOWN_CHUNK if is_long else _UNITS[kind]
        yield Piece(name, content[offset:last] if name != PIXELS else b"")
        offset = last


def _claim(encoded: bytes, box: Box, contents: _Contents) -> None:
    if box.name in _HOLDERS:
        contents.claimed.append((box.start, box.first))
    elif box.name in _TABLES or (box.name == b"uuid" and encoded[box.first : box.first + 16] == _C2PA):
        contents.metadata.append((box.start, box.last))
    elif box.name in _SMALL and box.last - box.first <= _MAX_SMALL_BYTES:
        contents.claimed.append((box.start, box.last))


def _read(encoded: bytes, box: Box, contents: _Contents) -> None:
    offset, version = box.first + _FULL_BYTES, number_at(encoded, box.first, 1)
    if box.name == b"pitm":
        contents.primary_at = offset, offset + (4 if version else 2)
        contents.primary = int.from_bytes(encoded[slice(*contents.primary_at)])
    elif box.name == b"idat":
        contents.data = box.first
    elif box.name == b"trak":
        contents.tracks.append(_track(encoded, box))
    elif box.name == b"iinf":
        for entry in boxes(encoded, offset + (4 if version else 2), box.last):
            number_bytes = 2 if number_at(encoded, entry.first, 1) < 3 else 4
            offset = entry.first + _FULL_BYTES
            kind = offset + number_bytes + 2
            contents.kinds.setdefault(number_at(encoded, offset, number_bytes), encoded[kind : kind + 4])
    elif box.name == b"iref":
        number_bytes = 4 if version else 2
        for entry in boxes(encoded, offset, box.last):
            source = number_at(encoded, entry.first, number_bytes)
            contents.thumbnails_at += [entry.start + 4] if entry.name == b"thmb" else []
            for offset in range(entry.first + number_bytes + 2, entry.last - number_bytes + 1, number_bytes):
                if len(contents.references) == _MAX_PARTS:
                    return
                contents.references.append((entry.name, source, number_at(encoded, offset, number_bytes)))
    elif box.name == b"iprp":
        for child in boxes(encoded, box.first, box.last):
            if child.name == b"ipco" and not contents.properties:
                contents.properties = list(boxes(encoded, child.first, child.last))
            elif child.name == b"ipma":
                _read_links(encoded, child, contents)
    elif box.name == b"iloc":
        _read_extents(encoded, box, contents)


def _read_links(encoded: bytes, box: Box, contents: _Contents) -> None:
    number_bytes = 4 if number_at(encoded, box.first, 1) else 2
    link_bytes = 2 if number_at(encoded, box.first + 3, 1) & 1 else 1
    offset = box.first + _FULL_BYTES + 4
    for _ in range(_MAX_PARTS):
        if offset + number_bytes >= box.last:
            return
        linked = contents.linked.setdefault(number_at(encoded, offset, number_bytes), [])
        first = offset + number_bytes + 1
        offset = first + link_bytes * encoded[first - 1]
        is_needed = 1 << 8 * link_bytes - 1  # a bit that is no part of the number
        linked += (
            number_at(encoded, at, link_bytes) % is_needed for at in range(first, min(offset, box.last), link_bytes)
        )


def _read_extents(encoded: bytes, box: Box, contents: _Contents) -> None:
    version, offset = number_at(encoded, box.first, 1), box.first + _FULL_BYTES
    offset_bytes, length_bytes = divmod(number_at(encoded, offset, 1), 16)
    base_bytes, index_bytes = divmod(number_at(encoded, offset + 1, 1), 16)
    number_bytes = 2 if version < 2 else 4
    offset += 2 + number_bytes
    room = _MAX_PARTS
    while offset < box.last and room > 0:
        number, offset = number_at(encoded, offset, number_bytes), offset + number_bytes
        is_in_data = bool(version) and number_at(encoded, offset, 2) & 15 == 1
        offset += 4 if version else 2
        base, offset = number_at(encoded, offset, base_bytes) + contents.data * is_in_data, offset + base_bytes
        num_extents, offset = number_at(encoded, offset, 2), offset + 2
        parts = list[Range]()
        contents.items.setdefault(number, parts)  # decoders read the first, and nothing accounts for another
        room -= max(1, num_extents)
        for _ in range(min(num_extents, _MAX_PARTS)):
            offset += index_bytes if version else 0
            first, offset = base + number_at(encoded, offset, offset_bytes), offset + offset_bytes
            length, offset = number_at(encoded, offset, length_bytes), offset + length_bytes
            parts.append((first, first + length if length else len(encoded)))
            if offset >= box.last:
                break


def _alphas(encoded: bytes, contents: _Contents, items: set[int]) -> list[int]:
    """Return the auxiliary items of others that are their alpha; there may be others, such as depth."""
    sources = {source for kind, source, target in contents.references if kind == b"auxl" and target in items}
    return [item for item in sources if _property(encoded, contents, item, b"auxC")[_FULL_BYTES:].startswith(_ALPHA)]


def _shown_items(encoded: bytes, contents: _Contents, has_alpha: bool) -> set[int]:
    """Return the primary item, its alpha, and the tiles of both. Of several alphas it is not known which is shown."""
    alphas = _alphas(encoded, contents, {contents.primary})
    return _made_of(contents, {contents.primary, *(alphas if has_alpha and len(alphas) == 1 else ())})


def _made_of(contents: _Contents, items: set[int]) -> set[int]:
    """Return items and those that they are made of."""
    for _ in range(_MAX_DEPTH):
        derived = {item for item in items if contents.kinds.get(item) in _DERIVED}
        items = items | {
            target for kind, source, target in contents.references if kind == b"dimg" and source in derived
        }
    return items


def _shown_samples(encoded: bytes, contents: _Contents) -> list[tuple[bytes, list[Range]]] | None:
    """Return the tracks that are shown, or None if the primary item is."""
    if not contents.tracks or encoded[8:12] == b"avif":
        return None
    colour = [track for track in contents.tracks if track[0] != b"auxv"][:1]
    return colour + [track for track in contents.tracks if track[0] == b"auxv"][:1]


def _track(encoded: bytes, trak: Box) -> tuple[bytes, list[Range]]:
    """Return the handler of a track and the ranges of its samples."""
    handler, tables, holders = b"", dict[bytes, Box](), [trak]
    for box in holders:
        for child in boxes(encoded, box.first, box.last):
            if child.name in (b"mdia", b"minf", b"stbl"):
                holders.append(child)
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


def _sample_sizes(encoded: bytes, box: Box | None) -> list[int]:
    if box is None:
        return []
    size, count = number_at(encoded, box.first + 4, 4), number_at(encoded, box.first + 8, 4)
    if size:
        return [size] * min(count, _MAX_PARTS)
    return [
        number_at(encoded, offset, 4)
        for offset in range(box.first + 12, min(box.last - 3, box.first + 12 + 4 * count), 4)
    ]


def _table(encoded: bytes, box: Box | None, num_bytes: int) -> list[int]:
    """Return the numbers after version, flags and count."""
    if box is None:
        return []
    return [
        number_at(encoded, offset, num_bytes) for offset in range(box.first + 8, box.last - num_bytes + 1, num_bytes)
    ]
