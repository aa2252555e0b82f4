"""HEIF, of which AVIF is a kind: the items that are shown, and bytes that no box accounts for.

Shown are the primary item with its tiles and its alpha, as libheif and libavif choose. Which data of an animated AVIF
is a frame that is shown is not told.
Source: ISO/IEC 14496-12 (boxes), ISO/IEC 23008-12 (items).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import compress
from math import prod

from ingest.images.files.boxes import Box, boxes, number_at
from ingest.images.files.pieces import Kind, Piece, Range, merged, num_bytes_of, unclaimed

_HOLDERS = frozenset([b"mdat", b"idat"])
"""Boxes of nothing but data, for which items account."""
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
_ALPHA = (b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0", b"urn:mpeg:hevc:2015:auxid:1\0")
_BESIDE = (b"urn:mpeg:hevc:2015:auxid:2\0", b"urn:com:apple:photo:20")
"""Depth, and what cameras of phones add: maps of brightness (HDR) and masks. No viewer shows them as pictures."""
_MAX_TILES, _SPARE_PIXELS = 4, 2**22
"""How many times the pixels of the picture its tiles and those of its alpha may have, and how many more: they reach
beyond its border."""
_BLOCK_PX = 64
_MAX_THUMBNAILS = 2
"""Limit of thumbnails that are compared with the picture."""
_METADATA_ITEMS = (b"Exif", b"mime", b"tmap")
"""The last one says how a map of brightness is applied."""
_MAX_PARTS = 2**17
"""Limit of parts of items: nothing after it is accounted for."""
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

    has_tracks: bool = False

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
    shown = _made_of(contents, {contents.primary, *_auxiliary(encoded, contents, {contents.primary})})
    parts = shown - {contents.primary}
    if shown != _made_of(contents, shown) or any(_auxiliary(encoded, contents, parts)):
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


def pieces(encoded: bytes, has_alpha: bool) -> Iterator[Piece]:
    """Yield the parts of a file; of coded data only pictures within it are found.

    has_alpha: whether the decoded picture has alpha."""
    num_bytes, end = len(encoded), 0
    for box in boxes(encoded, 0, num_bytes):
        end = box.last
    contents = _contents(encoded)
    claimed = list(contents.claimed)
    texts = [item for item, kind in contents.kinds.items() if kind in _METADATA_ITEMS]
    beside = _made_of(contents, {*_auxiliary(encoded, contents, {contents.primary}, _BESIDE)})
    alphas = _auxiliary(encoded, contents, {contents.primary})  # of several it is not known which is shown
    shown = {contents.primary, *(alphas if has_alpha and len(alphas) == 1 else ())}
    for item in sorted(_made_of(contents, shown) | beside):
        content, parts = _content(encoded, contents, item), contents.items.get(item, [])
        yield Piece(Kind.PIXELS, content)
        is_derived = contents.kinds.get(item) in _DERIVED
        yield Piece(Kind.UNKNOWN_CHUNK, content[_MAX_DERIVED_BYTES:] if is_derived else b"")
        yield Piece(Kind.HIDDEN_PIXELS, num_bytes=num_bytes_of(parts) if _is_cut(encoded, contents, item) else 0)
        claimed += parts
    metadata = contents.metadata + [part for item in texts for part in contents.items.get(item, ())]
    for first, last in merged(metadata, num_bytes):
        yield Piece(Kind.METADATA, encoded[first:last])
    claimed += metadata
    is_thumbnail = [kind == b"thmb" and target == contents.primary for kind, _, target in contents.references]
    thumbnails = [source for _, source, _ in compress(contents.references, is_thumbnail)][:_MAX_THUMBNAILS]
    copies = [(_shown_instead(encoded, contents, item), [item]) for item in thumbnails]
    for content, items in [*copies, (b"", list(contents.items))]:
        before = num_bytes_of(unclaimed(claimed, num_bytes))
        claimed += [part for item in items for part in contents.items.get(item, ())]
        yield Piece(Kind.EMBEDDED_IMAGE, content, before - num_bytes_of(unclaimed(claimed, num_bytes)))
    if contents.has_tracks:  # their frames may lie anywhere in the file
        data = [(box.first, box.last) for box in boxes(encoded, 0, num_bytes) if box.name == b"mdat"]
        yield Piece(Kind.FRAMES, num_bytes=max(1, num_bytes_of(data)))
        claimed += data
    for first, last in unclaimed(claimed, num_bytes):
        yield Piece(Kind.TRAILING_DATA if first >= end else Kind.UNKNOWN_CHUNK, encoded[first:last])


def _contents(encoded: bytes) -> _Contents:
    contents = _Contents()
    for box in boxes(encoded, 0, len(encoded)):
        if box.name not in (b"meta", b"moov"):
            _claim(encoded, box, contents, is_inner=False)
            continue
        first = box.first + (_FULL_BYTES if box.name == b"meta" else 0)
        contents.claimed.append((box.start, first))
        inner = list(boxes(encoded, first, box.last))
        contents.tables += (child.name for child in inner if child.name in _ONCE)
        for child in sorted(inner, key=lambda child: child.name == b"iloc"):  # last, since it may point into idat
            _claim(encoded, child, contents, is_inner=True)
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


def _is_cut(encoded: bytes, contents: _Contents, item: int) -> bool:
    """Return whether viewers show only a part of an item (`clap`), less than padding to whole blocks explains."""
    whole, shown = _property(encoded, contents, item, b"ispe"), _property(encoded, contents, item, b"clap")
    sides = [number_at(whole, at, 4) for at in (4, 8)]
    kept = [number_at(shown, at, 4) / max(1, number_at(shown, at + 4, 4)) for at in (0, 8)]
    return bool(shown) and any(side - part > _BLOCK_PX for side, part in zip(sides, kept, strict=True))


def _claim(encoded: bytes, box: Box, contents: _Contents, is_inner: bool) -> None:
    """is_inner: the box is a child of `meta` or `moov`, where the tables are."""
    if box.name in _HOLDERS:
        contents.claimed.append((box.start, box.first))
    elif (is_inner and box.name in _TABLES) or (box.name == b"uuid" and encoded[box.first : box.first + 16] == _C2PA):
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
        contents.has_tracks = True
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
        places = range(first, min(offset, box.last), link_bytes)
        linked += (number_at(encoded, at, link_bytes) % is_needed for at in places)


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


def _auxiliary(encoded: bytes, contents: _Contents, items: set[int], names: tuple[bytes, ...] = _ALPHA) -> list[int]:
    """Return the auxiliary items of others whose kind begins with one of these names; by default their alpha."""
    sources = {source for kind, source, target in contents.references if kind == b"auxl" and target in items}
    return [item for item in sources if _property(encoded, contents, item, b"auxC")[_FULL_BYTES:].startswith(names)]


def _made_of(contents: _Contents, items: set[int]) -> set[int]:
    for _ in range(_MAX_DEPTH):
        derived = {item for item in items if contents.kinds.get(item) in _DERIVED}
        references = ((source, target) for kind, source, target in contents.references if kind == b"dimg")
        items = items | {target for source, target in references if source in derived}
    return items
