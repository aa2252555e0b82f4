"""How a picture is turned: by its file, by the decoder, and in some viewers only. No other module knows this.

EXIF says how the stored pixels are turned to be shown. Pillow turns a TIFF when it loads it, and takes the tag away.
The decoder of HEIF turns as the boxes say, and no viewer follows its EXIF. The pixels of all other formats are as they
are stored. Source: EXIF 2.3, tag 0x0112.
"""

import html
import re
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from PIL import ExifTags, Image, TiffImagePlugin

from ingest.images.files.copies import Box, Pixels
from ingest.images.files.formats import HEIF
from ingest.images.files.metadata import DAMAGED

_TAG = ExifTags.Base.Orientation
_XMP_NAMES = ("xmp", "XML:com.adobe.xmp")
_IN_XMP = re.compile(
    rb"[:<]Orientation(?:\s{0,64}=\s{0,64}[\"']|(?:\s[^<>]{0,128})?>)\s{0,64}([2-8]|&#x?\w{2,8};)\s{0,64}[\"'<]"
)
"""An attribute or an element, or a character reference. Repetitions are limited: packets have megabytes of spaces."""


@dataclass(frozen=True)
class Orientation:
    """EXIF orientations of a frame."""

    stated: int | None
    """What is still to be applied to the pixels, 1…8; None if EXIF states none, or the decoder has applied it."""

    doubtful: int | None
    """What some viewers apply to the pixels instead and others do not, 2…8; None if there is no doubt."""


def orientation_of(image: Image.Image) -> Orientation:
    """Return how a frame is turned: macOS follows XMP; browsers, libvips and OpenCV do not. Only some viewers take a
    byte for a number.

    A PNG, also in an icon, is loaded first, since its EXIF may follow the pixels, and a TIFF, since Pillow turns it
    then. Errors of the pixels are those of Pillow.
    """
    doubtful = without_xmp(image)
    if image.format == HEIF:
        return Orientation(None, None)
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        image._reload_exif()  # that of a later page was read with the XMP
        doubtful = None if _valid(image.tag_v2.get(_TAG)) else doubtful
    if image.format in ("PNG", "TIFF", "ICO"):
        image.load()
        doubtful = without_xmp(image) or doubtful
    stated: object = None
    with suppress(*DAMAGED):
        stated = image.getexif().get(_TAG)
    if isinstance(stated, bytes) and len(stated) == 1:
        doubtful = stated[0]
    is_sure = _valid(stated) or doubtful not in range(2, 9)
    return Orientation(_valid(stated), None if is_sure else doubtful)


def _valid(orientation: object) -> int | None:
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else None


def without_xmp(image: Image.Image) -> int | None:
    """Return the orientation in the frame's XMP, if it turns the picture, and take the XMP away: Pillow would take that
    for EXIF, and turn a TIFF by it."""
    packets = [image.info.pop(name, b"") for name in _XMP_NAMES]
    content = b"".join(packet if isinstance(packet, bytes) else str(packet).encode() for packet in packets)
    match = _IN_XMP.search(content.replace(b"\0", b"")) if content else None  # zeros: of UTF-16
    digit = html.unescape(match[1].decode()) if match else ""
    return int(digit) if digit in [*"2345678"] else None


def is_turned_by_decoder(image: Image.Image) -> bool:
    """Return whether Pillow makes a turned copy of a frame when it loads it."""
    return isinstance(image, TiffImagePlugin.TiffImageFile) and _TAG in image.tag_v2


def turned(pixels: Pixels, orientation: int) -> Pixels:
    """Return stored pixels as they are shown."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def turned_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """Return width and height of a stored picture as it is shown."""
    return size[::-1] if orientation >= 5 else size


def stored_area(area: Box, orientation: int) -> Box:
    """Return where an area of the shown picture is in the stored one."""
    left, upper, right, lower = area
    if orientation in (2, 3, 6, 7):
        left, right = 1 - right, 1 - left
    if orientation in (3, 4, 7, 8):
        upper, lower = 1 - lower, 1 - upper
    return (upper, left, lower, right) if orientation >= 5 else (left, upper, right, lower)


def exif_of(orientation: int) -> bytes:
    """Return a TIFF structure with the orientation alone, without "Exif" before it; empty if the picture is upright."""
    if orientation == 1:
        return b""
    exif = Image.Exif()
    exif[_TAG] = orientation
    return exif.tobytes().removeprefix(b"Exif\0\0")
