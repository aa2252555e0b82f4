"""The directories of a TIFF or BigTIFF, and the numbers in them. Source: Adobe, "TIFF Revision 6.0"."""

import struct
from dataclasses import dataclass
from functools import cached_property

from ingest.images.files.pieces import Range

_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_NUMBERS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}


@dataclass(frozen=True)
class TiffEntry:
    """One tag of a directory."""

    tag: int

    kind: int
    """Type of its values."""

    own_bytes: Range
    """Range of the entry itself."""

    values: Range
    """Range of its values."""

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
        """Return the first values of a tag, at most `most`; none if the tag is missing or does not hold whole
        numbers."""
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
    """Count the pages of the file; Pillow's own count takes quadratic time.

    A page beyond the end of the file is counted, so that decoding reports it as missing.
    """
    file, visited = TiffFile(encoded), set[int]()
    try:
        page = file.first_page
        while page and page not in visited:
            visited.add(page)
            page = file.following(page)
    except struct.error:
        return len(visited)
    return len(visited)


def second_directory(encoded: bytes) -> bytes | None:
    """Return the file with its second directory as the first one, or None. EXIF has its thumbnail there."""
    file = TiffFile(encoded)
    try:
        offset = file.following(file.first_page)
        return file.beginning_at(offset) if offset else None
    except struct.error:
        return None
