"""What a file holds beyond the pictures that are scanned. A release ships the file, all of it.

One walker per format (`jpeg`, `png`, …) says what each part of the file is, and `unseen_in` judges the parts. Padding
does not count, nor does a smaller copy of what was scanned. Pictures inside a part are found by how they begin, and
compared with what was scanned. Damage never raises, except for that of pixels which a decoder does not report
(`DamagedError`); parts that a walker does not reach count as unseen.
"""

import base64
import binascii
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from PIL import Image, ImageFile

from ingest.images.files import gif, heif, icon, jpeg, jpeg2000, memory, png, tiff, webp
from ingest.images.files.copies import Scanned
from ingest.images.files.formats import HAS_HEIF, HEIF
from ingest.images.files.jpeg import Stream
from ingest.images.files.magic import BMP_HEADER, HEAD_BYTES, picture_in_place_of_text
from ingest.images.files.pieces import IGNORED_BYTES, Kind, Piece, Range, unclaimed
from ingest.images.files.tiff import num_entries, second_directory

_MAGICS: tuple[tuple[bytes, int, str], ...] = (
    (b"\xff\xd8\xff", 0, "JPEG"),
    (b"\x89PNG\r\n\x1a\n", 0, "PNG"),
    (b"GIF87a", 0, "GIF"),
    (b"GIF89a", 0, "GIF"),
    (b"WEBPVP8", 8, "WEBP"),
    (b"ftypavif", 4, "AVIF"),
    (b"ftypavis", 4, "AVIF"),
    (b"II*\0", 0, "TIFF"),
    (b"MM\0*", 0, "TIFF"),
    *((mark, 4, HEIF if HAS_HEIF else "") for mark in (b"ftypheic", b"ftypheix", b"ftypmif1")),
    (b"jP  \r\n\x87\n", 4, "JPEG2000"),
    (b"JXL \r\n\x87\n", 4, ""),
)
"""Mark of a picture, its offset from the picture's beginning, and Pillow's name; "" for formats that are not decoded.
Only marks long enough to be searched anywhere; the beginning of a piece is left to `ingest.images.files.magic`."""
_IN_PIXELS = _MAGICS[:2]
_HEADERS = (("BMP", BMP_HEADER),)
"""Patterns of formats whose fixed bytes are too short to be searched for."""
_DECODED = frozenset([*(name for *_, name in _MAGICS), *(name for name, _ in _HEADERS)])
_SURE = frozenset(["JPEG", "PNG", "WEBP", "AVIF", HEIF])
"""Formats whose readable header proves a picture; for the others the pixels must decode as well."""
_BASE64 = re.compile(rb"(?:/9j/|iVBORw0KGgo|UklGR|R0lGOD)(?:[A-Za-z0-9+/=\s]|&#x?[0-9aAdD]{1,2};)*+")
_ENTITY = re.compile(rb"&#x?[0-9aAdD]{1,2};|\s")

_HEAD_BYTES = 16
_MAX_CANDIDATES = 64
_ENTRIES_OF_A_CANDIDATE = 100
"""As many entries of TIFF directories count as a candidate: 64 heads in the same megabyte took five seconds."""
_MAX_COMPARED = 8
"""Limit of pictures compared in one file; any further one counts as new."""

Outcome = Literal["none", "copy", "new"]


@dataclass(frozen=True)
class Inner:
    """A position inside a file where a picture may begin."""

    held: bytes
    """Part of the file, as stored or unpacked."""

    first: int
    """Where the picture begins in `held`."""

    format: str
    """Pillow's name of the format; empty for a format that is not decoded."""

    offset: int
    """Offset in the part of the file that was searched."""

    @property
    def is_sure(self) -> bool:
        """Whether a readable header of the format proves that this is a picture."""
        return self.format in _SURE or not self.format

    def files(self) -> Iterator[bytes]:
        """Yield the pictures as files of their own: a TIFF such as EXIF may hold one in its second directory."""
        yield self.held[self.first :]
        second = second_directory(self.held[self.first :]) if self.format == "TIFF" else None
        if second is not None:
            yield second


_COPY_FORMATS = ("PPM", "AVIF", *([HEIF] if HAS_HEIF else []), "ICO")
"""Formats of a smaller picture that a walker takes out as a file of its own (`Piece.content`): the thumbnail of a JFIF
header becomes a PPM, a thumbnail in a HEIF that HEIF with another primary item. All are tried, since the piece does not
say which it is."""


class PictureSearch:
    """Looks for pictures in the parts of one file, within bounds for all of them together."""

    def __init__(self, scanned: Scanned):
        self._scanned = scanned
        self._candidates_left = _MAX_CANDIDATES
        self._compared_left = _MAX_COMPARED

    def look(self, content: bytes, is_pixels: bool) -> tuple[int | None, list[Range]]:
        """Judge the pictures of `inner_pictures`. Return the offset of the first that shows anything but what was
        scanned, and no ranges. If there is none, return None and the ranges of copies of what was scanned."""
        copies = list[Range]()
        for inner in inner_pictures(content, is_pixels):
            outcome = self._judged(inner)
            if outcome == "new":
                return inner.offset, []
            if outcome == "copy" and inner.format == "JPEG" and inner.held is content:
                num_bytes = _plain_bytes(content[inner.first :])
                copies += [(inner.first, inner.first + num_bytes)] if num_bytes else []
        return None, copies

    def is_copy(self, content: bytes) -> bool:
        """Return whether a picture file shows only what was scanned."""
        return any(self._compared(content, name) == "copy" for name in _COPY_FORMATS)

    def _judged(self, inner: Inner) -> Outcome:
        files = [*inner.files()]
        num_all = sum(map(num_entries, files)) if inner.format == "TIFF" else 0
        self._candidates_left -= 1 + num_all // _ENTRIES_OF_A_CANDIDATE
        if self._candidates_left < 0 or not inner.format:
            return "new"
        outcomes = [self._compared(file, inner.format) for file in files]
        return "new" if "new" in outcomes else "copy" if "copy" in outcomes else "none"

    def _compared(self, content: bytes, format_name: str) -> Outcome:
        """Compare a picture. One with more pixels than the scanned image is not decoded and counts as new."""
        outcome: Outcome = "none"
        try:
            picture = memory.opened(content, (format_name,))
            outcome = "new" if format_name in _SURE else "none"
            self._compared_left -= 1
            size = memory.largest_size(picture, memory.canvas_of(content, 1))
            if self._compared_left < 0 or not self._scanned.is_larger_than(size):
                return "new"
            memory.check_bytes(size, memory.decoding_bytes(picture, size, 1, len(content), memory.Views(1, 512), 8))
        except memory.TooLargeError:
            return "new"
        except Exception:  # the edge, as in ingest.images.decode: hostile bytes make the parsers raise anything
            return outcome
        try:
            return "copy" if self._scanned.holds(picture) and getattr(picture, "n_frames", 1) == 1 else "new"
        except Exception:  # the edge, as in ingest.images.decode: hostile bytes make the parsers raise anything
            return outcome


def inner_pictures(content: bytes, is_pixels: bool) -> Iterator[Inner]:
    """Yield pictures anywhere in some bytes, including base 64; in pixel data only JPEG and PNG."""
    for offset, format_name in _candidates(content, _IN_PIXELS if is_pixels else _MAGICS):
        yield Inner(content, offset, format_name, offset)
    if is_pixels:
        return
    # Formats that are recognised only at the beginning, not in the middle of other bytes.
    name = picture_in_place_of_text(content[:HEAD_BYTES]) if len(content) > IGNORED_BYTES else None
    if name is not None and name not in _DECODED:
        yield Inner(content, 0, name if name == "PPM" else "", 0)
    for text in _BASE64.finditer(content):
        decoded = _from_base64(text[0])
        heads = [name for offset, name in _candidates(decoded[:_HEAD_BYTES], _MAGICS) if offset == 0]
        yield from (Inner(decoded, 0, name, text.start()) for name in heads)


def _candidates(content: bytes, magics: Sequence[tuple[bytes, int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the offsets where pictures may begin, and the format."""
    for magic, num_before, format_name in magics:
        offset = content.find(magic)
        while offset >= 0:
            if offset >= num_before:
                yield offset - num_before, format_name
            offset = content.find(magic, offset + 1)
    for format_name, header in () if magics is _IN_PIXELS else _HEADERS:
        match = header.search(content)
        while match:
            yield match.start(), format_name
            match = header.search(content, match.start() + 1)


def _plain_bytes(content: bytes) -> int:
    """Return the size of the JPEG at the start of `content`; 0 if it has too many segments, or holds much else."""
    try:
        stream = jpeg.streams(content, [0])[0]
    except ValueError:
        return 0
    num_unknown = sum(len(p.content) for p in jpeg.pieces(content[: stream.last], [stream]) if p.kind != Kind.METADATA)
    return stream.last if num_unknown <= IGNORED_BYTES else 0


def _from_base64(text: bytes) -> bytes:
    digits = _ENTITY.sub(b"", text).rstrip(b"=")
    try:
        return base64.b64decode(digits[: len(digits) - (len(digits) % 4 == 1)] + b"==")  # too much padding is harmless
    except binascii.Error:
        return b""


MAX_INNER = 64
"""Limit of `Unseen.pictures` of one file; a None at the end means that there are more."""


@dataclass(frozen=True)
class Unseen:
    """Content of a file that may not be scanned."""

    kinds: tuple[str, ...]
    """Keys of `ingest.images.files.pieces.UNSEEN_KINDS`, sorted; empty if everything is scanned."""

    num_bytes: int
    """Its size in the file."""

    pictures: tuple[Inner | None, ...]
    """Positions in this content where pictures may begin. None: it may hold some that cannot be taken out of the file,
    such as frames after those that were scanned. Some are missing unless `unseen_in` was asked for pictures."""


_WALKERS = {"PNG": png.pieces, "GIF": gif.pieces, "WEBP": webp.pieces, "TIFF": tiff.pieces}


def pieces_of(image: ImageFile.ImageFile, encoded: bytes, num_seen: int, streams: Sequence[Stream]) -> Iterator[Piece]:
    """Yield the parts of a file. num_seen: frames that are scanned. streams: their positions in a JPEG."""
    if image.format in _WALKERS:
        return _WALKERS[image.format](encoded, num_seen)
    if image.format in ("JPEG", "MPO"):
        return jpeg.pieces(encoded, streams)
    if image.format in ("AVIF", HEIF):
        return heif.pieces(encoded, image.has_transparency_data)
    if image.format in ("JPEG2000", "ICO"):
        return jpeg2000.pieces(encoded) if image.format == "JPEG2000" else icon.pieces(encoded)
    return bmp_pieces(encoded) if image.format == "BMP" else ppm_pieces(encoded)


def unseen_in(
    encoded: bytes, pieces: Iterable[Piece], scanned: Scanned, has_more_frames: bool, takes_pictures: bool = False
) -> Unseen:
    """Judge the pieces of a file. has_more_frames: than were scanned. takes_pictures: return `pictures`."""
    search, num_bytes, num_unpadded = PictureSearch(scanned), Counter[str](), Counter[str]()
    kinds = {Kind.FRAMES} if has_more_frames else set[str]()
    pictures: list[Inner | None] = [None] if has_more_frames else []
    for piece in pieces:
        if piece.num_bytes is not None:
            if piece.num_bytes and not (piece.content and search.is_copy(piece.content)):
                kinds.add(piece.kind)
                num_bytes[piece.kind] += piece.num_bytes
                pictures += [Inner(piece.content, 0, name, 0) for name in _COPY_FORMATS] if piece.content else [None]
            continue
        if not piece.content:
            continue
        new, copies = search.look(piece.content, is_pixels=piece.kind == Kind.PIXELS)
        if new is not None:
            kinds.add(Kind.EMBEDDED_IMAGE)
            most = MAX_INNER + 1 if takes_pictures else 0
            pictures += islice(inner_pictures(piece.content, piece.kind == Kind.PIXELS), most)
        if piece.kind not in (Kind.METADATA, Kind.PIXELS):
            rest = b"".join(piece.content[first:last] for first, last in unclaimed(copies, len(piece.content)))
            unpadded = rest.strip(rest[:1])
            num_unpadded[piece.kind] += len(unpadded)
            num_bytes[piece.kind] += len(rest) if unpadded else 0
        elif new is not None:
            num_bytes[Kind.EMBEDDED_IMAGE] += len(piece.content) - new
    kinds |= {kind for kind in (Kind.TRAILING_DATA, Kind.UNKNOWN_CHUNK) if num_unpadded[kind] > IGNORED_BYTES}
    if len(pictures) > MAX_INNER:
        pictures = [*pictures[:MAX_INNER], None]
    size = min(sum(num_bytes[kind] for kind in kinds), len(encoded))
    return Unseen(tuple(sorted(kinds)), size, tuple(pictures))


_COMMENT = re.compile(rb"#[^\r\n]*")
_FILE_HEADER_BYTES, _MAX_INFO_BYTES, _MASK_BYTES = 14, 124, 16


def bmp_pieces(encoded: bytes) -> Iterator[Piece]:
    """Yield the parts of a BMP."""
    image = _opened(encoded)
    decoder, _, pixels, arguments = image.tile[0]
    info_bytes = min(_MAX_INFO_BYTES, icon.number_at(encoded, 14, 4))
    num_bits, colour_bytes = (
        (icon.number_at(encoded, 28, 2), 4) if info_bytes > 12 else (icon.number_at(encoded, 24, 2), 3)
    )
    palette_bytes = colour_bytes * 2**num_bits if num_bits <= 8 else 0
    header = _FILE_HEADER_BYTES + info_bytes + _MASK_BYTES + palette_bytes
    if decoder == "raw" and isinstance(arguments, tuple):
        num_bytes = int(arguments[1]) * image.height
        yield Piece(Kind.UNKNOWN_CHUNK, _skipped(encoded[pixels : pixels + num_bytes], image.width, *arguments[:2]))
    else:  # runs, which may end before their data do, or skip pixels
        num_bytes = len(encoded) - pixels
        yield Piece(Kind.UNKNOWN_CHUNK, num_bytes=num_bytes)
    for first, last in unclaimed([(0, header), (pixels, pixels + num_bytes)], len(encoded)):
        yield Piece(Kind.TRAILING_DATA if last == len(encoded) else Kind.UNKNOWN_CHUNK, encoded[first:last])


def _skipped(pixels: bytes, width: int, mode: str, row_bytes: int) -> bytes:
    """Return what viewers skip in the pixels of a BMP: the fourth byte of each, or the top bit of each two bytes."""
    if mode == "BGR;15":
        rows = np.frombuffer(pixels[: len(pixels) // row_bytes * row_bytes], np.uint8).reshape(-1, row_bytes)
        return np.packbits(rows[:, 1 : 2 * width : 2] >> 7).tobytes()
    return pixels[mode.index("X") :: 4] if "X" in mode else b""


def _opened(encoded: bytes) -> ImageFile.ImageFile:
    """Open the image without loading it, since that empties `tile`."""
    return Image.open(io.BytesIO(encoded), formats=("BMP", "PPM"))


def ppm_pieces(encoded: bytes) -> Iterator[Piece]:
    image = _opened(encoded)
    decoder, _, first, given = image.tile[0]
    arguments = given if isinstance(given, tuple) else (given,)
    mode = str(arguments[0])
    header = encoded[:first]
    num_values = image.width * image.height * Image.getmodebands(image.mode)
    if decoder == "ppm_plain":  # text, in which comments and spaces say whatever they like
        last = len(encoded)
        yield Piece(Kind.UNKNOWN_CHUNK, num_bytes=last - first)
    elif mode.startswith("1"):
        last = first + -(-image.width // 8) * image.height
    else:
        is_wide = mode.startswith("I;16") or (decoder == "ppm" and arguments[1] > 255)
        last = first + num_values * (4 if mode.startswith("F") else 2 if is_wide else 1)
    if decoder == "ppm":
        values = np.frombuffer(encoded[first:last], ">u2" if is_wide else np.uint8)
        yield Piece(Kind.UNKNOWN_CHUNK, values[values > arguments[1]].tobytes())  # all shown as the largest
    yield Piece(Kind.UNKNOWN_CHUNK, b"".join(_COMMENT.findall(header)))
    yield Piece(Kind.TRAILING_DATA, encoded[last:])
