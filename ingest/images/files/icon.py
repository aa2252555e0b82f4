"""Icons of Windows (ICO): pictures of the same thing in several sizes, of which the largest is scanned.

A picture is a PNG, or a bitmap without the header of its file and with a mask behind its pixels.
Source: Microsoft, "Icons" (ICONDIR, ICONDIRENTRY).
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import cast

from PIL import ImageFile
from PIL.IcoImagePlugin import IcoFile

from ingest.images.files import png
from ingest.images.files.metadata import PNG_MAGIC, png_metadata
from ingest.images.files.pieces import Kind, Piece, unclaimed

MAGIC = b"\0\0\1\0"
_HEADER_BYTES, _ENTRY_BYTES, _MASKS_BYTES = 6, 16, 12
_MAX_COMPARED = 8
"""Limit of smaller pictures that are compared with the largest."""


@dataclass(frozen=True)
class Entry:
    """A picture of an icon."""

    first: int
    last: int
    """Offsets in the file."""

    size: tuple[int, int]
    """Width and height by its own header: the directory states at most 256."""

    bits: int
    """Of each pixel, 0 for a PNG."""

    place: int
    """In the directory, from 0."""


def largest(encoded: bytes) -> Entry:
    """Return the picture that is shown. ValueError if there is none."""
    return max(_entries(encoded), key=lambda entry: (prod(entry.size), entry.bits))


def _entries(encoded: bytes) -> Iterator[Entry]:
    for place in range(number_at(encoded, 4, 2)):
        at = _HEADER_BYTES + place * _ENTRY_BYTES
        first = number_at(encoded, at + 12, 4)
        last = first + number_at(encoded, at + 8, 4)
        if first >= last or last > len(encoded):
            continue
        if encoded.startswith(PNG_MAGIC, first):
            width, height, bits = *(int.from_bytes(encoded[first + n : first + n + 4]) for n in (16, 20)), 0
        else:
            width, height = number_at(encoded, first + 4, 4), number_at(encoded, first + 8, 4) // 2
            bits = number_at(encoded, first + 14, 2)
        yield Entry(first, last, (width, height), bits, place)


def opened(encoded: bytes) -> ImageFile.ImageFile:
    """Return the picture that is shown, a bitmap decoded. Errors are those of Pillow."""
    entry = largest(encoded)
    image = IcoFile(io.BytesIO(_alone(encoded, entry))).frame(0)
    if getattr(image, "n_frames", 1) > 1:
        raise ValueError("an animated picture in an icon")
    image.format = "ICO"
    return cast(ImageFile.ImageFile, image)  # a bitmap has all that is asked of one


def _alone(encoded: bytes, entry: Entry) -> bytes:
    """Return an icon with this picture only."""
    content = encoded[entry.first : min(entry.last, entry.first + _bitmap_bytes(encoded, entry))]  # the mask is last
    sizes = (side % 256 for side in entry.size)
    head = struct.pack("<4BHHII", *sizes, 0, 0, 1, entry.bits, len(content), _HEADER_BYTES + _ENTRY_BYTES)
    return MAGIC + b"\1\0" + head + content


def _bitmap_bytes(encoded: bytes, entry: Entry) -> int:
    """Return the size of a picture, with colours and mask; that of the file for a PNG."""
    if not entry.bits:
        return len(encoded)
    info = encoded[entry.first : entry.last]
    num_colours = (number_at(info, 32, 4) or 2**entry.bits) if entry.bits <= 8 else 0
    width, height = entry.size
    rows = sum(-(-width * bits // 32) * 4 for bits in (entry.bits, 1)) * height
    masks = _MASKS_BYTES if number_at(info, 16, 4) else 0
    return number_at(info, 0, 4) + masks + 4 * num_colours + rows


def metadata(encoded: bytes) -> set[str]:
    """Return the kinds in the text and EXIF of all pictures that are PNG. ValueError as of `png_metadata`."""
    parts = dict.fromkeys((entry.first, entry.last) for entry in _entries(encoded) if not entry.bits)
    kinds = {"unread"} if len(parts) > _MAX_COMPARED else set[str]()
    return kinds.union(*(png_metadata(encoded[slice(*part)])[0] for part in islice(parts, _MAX_COMPARED)))


def pieces(encoded: bytes) -> Iterator[Piece]:
    """Yield the parts of an icon. DamagedError as that of a PNG."""
    shown = largest(encoded)
    claimed = [(0, _HEADER_BYTES), (shown.first, shown.last)]
    content = encoded[shown.first : shown.last]
    if not shown.bits:
        yield from png.pieces(content, 1)
    else:
        yield Piece(Kind.UNKNOWN_CHUNK, content[_bitmap_bytes(encoded, shown) :])
    for number, entry in enumerate(_entries(encoded)):
        place = _HEADER_BYTES + _ENTRY_BYTES * entry.place
        claimed.append((place, place + _ENTRY_BYTES))
        if entry.place != shown.place:
            file = _alone(encoded, entry) if number <= _MAX_COMPARED else b""
            yield Piece(Kind.EMBEDDED_IMAGE, file, entry.last - entry.first)
            claimed.append((entry.first, entry.last))
    for first, last in unclaimed(claimed, len(encoded)):
        yield Piece(Kind.TRAILING_DATA if last == len(encoded) else Kind.UNKNOWN_CHUNK, encoded[first:last])


def number_at(encoded: bytes, offset: int, num_bytes: int) -> int:
    return int.from_bytes(encoded[offset : offset + num_bytes], "little")
