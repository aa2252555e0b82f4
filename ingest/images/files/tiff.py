"""TIFF and BigTIFF: their directories, and the parts that the scanned pages do not account for.

The pages account for the header, their directories, the values of known tags, and as many strips or tiles as they need.
Source: Adobe, "TIFF Revision 6.0".
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from PIL import Image, ImagePalette, TiffImagePlugin

from ingest.images.files import jpeg
from ingest.images.files.pieces import (
    DamagedError,
    Kind,
    Piece,
    Range,
    checked_bytes,
    merged,
    num_bytes_of,
    unclaimed,
    used_bytes,
)

_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_NUMBERS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}


@dataclass(frozen=True)
class TiffEntry:
    """One tag of a directory."""

    tag: int

    kind: int
    """Type of its values."""

    own_bytes: Range
    values: Range
    is_inside: bool
    """Whether `values` is within `own_bytes`."""

    @property
    def value_bytes(self) -> int:
        return _TYPE_BYTES.get(self.kind, 1)


@dataclass(frozen=True)
class Directory:
    """Offsets are in bytes from the start of the file."""

    first: int
    last: int
    entries: tuple[TiffEntry, ...]

    following: int
    """Offset of the next directory; 0 if there is none."""

    @cached_property
    def by_tag(self) -> dict[int, TiffEntry]:
        """The last entry of each tag, which is the valid one."""
        return {entry.tag: entry for entry in self.entries}


class TiffFile:
    """A reader of TIFF. struct.error if the file ends too early, or if more than twice its size was read."""

    def __init__(self, encoded: bytes):
        self.encoded = encoded
        self._order = ">" if encoded[:2] == b"MM" else "<"
        is_big = encoded[2:4] in (b"\x2b\0", b"\0\x2b")
        self._number, self._offset = ("Q", "Q") if is_big else ("H", "I")
        self._start = 8 if is_big else 4
        self._offset_bytes = struct.calcsize(self._offset)
        self.header_bytes = self._start + self._offset_bytes
        self._room = 2 * len(encoded)

    @property
    def first_page(self) -> int:
        return self._at(self._start, self._offset)

    def following(self, offset: int) -> int:
        return self._at(self._entries(offset)[1], self._offset)

    def directory(self, offset: int) -> Directory:
        first, last = self._entries(offset)
        following, entries = self._at(last, self._offset), []
        self._take(last - first)
        for start in range(first, last, 4 + 2 * self._offset_bytes):
            tag, kind = struct.unpack_from(self._order + "HH", self.encoded, start)
            inside = start + 4 + self._offset_bytes
            num_bytes = self._at(start + 4, self._offset) * _TYPE_BYTES.get(kind, 1)
            is_inside = num_bytes <= self._offset_bytes
            values = inside if is_inside else self._at(inside, self._offset)
            end = inside + self._offset_bytes
            entries.append(TiffEntry(tag, kind, (start, end), (values, values + num_bytes), is_inside))
        return Directory(offset, last + self._offset_bytes, tuple(entries), following)

    def numbers(self, directory: Directory, tag: int, most: int) -> tuple[int, ...]:
        """Return the first values of a tag, at most `most`; none if it is missing or does not hold whole numbers."""
        entry = directory.by_tag.get(tag)
        if entry is None or entry.kind not in _NUMBERS:
            return ()
        first, last = entry.values
        count = min((last - first) // entry.value_bytes, most)
        self._check(first)
        self._take(count * entry.value_bytes)
        return struct.unpack_from(f"{self._order}{count}{_NUMBERS[entry.kind]}", self.encoded, first)

    def number(self, directory: Directory, tag: int, default: int) -> int:
        return (*self.numbers(directory, tag, 1), default)[0]

    def beginning_at(self, directory_offset: int) -> bytes:
        """Return the same file with the directory at this offset as its first one."""
        offset = struct.pack(self._order + self._offset, directory_offset)
        return self.encoded[: self._start] + offset + self.encoded[self.header_bytes :]

    def _entries(self, offset: int) -> Range:
        first = offset + struct.calcsize(self._number)
        return first, first + self._at(offset, self._number) * (4 + 2 * self._offset_bytes)

    def _at(self, offset: int, number_format: str) -> int:
        self._check(offset)
        return int(struct.unpack_from(self._order + number_format, self.encoded, offset)[0])

    def _check(self, offset: int) -> None:
        if offset > len(self.encoded):  # possibly more than struct accepts
            raise struct.error("after the end")

    def _take(self, num_bytes: int) -> None:
        """Count the bytes read: overlapping directories, and values that many tags share, would take far too long."""
        self._room -= num_bytes
        if self._room < 0:
            raise struct.error("read more than twice over")


def num_pages(encoded: bytes) -> int:
    """Count the pages of the file; Pillow's own count takes quadratic time. A page beyond the end of the file is
    counted, so that decoding reports it as missing."""
    file, visited = TiffFile(encoded), set[int]()
    with suppress(struct.error):
        page = file.first_page
        while page and page not in visited:
            visited.add(page)
            page = file.following(page)
    return len(visited)


def is_sound(encoded: bytes) -> bool:
    """Return whether the first directory of a TIFF can be read, and says where in the file its pixels are."""
    file = TiffFile(encoded)
    try:
        directory = file.directory(file.first_page)
        parts = _pixels(file, directory)[0]
    except struct.error:
        return False
    return bool(parts) and all(first < last <= len(encoded) for first, last in parts)


def mend_palette(image: Image.Image) -> None:
    """Let a page that is not loaded yet have the colours that libtiff shows: a colour map without a value above 255 has
    8 bits instead of 16. To Pillow, such a picture is black throughout."""
    if isinstance(image, TiffImagePlugin.TiffImageFile) and image.mode in ("P", "PA"):
        colours = image.tag_v2[_COLOUR_MAP]
        if max(colours) < 256:
            image.palette = ImagePalette.raw("RGB;L", bytes(colours))


def num_entries(encoded: bytes) -> int:
    """Count what a decoder may read of the first directory; 0 if there is none."""
    file = TiffFile(encoded)
    try:
        first, last = file._entries(file.first_page)
    except struct.error:
        return 0
    return (min(last, len(encoded)) - first) // (4 + 2 * file._offset_bytes)


def second_directory(encoded: bytes) -> bytes | None:
    """Return the file with its second directory as the first one, or None. EXIF has its thumbnail there."""
    file = TiffFile(encoded)
    try:
        offset = file.following(file.first_page)
        return file.beginning_at(offset) if offset else None
    except struct.error:
        return None


_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _SAMPLES, _PLANAR = 256, 257, 258, 259, 277, 284
_STRIP_OFFSETS, _ROWS_PER_STRIP, _STRIP_BYTES = 273, 278, 279
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_BYTES = 322, 323, 324, 325
_JPEG_OFFSET, _JPEG_BYTES = 513, 514
_UNCOMPRESSED, _OLD_JPEG, _JPEG = 1, 6, 7
_DEFLATED = (8, 32946)
_EXIF, _GPS, _INTEROPERABILITY, _SUB_DIRECTORIES = 34665, 34853, 40965, 330
_OTHER_PICTURES = ({_SUB_DIRECTORIES}, {_STRIP_OFFSETS, _TILE_OFFSETS})
"""Tags of pictures that are no pages; of strips beside tiles, some decoders show these and others those."""
_POSITIONS = frozenset([_STRIP_OFFSETS, _STRIP_BYTES, _TILE_OFFSETS, _TILE_BYTES])
_METADATA_TAGS = frozenset(
    [
        *(*range(269, 273), 285, 305, 306, 315, 316, 333, 337, 33432),  # texts
        *(700, 33723, 34377, 34675, 18246, 18249, *range(40091, 40096), 50341),  # XMP, IPTC, Photoshop, ICC, Windows
        *(33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113),  # geographic position
    ]
)
_TRANSFER_FUNCTION, _COLOUR_MAP, _JPEG_TABLES = 301, 320, 347
_MAX_JPEG_TABLES_BYTES = 4096
"""Limit of JPEG tables: four of quantization and eight of Huffman codes take less."""
_LAST_BASELINE_TAG = 532
_MAX_SMALL_BYTES = 1024
_MAX_INNER = 8


def pieces(encoded: bytes, num_seen: int) -> Iterator[Piece]:
    """Yield the parts of a TIFF. num_seen: pages that are scanned."""
    file, account = TiffFile(encoded), _Account()
    account.claimed.append((0, file.header_bytes))
    visited, has_others = set[int](), False
    with suppress(struct.error):  # damaged: nothing accounts for what was not reached
        offset = file.first_page
        while offset and offset not in visited:
            visited.add(offset)
            directory = file.directory(offset)
            has_others |= any(directory.by_tag.keys() >= tags for tags in _OTHER_PICTURES)
            if len(visited) <= num_seen:
                account.add_page(file, directory, len(visited) - 1)
            else:
                account.frames.append((directory.first, directory.last))
                account.frames.extend(_pixels(file, directory)[0])
            offset = directory.following
    yield from account.pieces(file, has_others)


@dataclass(frozen=True)
class _Account:
    """Ranges of a file, by what they hold."""

    claimed: list[Range] = field(default_factory=list)
    """Ranges that a page accounts for."""

    metadata: list[Range] = field(default_factory=list)

    compressed: list[Range] = field(default_factory=list)
    """Ranges of compressed pixels of scanned pages."""

    frames: list[Range] = field(default_factory=list)
    """Ranges of pages that are not scanned."""

    unknown: list[Range] = field(default_factory=list)

    def add_page(self, file: TiffFile, directory: Directory, index: int) -> None:
        entries = directory.entries
        self.claimed.append((directory.first, entries[0].own_bytes[0] if entries else directory.last))
        self.claimed.append((entries[-1].own_bytes[1] if entries else directory.first, directory.last))
        pixels, num_positions = _pixels(file, directory, index)
        is_compressed = file.number(directory, _COMPRESSION, _UNCOMPRESSED) not in (_UNCOMPRESSED, _OLD_JPEG, _JPEG)
        (self.compressed if is_compressed else self.claimed).extend(pixels)
        max_bits = max(file.numbers(directory, _BITS, 1), default=1)
        for entry in entries:
            is_known = _is_known(entry, max_bits) and directory.by_tag[entry.tag] is entry
            (self.claimed if is_known else self.unknown).append(entry.own_bytes)
            first, last = entry.values
            if entry.tag in _POSITIONS:
                last = min(last, first + num_positions * entry.value_bytes)
            if not entry.is_inside:
                known = self.claimed if entry.tag in _POSITIONS else self.metadata
                (known if is_known else self.unknown).append((first, last))
        self._add_metadata(file, directory)

    def _add_metadata(self, file: TiffFile, directory: Directory) -> None:
        """Account for EXIF and the directories that it refers to."""
        offsets = [offset for tag in (_EXIF, _GPS) for offset in file.numbers(directory, tag, 1)]
        for offset in offsets:
            inner = file.directory(offset)
            self.metadata.append((inner.first, inner.last))
            self.metadata.extend(entry.values for entry in inner.entries if not entry.is_inside)
            if len(offsets) < _MAX_INNER:
                offsets.extend(file.numbers(inner, _INTEROPERABILITY, 1))

    def pieces(self, file: TiffFile, has_others: bool) -> Iterator[Piece]:
        encoded, num_bytes = file.encoded, len(file.encoded)
        for kind, ranges in ((Kind.METADATA, self.metadata), (Kind.PIXELS, self.compressed)):
            yield from (Piece(kind, encoded[first:last]) for first, last in merged(ranges, num_bytes))
        yield Piece(Kind.FRAMES, b"", num_bytes_of(merged(self.frames, num_bytes)))
        claimed = [*self.claimed, *self.compressed, *self.frames]
        if has_others:  # possibly within metadata; they are not looked at
            yield Piece(Kind.EMBEDDED_IMAGE, num_bytes=max(1, num_bytes_of(unclaimed(claimed, num_bytes))))
            return
        claimed += self.metadata
        marks = sorted(first for first, _ in self.unknown)
        for first, last in unclaimed(claimed, num_bytes):
            if last - first < 2 * file.header_bytes and encoded[first:last].lstrip(b"\0")[:4] == encoded[:4]:
                continue  # pages that were written one by one each have a header
            is_behind = last == num_bytes and bisect_left(marks, first) == bisect_left(marks, last)
            yield Piece(Kind.TRAILING_DATA if is_behind else Kind.UNKNOWN_CHUNK, encoded[first:last])


def _is_known(entry: TiffEntry, max_bits: int) -> bool:
    """Return whether a tag is known and no larger than expected. max_bits: per sample, which set the size of tables."""
    if entry.tag in (_EXIF, _GPS):
        return entry.kind in _NUMBERS and entry.values[1] - entry.values[0] == entry.value_bytes
    if entry.tag in _METADATA_TAGS or entry.tag in _POSITIONS or entry.tag == _SUB_DIRECTORIES:
        return True
    most = _MAX_SMALL_BYTES
    if entry.tag == _JPEG_TABLES:
        most = _MAX_JPEG_TABLES_BYTES
    elif entry.tag in (_TRANSFER_FUNCTION, _COLOUR_MAP):
        most = 3 * 2 * 2 ** min(max_bits, 16)
    return entry.tag <= _LAST_BASELINE_TAG and entry.values[1] - entry.values[0] <= most


def _pixels(file: TiffFile, directory: Directory, page: int | None = None) -> tuple[list[Range], int]:
    """Return the needed strips or tiles, and their number. DamagedError for a scanned `page` that is damaged."""
    width, height = file.number(directory, _WIDTH, 0), file.number(directory, _HEIGHT, 0)
    compression = file.number(directory, _COMPRESSION, _UNCOMPRESSED)
    is_tiled = _TILE_OFFSETS in directory.by_tag
    if is_tiled:
        part_width, rows = file.number(directory, _TILE_WIDTH, width), file.number(directory, _TILE_HEIGHT, height)
    else:
        part_width, rows = width, min(height, file.number(directory, _ROWS_PER_STRIP, height))
    num_samples = file.number(directory, _SAMPLES, 1)
    bits = file.numbers(directory, _BITS, num_samples) or (1,)
    is_planar = file.number(directory, _PLANAR, 1) == 2
    num_down = -(-height // max(1, rows))
    num_parts = -(-width // max(1, part_width)) * num_down * (num_samples if is_planar else 1)
    row_bits = part_width * (max(bits) if is_planar else max(sum(bits), num_samples * bits[0]))
    offsets = file.numbers(directory, _TILE_OFFSETS if is_tiled else _STRIP_OFFSETS, num_parts)
    sizes = file.numbers(directory, _TILE_BYTES if is_tiled else _STRIP_BYTES, num_parts)
    parts = []
    for number, first in enumerate(offsets):
        num_bytes = sizes[number] if number < len(sizes) else len(file.encoded)
        is_last_strip = not is_tiled and (number + 1) % num_down == 0
        num_needed = -(-row_bits // 8) * (height - rows * (num_down - 1) if is_last_strip else rows)
        if compression == _UNCOMPRESSED:
            num_bytes = min(num_bytes, num_needed)
        elif compression in _DEFLATED:
            packed = file.encoded[first : first + num_bytes]
            num_bytes = (used_bytes(packed, num_needed) if page is None else checked_bytes(packed, num_needed, page))[0]
        elif compression == _JPEG:
            packed = file.encoded[first : first + num_bytes]
            num_bytes = min(num_bytes, jpeg.streams(packed, [0])[0].last)
            if page is not None and packed[num_bytes - 2 : num_bytes] != jpeg.END:
                raise DamagedError("the pixels are truncated", page)
        parts.append((first, first + num_bytes))
    for first in file.numbers(directory, _JPEG_OFFSET, 1) if compression == _OLD_JPEG else ():
        parts.append((first, first + file.number(directory, _JPEG_BYTES, len(file.encoded))))
    return parts, num_parts
