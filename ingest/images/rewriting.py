"""A picture's file, written again: cleaned of what decoding does not need, or with areas covered.

A cleaned file has no metadata, comments, thumbnails or unknown parts, no data after the end, and no frames that were
not scanned. It is made of the parts that are needed (`Piece.kept`), so nothing unknown can stay. Compressed pixels are
copied, not encoded again. Two facts about the picture are kept: how it is turned (EXIF orientation), and its colour
profile (`plain_profile`), unless it has to go. Of every file, both versions are decoded as in a scan and compared: the
second one must show the same and hold nothing that a scan does not see. If a still PNG or lossless WebP does not, its
pixels are written anew.

Areas are covered in the file's own format and as the picture is stored.
"""

import hashlib
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageFile, ImageFilter

from ingest.images.decode import DecodedImage, decode
from ingest.images.files import formats, gif, hidden, jpeg, memory, orientation, png, webp
from ingest.images.files.metadata import KeptFacts, png_metadata
from ingest.images.files.profiles import plain_profile
from ingest.images.pixels import Area, CoverMethod, ImageLimits


@dataclass(frozen=True)
class Remade:
    """A file that was written again."""

    content: bytes

    colours: Literal["removed"] | None = None
    """What became of its colour profile; None if it has none, or keeps its colours."""


_EXAMINED_SIDE_PX = 1280


def cleaned(encoded: bytes, num_frames: int) -> Remade | None:
    """Return a file that shows the first `num_frames` frames of another one, and little else. Of a JPEG that holds
    several pictures (MPO), the first one stays; of 16 bits of colour, the eight that viewers show.

    None if the format is not one of `formats.CLEANED`, if the file is damaged, if its pixels would change, if they hide
    others and are not packed without loss, or if it takes more memory than `ingest.images.files.memory` allows.
    encoded: a file that a scan has decoded.

    >>> cleaned(b"P6 1 1 255 abc", 1) is None
    True
    """
    try:
        image, before = opened(encoded), _shown(encoded, num_frames)
        if before is None:
            return None
        keeps_profile = not image.info.get("icc_profile") or _plain_profile(image) is not None
        candidates = _candidates(encoded, len(before.frames))
        same = (made for made in candidates if _shows_the_same(before, _shown(made, num_frames)))
        return next((Remade(made, None if keeps_profile else "removed") for made in same), None)
    except Exception:  # the edge: hostile bytes make the parsers raise anything, as in `decode`
        return None


def _plain_profile(image: Image.Image) -> bytes | None:
    profile = image.info.get("icc_profile")
    return plain_profile(profile) if isinstance(profile, bytes) else None


def opened(encoded: bytes) -> ImageFile.ImageFile:
    """Open a file that a scan has decoded. Errors are those of Pillow."""
    return memory.opened(png_metadata(encoded)[1], formats.CLEANED)


def _candidates(encoded: bytes, num_frames: int) -> Iterator[bytes]:
    """Yield cleaned files: of the needed parts, then of the pixels if nothing is lost. None may show the same."""
    image = opened(encoded)
    stated = orientation.orientation_of(image).stated or 1
    facts = KeptFacts(_plain_profile(image), orientation.exif_of(stated))
    is_still = _is_still(image)
    has_palette = is_still and image.format == "PNG" and image.mode == "P"
    colours = {number for number, count in enumerate(image.histogram()) if count} if has_palette else None
    image.close()  # each file is examined next, which takes memory too
    match image.format:
        case "JPEG" | "MPO":
            yield jpeg.cleaned(encoded, jpeg.streams(encoded, [0])[0], facts)
        case "PNG" if not png.is_deep(encoded):
            yield png.cleaned(png_metadata(encoded)[1], num_frames, facts, colours)
        case "GIF":
            yield gif.cleaned(encoded, num_frames)
        case "WEBP":
            yield webp.cleaned(encoded, num_frames, facts)
    if is_still and _is_lossless(image, encoded):
        image = opened(encoded)
        memory.check_bytes(image.size, memory.covering_bytes(image, len(encoded), 0))
        anew = _written(_true_colour(image), str(image.format), facts, is_lossless=True)
        image.close()
        yield anew if image.format == "WEBP" else png.cleaned(anew, 1, facts, None)


def _is_still(image: Image.Image) -> bool:
    return getattr(image, "n_frames", 1) == 1


def _is_lossless(image: Image.Image, encoded: bytes) -> bool:
    return image.format == "PNG" or (image.format == "WEBP" and webp.is_lossless(encoded))


@dataclass(frozen=True)
class _Shown:
    """What a scan sees in a file, as hashes: the pixels of two files at once would take too much memory."""

    frames: list[str]
    """Of each frame at full size."""

    views: list[str]
    """Of `DecodedImage.views`, which may be smaller."""

    format: str
    has_more: bool
    """Whether the file holds metadata, or content that is not in the views."""


def _shown(encoded: bytes, num_frames: int) -> _Shown | None:
    """Return None if a scan rejects the file. Errors are Pillow's; TooLargeError above the limit."""
    width, height = opened(encoded).size
    max_pixels = max(ImageLimits().max_pixels, width * height)
    decoded = decode(encoded, ImageLimits(max_pixels, num_frames, _EXAMINED_SIDE_PX))
    if not isinstance(decoded, DecodedImage):
        return None
    views = [_digest(view.shape, [view.data]) for view in decoded.views]
    is_whole = all(max(view.shape) < _EXAMINED_SIDE_PX for view in decoded.views)
    name, has_more = decoded.format, bool(decoded.unseen or decoded.metadata)
    num_decoded = decoded.num_frames_decoded
    del decoded
    frames = views[:num_decoded] if is_whole else _frame_hashes(encoded, num_decoded)
    return _Shown(frames, views, name, has_more)


def _shows_the_same(before: _Shown, after: _Shown | None) -> bool:
    """Return whether a scan sees the same frames in both files, in the second one no other view, and nothing else."""
    if after is None or after.has_more:
        return False
    num_kept = 1 if before.format == "jpeg" else len(before.frames)
    return after.frames == before.frames[:num_kept] and after.views == before.views[: len(after.views)]


def _frame_hashes(encoded: bytes, num_frames: int) -> list[str]:
    """Return a hash of the pixels of each of the first frames, and how they are turned."""
    image, hashes = opened(encoded), list[str]()
    num_all = getattr(image, "n_frames", 1)
    size, no_views = memory.canvas_of(encoded, num_frames), memory.Views(0, _EXAMINED_SIDE_PX)
    for index in range(num_frames):
        image.seek(index)
        facts = (image, size or image.size, num_all, len(encoded), no_views, _coefficients(image, encoded))
        memory.check_bytes(image.size, memory.decoding_bytes(*facts, by_pillow=True))
        stated = orientation.orientation_of(image).stated or 1
        tiles = (tile for *_, tile in hidden.tiles_of(image))
        pixels = ((tile if memory.is_wide(tile) else tile.convert("RGBA")).tobytes() for tile in tiles)
        hashes.append(_digest((image.size, stated), pixels))
    return hashes


def _digest(shape: object, pixels: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.sha256(repr(shape).encode())
    for part in pixels:
        digest.update(part)
    return digest.hexdigest()


def _coefficients(image: Image.Image, encoded: bytes) -> int:
    """Return `coefficient_bytes` of the frame of a JPEG; 0 of other formats."""
    if memory.format_name(image) != "jpeg":
        return 0
    return memory.coefficient_bytes(image, jpeg.streams(encoded, [getattr(image, "offset", 0)])[0].num_scans)


_BLACK: dict[str, Any] = {"CMYK": (0, 0, 0, 255), "RGBA": (0, 0, 0, 255), "LA": (0, 255), "YCbCr": (0, 128, 128)}
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_SQUARES = 6
"""Squares along the shorter side of an area that is pixelated; the blur is as coarse."""
_BLOCK_PX = 16
"""Areas of a JPEG grow to whole blocks of this size, so that no block is both inside and outside."""
_WEBP_QUALITY = 90
_GRID = 200


def covered(encoded: bytes, areas: Sequence[Area], method: CoverMethod) -> Remade | None:
    """Return the picture with these areas covered and without metadata. A JPEG keeps its quantisation, so that pixels
    outside of the areas and the blocks around them stay nearly as they were; of one that holds several pictures (MPO),
    the first one stays.

    None for formats that are not in `formats.COVERED`, several frames, unusual pixels such as 16-bit grey, damaged
    files, and those that take more memory than `ingest.images.files.memory` allows. encoded: a file that a scan has
    decoded.
    """
    try:
        image = opened(encoded)
        is_still = _is_still(image) or image.format == "MPO"
        if image.format == "MPO":
            image.format = "JPEG"  # its first picture, which is written like one
        if image.format not in formats.COVERED or not is_still or image.mode not in _MODES:
            return None
        memory.check_bytes(image.size, memory.covering_bytes(image, len(encoded), _coefficients(image, encoded)))
        return cleaned(_drawn(image, areas, method, _is_lossless(image, encoded)), 1)
    except Exception:  # the edge: hostile bytes make the decoders raise anything, as in `ingest.images.decode`
        return None


def _drawn(image: ImageFile.ImageFile, areas: Sequence[Area], method: CoverMethod, is_lossless: bool) -> bytes:
    turned, profile = orientation.orientation_of(image), image.info.get("icc_profile")
    stated = turned.stated or 1
    # An area may have been found in either view.
    places = {orientation.stored_area(area, number) for area in areas for number in (stated, turned.doubtful or stated)}
    drawn = image.convert("L") if image.mode == "1" else _true_colour(image)
    step = _BLOCK_PX if image.format == "JPEG" else 1
    for area in sorted(places):
        _cover(drawn, area, method, step)
    written = _written(drawn, str(image.format), KeptFacts(profile, orientation.exif_of(stated)), is_lossless)
    image.close()  # the file is cleaned next, which takes memory too
    return written


def _true_colour(image: Image.Image) -> Image.Image:
    if image.mode not in ("P", "PA"):
        return image
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _written(image: Image.Image, format_name: str, facts: KeptFacts, is_lossless: bool) -> bytes:
    options: dict[str, Any] = {"icc_profile": facts.profile}
    if format_name == "JPEG":
        options["quality"] = "keep"
    elif format_name == "WEBP":
        options |= {"lossless": is_lossless, "quality": 100 if is_lossless else _WEBP_QUALITY, "exact": True}
    if facts.exif:
        options["exif"] = b"Exif\0\0" + facts.exif
    target = io.BytesIO()
    image.save(target, format_name, **options)
    return target.getvalue()


def share_of(areas: Sequence[Area]) -> float:
    """Return the share of the picture that areas cover together, 0–1, to about 0.01."""
    is_covered = np.zeros((_GRID, _GRID), dtype=np.bool_)
    for area in areas:
        left, upper, right, lower = (round(min(max(side, 0.0), 1.0) * _GRID) for side in area)
        is_covered[upper:lower, left:right] = True
    return float(is_covered.mean())


def _cover(image: Image.Image, area: Area, method: CoverMethod, step: int) -> None:
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
