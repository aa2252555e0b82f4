"""A picture's file, written again: cleaned of what decoding does not need, or with areas covered.

A cleaned file has no metadata, comments, thumbnails or unknown parts, no data after the end, and no frames that were
not scanned. It is made of the parts that are needed, so nothing unknown can stay. Compressed pixels are copied, not
encoded again. Two facts about the picture are kept: how it is turned (EXIF orientation), and its colour profile if that
is a valid one. A still picture whose parts are in the usual order has the same pixels by construction. Of every other
file, both versions are decoded as in a scan and compared.

Areas are covered in the file's own format and as the picture is stored.
"""

import hashlib
import io
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
from PIL import ExifTags, Image, ImageCms, ImageFile, ImageFilter

from ingest.images import hidden
from ingest.images.decode import DecodedImage, decode
from ingest.images.files import gif, jpeg, memory, png, webp
from ingest.images.files.memory import (
    Views,
    check_bytes,
    coefficient_bytes,
    covering_bytes,
    decoding_bytes,
    gif_canvas,
    is_wide,
)
from ingest.images.files.metadata import PNG_MAGIC, Cleaned, KeptFacts, frame_metadata, png_metadata
from ingest.images.pixels import ImageLimits

CLEANED_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
"""Pillow's names of the formats that can be cleaned."""

MAX_PROFILE_BYTES = 2**20
"""Larger colour profiles are removed. Usual ones have 0.5 to 600 kB."""


_EXAMINED_SIDE_PX = 1280
_NO_VIEWS = Views(0, _EXAMINED_SIDE_PX)


def cleaned(encoded: bytes, num_frames: int) -> bytes | None:
    """Return a file with the pixels of the first `num_frames` frames of another one, and little else. Of a JPEG that
    holds several pictures (MPO), the first one stays.

    None if the format is not one of `CLEANED_FORMATS`, if the file is damaged, if its pixels would change, or if it
    takes more memory than `ingest.images.files.memory` allows. encoded:
    a file that a scan has decoded.

    >>> cleaned(b"P6 1 1 255 abc", 1) is None
    True
    """
    try:
        made = _cleaned(encoded, num_frames)
        is_same = made is not None and (made.is_usual or _has_same_views(encoded, made.content, num_frames))
    except Exception:  # the edge: hostile bytes make the parsers raise anything, as in `decode`
        return None
    return made.content if made is not None and is_same else None


def opened(encoded: bytes) -> ImageFile.ImageFile:
    """Open a file that a scan has decoded. Errors are those of Pillow."""
    readable = png_metadata(encoded)[1] if encoded.startswith(PNG_MAGIC) else encoded
    return memory.opened(readable, CLEANED_FORMATS)


def _cleaned(encoded: bytes, num_frames: int) -> Cleaned | None:
    stream = jpeg.streams(encoded, [0])[0] if encoded.startswith(jpeg.START) else None
    if stream is not None and not stream.may_have_facts:
        # Most JPEGs. Pillow, which takes longer than all else here, would read the same segments and find no facts.
        return jpeg.cleaned(encoded, stream, KeptFacts(profile=None, orientation=1))
    image = opened(encoded)
    facts = KeptFacts(_profile(image), frame_metadata(image)[1])
    match image.format:
        case "JPEG" | "MPO" if stream is not None:
            made = jpeg.cleaned(encoded, stream, facts)
            return made if image.format == "JPEG" else made._replace(is_usual=False)
        case "PNG":
            return png.cleaned(encoded, num_frames, facts)
        case "GIF":
            return gif.cleaned(encoded, num_frames)
        case "WEBP":
            return webp.cleaned(encoded, num_frames, facts)
        case _:
            return None


def _profile(image: Image.Image) -> bytes | None:
    profile = image.info.get("icc_profile")
    if not isinstance(profile, bytes) or len(profile) > MAX_PROFILE_BYTES:
        return None
    with suppress(OSError, ImageCms.PyCMSError):
        ImageCms.ImageCmsProfile(io.BytesIO(profile))
        return profile if int.from_bytes(profile[:4]) == len(profile) else None
    return None


def _has_same_views(encoded: bytes, content: bytes, num_frames: int) -> bool:
    """Return whether both files have the same pixels, and a scan sees nothing else in the second one. Errors are
    Pillow's."""
    width, height = opened(encoded).size
    max_pixels = max(ImageLimits().max_pixels, width * height)
    after = decode(content, ImageLimits(max_pixels, num_frames, _EXAMINED_SIDE_PX))
    if not isinstance(after, DecodedImage) or after.unseen or after.metadata:
        return False
    num_kept = 1 if after.format == "jpeg" else num_frames
    return _pixel_hashes(encoded, num_kept) == _pixel_hashes(content, num_kept)


def _pixel_hashes(encoded: bytes, num_frames: int) -> list[str]:
    """Return a hash of the pixels of each of the first frames. Errors are Pillow's; TooLargeError above the limit."""
    image, hashes = opened(encoded), list[str]()
    num_all = getattr(image, "n_frames", 1)
    for index in range(min(num_frames, num_all)):
        size = gif_canvas(encoded, num_frames) or image.size
        check_bytes(size, decoding_bytes(image, size, num_all, len(encoded), _NO_VIEWS))
        image.seek(index)
        frame_metadata(image)  # as in `decode`: passes over damage behind the pixels of a PNG
        digest = hashlib.sha256(repr(image.size).encode())
        for *_, tile in hidden.tiles_of(image):
            digest.update((tile if is_wide(tile) else tile.convert("RGBA")).tobytes())
        hashes.append(digest.hexdigest())
    return hashes


CoverMethod = Literal["solid", "pixelate", "blur"]
"""`solid` fills an area with black. `pixelate` and `blur` look better and hide less: what they leave can be enough to
recognise a person or to read a number."""

TARGETS = ("faces", "text", "codes", "plates", "vehicles", "persons")
"""What can be covered wherever it is, besides the evidence of an attribute. text: every line, read or not. codes:
barcodes."""

Area = tuple[float, float, float, float]
"""x_min, y_min, x_max, y_max in fractions (0–1) of the displayed picture, y down."""

COVERED_FORMATS = ("JPEG", "PNG", "WEBP")
"""Pillow's names of the formats that can be covered, if they hold one frame."""

_BLACK: dict[str, Any] = {"CMYK": (0, 0, 0, 255), "RGBA": (0, 0, 0, 255), "LA": (0, 255), "YCbCr": (0, 128, 128)}
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_SQUARES = 6
"""Squares along the shorter side of an area that is pixelated; the blur is as coarse."""
_BLOCK_PX = 16
"""Areas of a JPEG grow to whole blocks of this size, so that no block is both inside and outside."""
_WEBP_QUALITY = 90
_GRID = 200


def covered(encoded: bytes, areas: Sequence[Area], method: CoverMethod) -> bytes | None:
    """Return the picture with these areas covered and without metadata. A JPEG keeps its quantisation, so that pixels
    outside of the areas and the blocks around them stay nearly as they were; of one that holds several pictures (MPO),
    the first one stays.

    None for formats that are not in `COVERED_FORMATS`, several frames, unusual pixels such as 16-bit grey, damaged
    files, and those that take more memory than `ingest.images.files.memory` allows. encoded: a file that a scan has
    decoded.
    """
    try:
        image = opened(encoded)
        if image.format == "MPO":
            first = cleaned(encoded, 1)
            image = opened(first or b"")
        if image.format not in COVERED_FORMATS or getattr(image, "n_frames", 1) > 1 or image.mode not in _MODES:
            return None
        num_scans = jpeg.streams(encoded, [0])[0].num_scans if image.format == "JPEG" else 0
        check_bytes(image.size, covering_bytes(image, len(encoded), coefficient_bytes(image, num_scans)))
        return cleaned(_drawn(image, areas, method, is_lossless=b"VP8L" in encoded[:64]), 1)
    except Exception:  # the edge: hostile bytes make the decoders raise anything, as in `ingest.images.decode`
        return None


def _drawn(image: ImageFile.ImageFile, areas: Sequence[Area], method: CoverMethod, is_lossless: bool) -> bytes:
    orientation = frame_metadata(image)[1]
    options: dict[str, Any] = {"icc_profile": image.info.get("icc_profile")}
    if image.format == "JPEG":
        options |= {"quality": "keep"}
    elif image.format == "WEBP":
        options |= {"lossless": is_lossless, "quality": 100 if is_lossless else _WEBP_QUALITY, "exact": True}
    drawn: Image.Image = image
    if image.mode in ("P", "PA", "1"):
        drawn = image.convert("RGBA" if image.has_transparency_data else "L" if image.mode == "1" else "RGB")
    for area in areas:
        _cover(drawn, _stored(area, orientation), method)
    if orientation > 1:
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = orientation
        options["exif"] = exif.tobytes()
    target = io.BytesIO()
    drawn.save(target, image.format, **options)
    image.close()  # the file is cleaned next, which takes memory too
    return target.getvalue()


def share_of(areas: Sequence[Area]) -> float:
    """Return the share of the picture that areas cover together, 0–1, to about 0.01."""
    is_covered = np.zeros((_GRID, _GRID), dtype=np.bool_)
    for area in areas:
        left, upper, right, lower = (round(min(max(side, 0.0), 1.0) * _GRID) for side in area)
        is_covered[upper:lower, left:right] = True
    return float(is_covered.mean())


def _cover(image: Image.Image, area: Area, method: CoverMethod) -> None:
    step = _BLOCK_PX if image.format == "JPEG" else 1
    left, upper = (int(area[n] * image.size[n] / step) * step for n in (0, 1))
    right, lower = (math.ceil(area[n + 2] * image.size[n] / step) * step for n in (0, 1))
    box = (max(0, left), max(0, upper), min(image.width, right), min(image.height, lower))
    if box[0] >= box[2] or box[1] >= box[3]:
        return
    if method == "solid":
        image.paste(_BLACK.get(image.mode, 0), box)
        return
    part = image.crop(box)
    square = max(1, min(part.size) // _SQUARES)
    if method == "pixelate":
        small = part.resize((max(1, part.width // square), max(1, part.height // square)), Image.Resampling.BOX)
        image.paste(small.resize(part.size, Image.Resampling.NEAREST), box)
    else:
        image.paste(part.filter(ImageFilter.GaussianBlur(square)), box)


def _stored(area: Area, orientation: int) -> Area:
    """Return where an area of the displayed picture is in the stored one. Source: EXIF 2.3, tag 0x0112."""
    left, upper, right, lower = area
    if orientation in (2, 3, 6, 7):
        left, right = 1 - right, 1 - left
    if orientation in (3, 4, 7, 8):
        upper, lower = 1 - lower, 1 - upper
    return (upper, left, lower, right) if orientation >= 5 else (left, upper, right, lower)
