"""Which kinds of metadata a file holds, anywhere in it (kinds only, never the values), and what is kept of it besides
the pixels when it is cleaned (`ingest.images.rewriting`).

Pillow reports the metadata before the pixels. A release ships the whole file, so metadata after them counts too:
PNG text after the pixels, EXIF between the scans of a JPEG, XMP at the end of a GIF, every page of a TIFF.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from PIL import ExifTags, Image
from PIL.PngImagePlugin import MAX_TEXT_CHUNK, MAX_TEXT_MEMORY

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
TEXT_CHUNKS = frozenset([b"tEXt", b"zTXt", b"iTXt"])
_READ_BEHIND_PIXELS = TEXT_CHUNKS | {b"eXIf"}
EXIF_MAGIC = b"Exif\0\0"
IPTC_MAGIC = b"8BIM\x04\x04"
"""Photoshop's image resource that holds IPTC; a name, a length and the datasets follow."""
XMP_OPENING, XMP_CLOSING = b"<rdf:RDF", b"</rdf:RDF"
MAX_BLOCKS = 64
MAX_EXIF_BYTES = 2**16
MAX_XMP_BYTES = 2**24
DAMAGED = (SyntaxError, ValueError, KeyError, TypeError, IndexError, OSError, struct.error)
"""Errors of a damaged EXIF block, which no reader can use; the pixels are still good."""

_EXIF_KINDS: dict[int, str] = {
    ExifTags.Base.DateTime: "datetime",
    ExifTags.Base.DateTimeOriginal: "datetime",
    ExifTags.Base.DateTimeDigitized: "datetime",
    ExifTags.Base.Make: "camera",
    ExifTags.Base.Model: "camera",
    ExifTags.Base.LensModel: "camera",
    ExifTags.Base.BodySerialNumber: "serial",
    ExifTags.Base.LensSerialNumber: "serial",
    ExifTags.Base.ImageUniqueID: "serial",
    ExifTags.Base.CameraOwnerName: "artist",
    ExifTags.Base.Artist: "artist",
    ExifTags.Base.XPAuthor: "artist",
    ExifTags.Base.Copyright: "copyright",
    ExifTags.Base.ImageDescription: "description",
    ExifTags.Base.UserComment: "description",
    ExifTags.Base.XPTitle: "description",
    ExifTags.Base.XPComment: "description",
}
_XMP_KINDS: tuple[tuple[bytes, str], ...] = (
    (rb"(exif:GPSL|photoshop:(City|State|Country)|Iptc4xmpCore:Location)", "gps"),
    (rb"(xmp:CreateDate|photoshop:DateCreated|exif:DateTimeOriginal)", "datetime"),
    (rb"(tiff:Model|aux:Lens)", "camera"),
    (rb"aux:SerialNumber", "serial"),
    (rb"(dc:creator|photoshop:AuthorsPosition)", "artist"),
    (rb"dc:rights", "copyright"),
    (rb"dc:description", "description"),
)
_IPTC_KINDS: dict[int, str] = {
    5: "description",  # object name
    55: "datetime",
    80: "artist",  # by-line
    90: "gps",  # city
    92: "gps",  # sublocation
    95: "gps",  # province
    101: "gps",  # country
    105: "description",  # headline
    116: "copyright",
    120: "description",  # caption
}
"""Datasets of record 2 of the IPTC Information Interchange Model."""
_TEXT_CHUNK_KINDS: tuple[tuple[str, str], ...] = (
    ("gps", "gps"),
    ("location", "gps"),
    ("time", "datetime"),
    ("date", "datetime"),
    ("author", "artist"),
    ("artist", "artist"),
    ("copyright", "copyright"),
    ("source", "camera"),
    ("title", "description"),
    ("description", "description"),
    ("comment", "description"),
)
_SOFTWARE_COMMENTS = ("b'Created by OpenJPEG", "b'Kakadu-")
_SOFTWARE_TEXT_CHUNKS = ("date:create", "date:modify", "date:timestamp")  # ImageMagick's own, of the file


def frame_kinds(image: Image.Image) -> set[str]:
    """Return the kinds in the frame's EXIF and comment. image: after `orientation_of`, which loads all of it."""
    comment = image.info.get("comment")
    kinds = {"description"} if comment and not str(comment).startswith(_SOFTWARE_COMMENTS) else set[str]()
    with suppress(*DAMAGED):
        kinds.update(_exif_kinds(image.getexif()))  # one by one: those before any damage are kept
    return kinds


def file_metadata(content: bytes, exif_from: int = 0) -> set[str]:
    """Return the kinds in all XMP packets of a file, and in its EXIF blocks from byte `exif_from` on."""
    kinds: set[str] = set()
    offset, has_more = content.find(XMP_OPENING), False
    for _ in range(MAX_BLOCKS):
        if offset < 0:
            break
        last = content.find(XMP_CLOSING, offset, offset + MAX_XMP_BYTES)
        if last < 0:
            last = min(offset + MAX_XMP_BYTES, len(content))
            has_more |= last < len(content)
        kinds |= _xmp_kinds(content[offset:last])
        offset = content.find(XMP_OPENING, last)
    has_more |= offset >= 0
    for magic, first in ((EXIF_MAGIC, exif_from), (IPTC_MAGIC, 0)):
        offset = content.find(magic, first)
        for _ in range(MAX_BLOCKS):
            if offset < 0:
                break
            is_exif, block = magic == EXIF_MAGIC, content[offset : offset + MAX_EXIF_BYTES]
            kinds |= _block_kinds(block) if is_exif else _iptc_kinds(content, offset)
            offset = content.find(magic, offset + len(magic))
        has_more |= offset >= 0
    return kinds | {"unread"} if has_more else kinds


def _iptc_kinds(encoded: bytes, offset: int) -> set[str]:
    """Return the kinds of an IPTC resource, whose name, padded to an even length, follows its mark."""
    kinds: set[str] = set()
    offset += len(IPTC_MAGIC)
    offset += (encoded[offset] + 2 if offset < len(encoded) else 0) & ~1
    last = min(len(encoded), offset + 4 + int.from_bytes(encoded[offset : offset + 4]))
    offset += 4
    while offset + 5 <= last and encoded[offset] == 0x1C:
        num_bytes = int.from_bytes(encoded[offset + 3 : offset + 5])
        if offset + 5 + num_bytes > last:
            break  # damaged
        kind, text = _IPTC_KINDS.get(encoded[offset + 2]), encoded[offset + 5 : offset + 5 + num_bytes].strip()
        is_program = kind == "artist" and any(chr(byte).isdigit() for byte in text)  # "Picasa 2.7"
        if kind and encoded[offset + 1] == 2 and text and not is_program:
            kinds.add(kind)
        offset += 5 + num_bytes
    return kinds


MAX_CHUNKS = 2**17
"""Limit of the chunks of a PNG or WebP, and of the blocks of a GIF. Programs that write the pixels of a PNG in pieces
of 8 KiB reach it with a file of 1 GiB."""


def png_metadata(encoded: bytes) -> tuple[set[str], bytes]:
    """Return the kinds in a PNG's text and EXIF chunks, and the PNG without chunks because of which Pillow would refuse
    a whole picture: text that is too large to be read, faults of what a picture does not need, and what is damaged
    behind the pixels. The limits are Pillow's. Of another format: no kinds, and the file itself.
    """
    kinds: set[str] = set()
    if not encoded.startswith(PNG_MAGIC):
        return kinds, encoded
    rest, copied, room = [], 0, MAX_TEXT_MEMORY
    chunks = list(islice(png_chunks(encoded), MAX_CHUNKS + 1))
    if len(chunks) > MAX_CHUNKS:
        raise ValueError(f"more than {MAX_CHUNKS:,} chunks")
    end = next((first for name, first, _ in chunks if name == b"IEND"), len(encoded))
    begin = next((first for name, first, _ in chunks if name == b"IDAT"), end)
    unsound = set([chunk for chunk in chunks if chunk[0] == b"iCCP"][1:])  # libpng takes the first, Pillow the last
    others = (chunk for chunk in chunks if chunk[1] < begin and chunk not in unsound)
    unsound |= {chunk for chunk in others if not _is_sound(encoded, *chunk)}
    next_part = next((name for name, first, _ in chunks if first > begin and name in (b"fcTL", b"fdAT")), b"")
    if next_part == b"fdAT" or any(name in _ANIMATION for name, *_ in unsound):  # viewers show the first picture
        unsound |= {chunk for chunk in chunks if chunk[0] in _ANIMATION}
    is_animated = any(name == b"acTL" for name, *_ in set(chunks) - unsound)
    names = {b"IDAT", b"fdAT"} if is_animated else {b"IDAT"}
    pixels = max((first for name, first, _ in chunks if name in names and first < end), default=end)
    for name, first, last in chunks:
        if name == b"eXIf":
            kinds |= _block_kinds(EXIF_MAGIC + encoded[first : min(last, first + MAX_EXIF_BYTES)])
        is_cut = last == len(encoded) < first + int.from_bytes(encoded[first - 8 : first - 4])
        is_damaged = pixels < first < end and (is_cut or name not in _READ_BEHIND_PIXELS)
        is_damaged |= (name, first, last) in unsound
        if name in TEXT_CHUNKS:
            keyword, _, value = encoded[first:last].partition(b"\0")
            text = chunk_text(name, value, room)
            room = max(0, room - (MAX_TEXT_CHUNK if text is None else len(text)))
            if text is None:
                kinds |= {"unread", *_keyword_kinds(keyword)}
                is_damaged = True
            elif text.strip(b" \t\r\n\0"):
                kinds |= _keyword_kinds(keyword) | file_metadata(raw_profile(keyword, text))
                kinds |= _xmp_kinds(text) if keyword == b"XML:com.adobe.xmp" else set()
        if is_damaged:
            rest.append(encoded[copied : first - 8])
            copied = min(last + 4, len(encoded))
    return kinds, b"".join([*rest, encoded[copied:]]) if rest else encoded


_ANIMATION = (b"acTL", b"fcTL")
_LEAST_BYTES = {b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"pHYs": 9}
_LEAST_TRANSPARENCY_BYTES = {0: 2, 2: 6}
"""Of grey and of true colour."""
_ANCILLARY, _SIZE, _COLOUR = 0x20, slice(16, 24), 25
"""Bit in the name of a chunk that a picture does not need; size and colour in the header."""


def _is_sound(encoded: bytes, name: bytes, first: int, last: int) -> bool:
    """Return whether a chunk before the pixels is needed, or Pillow accepts it."""
    if not name[0] & _ANCILLARY:
        return True
    content = encoded[first:last]
    if zlib.crc32(content, zlib.crc32(name)) != int.from_bytes(encoded[last : last + 4]):
        return False
    match name:
        case b"tRNS":
            return _LEAST_TRANSPARENCY_BYTES.get(encoded[_COLOUR], 0) <= len(content) <= 256
        case b"iCCP":
            packed = content.partition(b"\0")[2]
            return packed[:1] == b"\0" and chunk_text(b"zTXt", packed, MAX_TEXT_CHUNK) is not None
        case b"acTL":
            return len(content) >= 8 and 0 < int.from_bytes(content[:4]) <= 2**31
        case b"fcTL":
            number, width, height, left, upper = struct.unpack(">5I", content[:20].rjust(20, b"\xff"))
            across, down = struct.unpack(">2I", encoded[_SIZE])
            is_inside = 0 < width <= across - left and 0 < height <= down - upper
            return number == 0 and len(content) >= 26 and is_inside
        case b"fdAT":
            return False
    return len(content) >= _LEAST_BYTES.get(name, 0)


def png_chunks(encoded: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name of each chunk, and where its content begins and ends."""
    offset = len(PNG_MAGIC)
    while offset + 8 <= len(encoded):
        first = offset + 8
        last = first + int.from_bytes(encoded[offset : offset + 4])
        yield encoded[offset + 4 : first], first, min(last, len(encoded))
        offset = last + 4


def chunk_text(name: bytes, value: bytes, room: int) -> bytes | None:
    """Return the text after a chunk's keyword; None if it exceeds `room` or is packed in an unknown way."""
    packed = name == b"zTXt"
    if packed:
        method, value = value[:1], value[1:]
    elif name == b"iTXt":
        packed, method = value[:1] not in (b"", b"\0"), value[1:2]
        value = value[2:].partition(b"\0")[2].partition(b"\0")[2]
    if not packed:
        return value if len(value) <= room else None
    if method not in (b"", b"\0"):
        return None
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(value, max(1, min(room, MAX_TEXT_CHUNK)))
    except zlib.error:
        return b""
    return None if unpacker.unconsumed_tail or len(text) > room else text


def raw_profile(keyword: bytes, text: bytes) -> bytes:
    """Return the metadata that ImageMagick packs into text: a name, a length, hex digits. Empty for other text."""
    if not keyword.lower().startswith(b"raw profile type"):
        return b""
    try:
        return bytes.fromhex(b"".join(text.split(b"\n")[3:]).decode("ascii"))
    except ValueError:
        return b""


def _keyword_kinds(keyword: bytes) -> set[str]:
    name = keyword.decode("latin-1").lower()
    return set() if name in _SOFTWARE_TEXT_CHUNKS else {kind for word, kind in _TEXT_CHUNK_KINDS if word in name}


def _block_kinds(block: bytes) -> set[str]:
    exif, kinds = Image.Exif(), set[str]()
    with suppress(*DAMAGED):
        exif.load(block)
        kinds.update(_exif_kinds(exif))
    return kinds


def _exif_kinds(exif: Image.Exif) -> Iterator[str]:
    gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
    if gps.get(ExifTags.GPS.GPSLatitude) and gps.get(ExifTags.GPS.GPSLongitude):
        yield "gps"
    for ifd in (exif, exif.get_ifd(ExifTags.IFD.Exif)):
        for tag, value in ifd.items():
            if tag in _EXIF_KINDS and str(value).strip(" \0:0"):
                yield _EXIF_KINDS[tag]


def _xmp_kinds(packet: bytes) -> set[str]:
    return {kind for pattern, kind in _XMP_KINDS if re.search(pattern, packet)}


@dataclass(frozen=True)
class KeptFacts:
    """Facts that decide how the pixels are shown."""

    profile: bytes | None
    """ICC colour profile, a valid one."""

    exif: bytes
    """A TIFF structure with the orientation alone; empty if the picture is upright."""
