"""Encoded bytes -> pixels. A bad image is a reason, never an exception.

The bytes are treated as hostile: the format is recognised by content, sizes are checked in the header before anything
is allocated, and only the listed formats are ever opened. A release ships the *file*, not what a viewer shows of it.
So every frame and page is decoded, and colour under full transparency too.
"""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image, ImageFile, UnidentifiedImageError

from ingest.errors import Fault
from ingest.images.files import hidden, jpeg, tiff, unseen
from ingest.images.files.copies import Scanned
from ingest.images.files.magic import HEAD_BYTES, picture_format
from ingest.images.files.metadata import PNG_MAGIC, file_metadata, frame_metadata, png_metadata
from ingest.images.files.pieces import HIDDEN_PIXELS, UNKNOWN_CHUNK, Piece
from ingest.images.files.unseen import Inner
from ingest.images.pdq import pdq_of
from ingest.images.pixels import ImageLimits, Pixels

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "PPM")
"""Pillow's names of the formats that are opened; all others are rejected by content."""

MAX_SCANS = 100
"""Limit of scans in one JPEG, since each goes over the whole picture. Encoders make about ten."""
MAX_SCANS_OF_LARGEST = 20
"""The limit for a picture with the most pixels allowed; smaller ones may have more, up to `MAX_SCANS`."""

MAX_DECODE_BYTES = 2**30
"""Memory to decode a file, as `_bytes_per_pixel` counts it: a file of a few kB can have a canvas of many megapixels."""

_BYTES_PER_PIXEL_OF_FORMATS = {"webp": 18, "avif": 12}
_BYTES_PER_PIXEL_OF_ANIMATIONS = 22
_BYTES_PER_PIXEL = 6
_BYTES_PER_PIXEL_IF_CONVERTED = 10
"""Largest values measured (`tests/benchmarks/decode_memory.py`), rounded up."""

Image.init()
# Size limits are our own and apply to every page (see _check_size); Pillow's would warn at half the limit.
Image.MAX_IMAGE_PIXELS = None

_STRIP_PIXELS = 2**20


@dataclass(frozen=True)
class DecodedImage:
    """One image file, decoded."""

    views: tuple[Pixels, ...]
    """At least one. First the frames or pages in order, then content that these do not show: colours under transparent
    pixels, the frame over black, faint steps of 16-bit or float grey, channels and low bytes that viewers skip."""

    width: int
    height: int
    """Pixels of the first frame as displayed, before downscaling."""

    format: str
    """Lower case, recognised from the content."""

    num_frames: int
    num_frames_decoded: int
    """How many of them are in `views`."""

    metadata: frozenset[str]
    """Kinds of embedded metadata that have a value (`ingest.images.files.metadata`), never the values."""

    unseen: tuple[str, ...]
    """Kinds of content of the file that are not in `views` (`ingest.images.files`)."""

    unseen_bytes: int
    """Size of that content in the file, roughly."""

    pdq: tuple[str | None, ...] | None
    """The PDQ hashes (`ingest.images.pdq.pdq_of`) of each of `views` and of other pictures inside the file, each once.
    None among them: the file holds, or may hold, a picture without hashes, such as a frame after those that were
    decoded. None unless `ImageLimits.has_pdq`."""


@dataclass(frozen=True)
class Rejected(Fault):
    """Why an image has no pixels, and what its header says, as far as it could be read."""

    width: int | None = None
    height: int | None = None
    format: str | None = None


class _RejectionError(Exception):
    def __init__(self, rejected: Rejected):
        super().__init__(rejected.reason)
        self.rejected = rejected


def decode(encoded: bytes, limits: ImageLimits) -> DecodedImage | Rejected:
    """Decode one image file. Reasons: empty, not_an_image, unsupported_format, too_many_pixels, too_much_memory,
    too_many_scans, truncated, corrupt.

    >>> decode(b"", ImageLimits()).reason
    'empty'
    """
    if not encoded:
        return Rejected("empty", "the file has no bytes")
    metadata, readable = png_metadata(encoded) if encoded.startswith(PNG_MAGIC) else (set[str](), encoded)
    try:
        image = Image.open(io.BytesIO(readable), formats=FORMATS)
    except UnidentifiedImageError:
        return _unidentified(encoded)
    except Exception as error:  # the edge: hostile bytes make the parsers raise anything
        return Rejected("corrupt", f"the header cannot be read ({type(error).__name__})")
    width, height = image.size
    format_name = _format_name(image)
    try:
        _check_size(image, limits)
        return _decode(image, encoded, format_name, limits, metadata)
    except _RejectionError as rejection:
        return rejection.rejected
    except Exception as error:  # the edge, as above
        if re.search("premature end|truncated", str(error), re.IGNORECASE):
            return Rejected("truncated", "the data ends before the picture does", width, height, format_name)
        message = f"the pixels cannot be decoded ({type(error).__name__})"
        return Rejected("corrupt", message, width, height, format_name)


def _unidentified(encoded: bytes) -> Rejected:
    name = picture_format(encoded[:HEAD_BYTES])
    if name is None:
        return Rejected("not_an_image", "the content is not a known image format")
    if name in FORMATS:
        return Rejected("corrupt", "the header is damaged or cut")
    return Rejected("unsupported_format", f"{name} is not decoded")


def _format_name(image: Image.Image) -> str:
    name = (image.format or "").lower()
    return "jpeg" if name == "mpo" else name


def _check_size(image: Image.Image, limits: ImageLimits) -> None:
    width, height = image.size
    if width * height > limits.max_pixels:
        message = f"{width}x{height} pixels, the limit is {limits.max_pixels} (--max-pixels-in)"
        raise _RejectionError(Rejected("too_many_pixels", message, width, height, _format_name(image)))


def _check_memory(image: Image.Image, format_name: str, num_frames: int, is_read_twice: bool = False) -> None:
    num_bytes = image.width * image.height * (_bytes_per_pixel(image, format_name, num_frames) + 4 * is_read_twice)
    if num_bytes > MAX_DECODE_BYTES:
        message = (
            f"{image.width}x{image.height} pixels of this {format_name} would take about {num_bytes // 2**20:,} MB of "
            f"memory to decode, the limit is {MAX_DECODE_BYTES // 2**20:,} MB"
        )
        raise _RejectionError(Rejected("too_much_memory", message, *image.size, format_name))


def _bytes_per_pixel(image: Image.Image, format_name: str, num_frames: int) -> int:
    """Return the peak while the frame is decoded and downscaled: the canvases of the decoder, the frame, and copies of
    it."""
    if format_name in _BYTES_PER_PIXEL_OF_FORMATS:
        return _BYTES_PER_PIXEL_OF_FORMATS[format_name]
    if num_frames > 1 and format_name in ("gif", "png"):  # pages of TIFF and pictures of MPO are decoded one by one
        return _BYTES_PER_PIXEL_OF_ANIMATIONS
    is_as_stored = image.mode in ("1", "L", "RGB", "RGBA") or _is_wide(image)
    if is_as_stored or (image.mode == "P" and not image.has_transparency_data):
        return _BYTES_PER_PIXEL
    return _BYTES_PER_PIXEL_IF_CONVERTED


def _check_scans(image: Image.Image, num_scans: int, limits: ImageLimits) -> None:
    num_pixels = max(1, image.width * image.height)
    most = min(MAX_SCANS, MAX_SCANS_OF_LARGEST * limits.max_pixels // num_pixels)
    if num_scans > most:
        message = f"{num_scans} scans in one JPEG, the limit is {most} for its size"
        raise _RejectionError(Rejected("too_many_scans", message, *image.size, _format_name(image)))


def _decode(
    image: ImageFile.ImageFile, encoded: bytes, format_name: str, limits: ImageLimits, metadata: set[str]
) -> DecodedImage:
    behind_header = image.fp.tell() if format_name == "jpeg" and image.fp else 0
    num_skipped = hidden.num_skipped(image)  # first, since a PNG is loaded for its metadata
    kinds, orientation = frame_metadata(image)
    metadata = metadata | kinds | file_metadata(encoded, behind_header)
    num_frames = _num_frames(image, encoded)
    num_decoded = min(num_frames, limits.max_frames)
    width, height = image.size
    if orientation >= 5:
        width, height = height, width
    views: list[Pixels] = []
    more: list[Pixels] = []
    hashes: list[str | None] = []
    unread: list[Piece] = []
    streams: list[jpeg.Stream] = []
    for index in range(num_decoded):
        image.seek(index)
        _check_size(image, limits)
        num_skipped = hidden.num_skipped(image) if index else num_skipped
        _check_memory(image, format_name, num_frames, is_read_twice=num_skipped > 0)
        if format_name == "jpeg":
            streams += jpeg.streams(encoded, [getattr(image, "offset", 0)])
            _check_scans(image, streams[-1].num_scans, limits)
        if index:
            metadata |= frame_metadata(image)[0]
        if format_name == "jpeg":
            stream = encoded if num_frames == 1 else encoded[streams[-1].first : streams[-1].last]
            shown, beyond = _jpeg_pixels(stream, image, limits), list[Pixels]()
        else:
            shown, beyond = _frame_pixels(image, limits)
            skipped = hidden.skipped(encoded, index) if num_skipped else []
            for picture in skipped:
                pixels = np.asarray(_resized(picture, _scale(image.size, limits.max_side_px)).convert("RGB"))
                is_more = any(hidden.shows_more(pixels[:, :, channel], [shown, *beyond]) for channel in range(3))
                beyond += [pixels] if is_more else []
            if num_skipped and not skipped:
                unread.append(Piece(UNKNOWN_CHUNK, num_bytes=num_skipped * image.width * image.height))
            if format_name != "gif" and hidden.has_pattern_in_palette(image):
                unread.append(Piece(HIDDEN_PIXELS, num_bytes=image.width * image.height))
        views.append(_oriented(shown, orientation))
        more.extend(_oriented(pixels, orientation) for pixels in beyond)
        if limits.has_pdq:
            size = image.size if orientation < 5 else image.size[::-1]
            hashes += [pdq_of(pixels, size) for pixels in (views[-1], *more[len(more) - len(beyond) :])]
    unseen_content = unseen.unseen_in(
        encoded,
        [*unread, *unseen.pieces_of(image, encoded, num_decoded, streams)],
        Scanned(views + more, width, height),
        has_more_frames=num_frames > num_decoded,
        takes_pictures=limits.has_pdq,
    )
    hashes += _hashes_of_inner(unseen_content.pictures, limits) if limits.has_pdq else []
    return DecodedImage(
        tuple(views + more),
        width,
        height,
        format_name,
        num_frames,
        num_decoded,
        frozenset(metadata),
        unseen_content.kinds,
        unseen_content.num_bytes,
        tuple(dict.fromkeys(hashes)) if limits.has_pdq else None,
    )


def _hashes_of_inner(pictures: Sequence[Inner | None], limits: ImageLimits) -> Iterator[str | None]:
    """Yield PDQ hashes of pictures inside the file; None for one that cannot be decoded, or has too many frames or
    pixels."""
    num_pixels_left = limits.max_pixels
    for inner in pictures:
        if inner is None or not inner.format:
            yield None
            continue
        for file in inner.files():
            try:
                image = Image.open(io.BytesIO(file), formats=(inner.format,))
            except Exception:  # the edge, as in `decode`: something else begins like a picture
                continue
            try:
                num_frames = _num_frames(image, file)
                for index in range(min(num_frames, limits.max_frames)):
                    image.seek(index)
                    num_pixels_left -= image.width * image.height
                    if num_pixels_left < 0:
                        yield None
                        return
                    _check_memory(image, _format_name(image), num_frames)
                    if image.format in ("JPEG", "MPO"):
                        _check_scans(image, jpeg.streams(file, [getattr(image, "offset", 0)])[0].num_scans, limits)
                    shown, beyond = _frame_pixels(image, limits)
                    yield from (pdq_of(pixels, image.size) for pixels in (shown, *beyond))
                if num_frames > limits.max_frames:
                    yield None
            except Exception:  # the edge, as above
                if inner.is_sure:
                    yield None


def _num_frames(image: Image.Image, encoded: bytes) -> int:
    return tiff.num_pages(encoded) if image.format == "TIFF" else getattr(image, "n_frames", 1)


def _jpeg_pixels(encoded: bytes, image: Image.Image, limits: ImageLimits) -> Pixels:
    """Decode with strict libjpeg-turbo: unlike Pillow and OpenCV it reports damage in the middle of the data.

    For a smaller picture it decodes in steps of 1/8 of the size, which gives most of the speed.
    """
    scale = _scale(image.size, limits.max_side_px)
    wanted = {"min_width": round(image.width * scale), "min_height": round(image.height * scale)} if scale < 1 else {}
    is_cmyk = image.mode == "CMYK"
    pixels: Pixels = simplejpeg.decode_jpeg(encoded, colorspace="CMYK" if is_cmyk else "RGB", strict=True, **wanted)
    factor = _scale((pixels.shape[1], pixels.shape[0]), limits.max_side_px)
    if not is_cmyk and factor >= 1:
        return pixels
    whole = Image.fromarray(255 - pixels, "CMYK").convert("RGB") if is_cmyk else Image.fromarray(pixels)
    return np.asarray(_resized(whole, factor))


def _frame_pixels(image: Image.Image, limits: ImageLimits) -> tuple[Pixels, list[Pixels]]:
    """Return the frame over white, and views of what this hides: colour and shape under transparency, faint steps of
    grey."""
    scale = _scale(image.size, limits.max_side_px)
    if _is_wide(image):
        return _wide_grey_pixels(image, scale)
    if not image.has_transparency_data:
        smaller = _resized(image if image.mode in ("L", "RGB") else image.convert("RGB"), scale)
        return np.asarray(smaller if smaller.mode == "RGB" else smaller.convert("RGB")), []
    # Downscale colour and alpha apart: a joint resize would weight the hidden colour with alpha 0 and so remove it. One
    # channel at a time, since a copy of all would take as much memory as the picture.
    rgba = image if image.mode == "RGBA" else image.convert("RGBA")
    red, green, blue, alpha = (np.asarray(_resized(rgba.getchannel(name), scale)) for name in "RGBA")
    colour, opacity = np.stack([red, green, blue], axis=2), alpha
    alpha = opacity[:, :, None].astype(np.uint16)
    shown = ((colour * alpha + 255 * (255 - alpha)) // 255).astype(np.uint8)
    more = [colour] if hidden.has_structure(colour, opacity < 128) else []
    if hidden.shows_more(opacity, [shown, *more]):
        # Over black and over white differ by just the opacity, so that one of them shows it.
        more.append((colour * alpha // 255).astype(np.uint8))
    return shown, more


def _is_wide(image: Image.Image) -> bool:
    return image.mode.startswith("I") or image.mode == "F"


def _wide_grey_pixels(image: Image.Image, scale: float) -> tuple[Pixels, list[Pixels]]:
    """Convert 16-bit and float greyscale to 8 bits, from 0 to the largest value; `convert` would clip it to white.

    A second view spreads the values evenly, if that shows more.
    """
    top = 65535.0 if image.mode.startswith("I;16") else max(255.0, _largest(image))
    steps = hidden.steps_of(image, _strip_rows(image))
    shown = _grey(np.asarray(_resized(_eight_bit(image, np.array([0, top])), scale)))
    spread = np.asarray(_resized(_eight_bit(image, steps), scale))
    return shown, [_grey(spread)] if hidden.shows_more(spread, [shown]) else []


def _grey(plane: hidden.Plane) -> Pixels:
    return np.repeat(plane[:, :, None], 3, axis=2)


def _eight_bit(image: Image.Image, steps: npt.NDArray[np.floating]) -> Image.Image:
    """Map the steps, in order, to evenly spaced greys from black to white.

    In strips: several copies with 4 bytes per pixel would otherwise take more memory than anything else.
    """
    scaled = Image.new("L", image.size)
    greys = np.linspace(0, 255, len(steps))
    rows = _strip_rows(image)
    for first in range(0, image.height, rows):
        strip = image.crop((0, first, image.width, min(first + rows, image.height)))
        values = np.nan_to_num(np.asarray(strip, np.float32), nan=0.0)
        scaled.paste(Image.fromarray(np.interp(values, steps, greys).astype(np.uint8)), (0, first))
    return scaled


def _strip_rows(image: Image.Image) -> int:
    return max(1, _STRIP_PIXELS // max(1, image.width))


def _largest(image: Image.Image) -> float:
    """Return the largest value; 0 if it is not finite, since one infinite pixel would make all others black."""
    largest = float(np.asarray(image.getextrema(), np.float64)[1])
    return largest if np.isfinite(largest) else 0.0


def _scale(size: tuple[int, int], max_side_px: int | None) -> float:
    return 1.0 if max_side_px is None else min(1.0, max_side_px / max(size))


def _resized(image: Image.Image, scale: float) -> Image.Image:
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0)


def _oriented(pixels: Pixels, orientation: int) -> Pixels:
    """Apply an EXIF orientation, 1…8 (EXIF 2.3, tag 0x0112)."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)
