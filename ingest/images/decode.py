"""Encoded bytes -> pixels. A bad image is a reason, never an exception.

The bytes are treated as hostile: the format is recognised by content, sizes are checked in the header before anything
is allocated, and only the listed formats are ever opened. A release ships the *file*, not what a viewer shows of it.
So every frame and page is decoded, and colour under full transparency too.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image, ImageFile, UnidentifiedImageError

from ingest.errors import Fault
from ingest.images.files import formats, heif_decoder, hidden, icon, jpeg, jpeg2000, memory, orientation, tiff, unseen
from ingest.images.files.copies import Scanned
from ingest.images.files.magic import HEAD_BYTES, picture_format
from ingest.images.files.metadata import file_metadata, frame_kinds, png_metadata
from ingest.images.files.pieces import DamagedError, Kind, Piece
from ingest.images.files.unseen import Inner
from ingest.images.pdq import pdq_of
from ingest.images.pixels import ImageLimits, Pixels

MAX_SIDE_PX = 2**63 - 1
"""Largest side that fits into a row; a BigTIFF can claim more."""

MAX_SCANS = 100
"""Limit of scans in one JPEG, since each goes over the whole picture. Encoders make about ten."""
MAX_SCANS_OF_LARGEST = 20
"""The limit for a picture with the most pixels allowed; smaller ones may have more, up to `MAX_SCANS`."""

Image.init()
heif_decoder.register()
# Size limits are our own and apply to every page (see _check_size); Pillow's would warn at half the limit.
Image.MAX_IMAGE_PIXELS = None


@dataclass(frozen=True)
class DecodedImage:
    """One image file, decoded."""

    views: tuple[Pixels, ...]
    """At least one. First the frames or pages in order, then content that these do not show: frames as only some
    viewers turn them, colours under transparent pixels, the frame over black, faint steps of 16-bit or float grey."""

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
    """The PDQ hash (`ingest.images.pdq`) of each of `views` and of other pictures inside the file, each once.
    None among them: the file holds, or may hold, a picture without one, such as a frame after those that were
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
    too_many_scans, truncated, corrupt. Of a file whose first frame is whole, the frames before any damage are decoded.

    >>> decode(b"", ImageLimits()).reason
    'empty'
    """
    if not encoded:
        return Rejected("empty", "the file has no bytes")
    recognised = picture_format(encoded[:HEAD_BYTES])
    name = (recognised or "").lower()
    if recognised == formats.HEIF and not formats.HAS_HEIF:
        return Rejected("unsupported_format", 'HEIC and HEIF need the extra heic: pip install "privsieve[heic]"')
    try:
        metadata, readable = png_metadata(encoded)
        canvas = memory.canvas_of(readable, limits.max_frames)
        if recognised == formats.HEIF and canvas is None:
            return _unread(formats.HEIF)
        _check_size(canvas or (0, 0), name, limits)
        image = memory.opened(readable, formats.READ)
    except _RejectionError as rejection:
        return rejection.rejected
    except memory.TooLargeError as error:
        return _too_large(error, name)
    except UnidentifiedImageError:
        if recognised is None:
            return Rejected("not_an_image", "the content is not a known image format")
        may_be_sound = {"TIFF": tiff.is_sound, "JPEG": jpeg.is_unusual}.get(recognised, lambda _: False)
        if may_be_sound(encoded):
            return _unread(recognised)
        if recognised in formats.READ:
            return Rejected("corrupt", "the header is damaged or cut")
        return Rejected("unsupported_format", f"{recognised} is not decoded")
    except Exception as error:  # the edge: hostile bytes make the parsers raise anything
        if str(error).startswith("Unsupported BMP"):
            return _unread("BMP")
        return Rejected("corrupt", f"the header cannot be read ({type(error).__name__})")
    width, height = image.size
    name = memory.format_name(image)
    try:
        _check_size(image.size, name, limits)
        return _decode(image, encoded, name, limits, metadata)
    except _RejectionError as rejection:
        return rejection.rejected
    except memory.TooLargeError as error:
        return _too_large(error, name)
    except Exception as error:  # the edge, as above
        if isinstance(error, DamagedError) and error.frame:
            num_whole = error.frame
        elif re.search("premature end|truncated", str(error), re.IGNORECASE):
            return Rejected("truncated", "the data ends before the picture does", width, height, name)
        elif name == "tiff" and image.info.get("compression") == "webp":
            return _unread("TIFF", image.size)
        else:
            message = f"the pixels cannot be decoded ({type(error).__name__})"
            return Rejected("corrupt", message, width, height, name)
    del image, readable  # they and the error, which is gone here, hold all frames so far
    return decode(encoded, replace(limits, max_frames=num_whole))


def _unread(name: str, size: memory.Size | tuple[None, None] = (None, None)) -> Rejected:
    """Return why a sound file of a format that is decoded has no pixels: few programs write such files."""
    width, height = size
    return Rejected("unsupported_format", f"this kind of {name} is not decoded", width, height, name.lower())


def _check_size(size: memory.Size, name: str, limits: ImageLimits) -> None:
    width, height = size
    if width * height > limits.max_pixels:
        message = f"{width}x{height} pixels, the limit is {limits.max_pixels} (--max-pixels-in)"
        across, down = (side if side <= MAX_SIDE_PX else None for side in size)
        raise _RejectionError(Rejected("too_many_pixels", message, across, down, name))


def _too_large(error: memory.TooLargeError, name: str) -> Rejected:
    width, height = error.size
    message = f"{width}x{height} pixels of this {name} {error}"
    return Rejected("too_much_memory", message, width, height, name)


def _checked_frame(
    image: ImageFile.ImageFile,
    encoded: bytes,
    canvas: memory.Size | None,
    num_frames: int,
    limits: ImageLimits,
    is_turned: bool = False,
    by_pillow: bool = False,
) -> list[jpeg.Stream]:
    """Return where a frame that is about to be decoded is in a JPEG. _RejectionError or TooLargeError above a limit.
    canvas: as in `canvas_of`, with all frames that are decoded. The others: as in `decoding_bytes`."""
    size = memory.largest_size(image, canvas)
    _check_size(size, memory.format_name(image), limits)
    streams = jpeg.streams(encoded, [getattr(image, "offset", 0)]) if memory.format_name(image) == "jpeg" else []
    num_scans = sum(stream.num_scans for stream in streams)
    most = min(MAX_SCANS, MAX_SCANS_OF_LARGEST * limits.max_pixels // max(1, image.width * image.height))
    if num_scans > most:
        message = f"{num_scans} scans in one JPEG, the limit is {most} for its size"
        raise _RejectionError(Rejected("too_many_scans", message, *image.size, memory.format_name(image)))
    views = memory.Views(min(num_frames, limits.max_frames), limits.max_side_px)
    facts = (image, size, num_frames, len(encoded), views, memory.coefficient_bytes(image, num_scans))
    memory.check_bytes(size, memory.decoding_bytes(*facts, is_turned=is_turned, by_pillow=by_pillow))
    return streams


def _decode(
    image: ImageFile.ImageFile, encoded: bytes, name: str, limits: ImageLimits, metadata: set[str]
) -> DecodedImage:
    num_frames = _num_frames(image, encoded)
    num_decoded = min(num_frames, limits.max_frames)
    width = height = 0
    stated, doubtful = 1, 1
    canvas = memory.canvas_of(encoded, num_decoded)
    if name == "jpeg2000" and not jpeg2000.is_usual(encoded, image.size):
        raise _RejectionError(_unread(name.upper(), image.size))
    views: list[Pixels] = []
    more: list[Pixels] = []
    other_way_up: list[Pixels] = []
    hashes: list[str | None] = []
    unread: list[Piece] = []
    streams: list[jpeg.Stream] = []
    for index in range(num_decoded):
        try:
            image.seek(index)
            tiff.mend_palette(image)
            streams += _checked_frame(image, encoded, canvas, num_frames, limits)
            turned = orientation.orientation_of(image)
            # A frame that states none, such as a gain map without EXIF, is turned as the one before.
            stated, doubtful = turned.stated or stated, turned.doubtful or doubtful
            if doubtful > 1:
                _checked_frame(image, encoded, canvas, num_frames, limits, is_turned=True)
            metadata |= frame_kinds(image)
            size = orientation.turned_size(image.size, stated)
            width, height = (width, height) if index else size
            if name == "jpeg":
                last = streams[-1].last if num_frames > 1 else len(encoded)
                seen = [_jpeg_pixels(encoded, streams[-1], last, image, limits)]
            else:
                seen = _frame_pixels(image, limits)
                if name != "gif" and hidden.has_pattern_in_palette(image):
                    unread.append(Piece(Kind.HIDDEN_PIXELS, num_bytes=image.width * image.height))
            if doubtful > 1:
                other_way_up.append(orientation.turned(seen[0], doubtful))
            for number in range(len(seen)):
                seen[number] = orientation.turned(seen[number], stated)
            views.append(seen[0])
            more += seen[1:]
            if limits.has_pdq:
                hashes += map(pdq_of, seen)
                if doubtful > 1:
                    hashes.append(pdq_of(other_way_up[-1]))
        except (_RejectionError, memory.TooLargeError):
            raise
        except Exception as error:  # the edge, as in `decode`; damage of a later frame leaves those before it whole
            if not index:
                raise
            raise DamagedError(str(error), index) from error
    metadata |= file_metadata(*(jpeg.outside_scans(encoded, streams) if name == "jpeg" else (encoded, 0)))
    metadata |= {"jpeg2000": jpeg2000.metadata, "ico": icon.metadata}.get(name, lambda _: set())(encoded)
    more += other_way_up  # last: a cleaned picture has all views but these
    image.close()  # the parts of the file are examined next, which takes memory too
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
        name,
        num_frames,
        num_decoded,
        frozenset(metadata),
        unseen_content.kinds,
        unseen_content.num_bytes,
        tuple(dict.fromkeys(hashes)) if limits.has_pdq else None,
    )


def _hashes_of_inner(pictures: Sequence[Inner | None], limits: ImageLimits) -> Iterator[str | None]:
    """Yield PDQ hashes of pictures inside the file; None for one that is damaged, or has too many frames or pixels."""
    num_pixels_left = limits.max_pixels
    for inner in pictures:
        if inner is None or not inner.format:
            yield None
            continue
        for file in inner.files():
            try:
                image = memory.opened(file, (inner.format,))
            except memory.TooLargeError:
                yield None
                continue
            except Exception:  # the edge, as in `decode`: something else begins like a picture
                continue
            try:
                num_frames = _num_frames(image, file)
                canvas = memory.canvas_of(file, min(num_frames, limits.max_frames))
                for index in range(min(num_frames, limits.max_frames)):
                    image.seek(index)
                    num_pixels_left -= prod(memory.largest_size(image, canvas))
                    if num_pixels_left < 0:
                        yield None
                        return
                    _checked_frame(image, file, canvas, num_frames, limits, by_pillow=True)
                    yield from map(pdq_of, _frame_pixels(image, limits))
                if num_frames > limits.max_frames:
                    yield None
            except Exception:  # the edge, as above
                if inner.is_sure:
                    yield None


def _num_frames(image: Image.Image, encoded: bytes) -> int:
    if image.format == "MPO":
        return jpeg.num_pictures(encoded, vars(image)["_MpoImageFile__mpoffsets"])
    return tiff.num_pages(encoded) if image.format == "TIFF" else getattr(image, "n_frames", 1)


def _jpeg_pixels(encoded: bytes, stream: jpeg.Stream, last: int, image: Image.Image, limits: ImageLimits) -> Pixels:
    """Decode with strict libjpeg-turbo: unlike Pillow and OpenCV it reports damage in the middle of the data. If it
    warns of something else, the picture is decoded again without that.

    For a smaller picture it decodes in steps of 1/8 of the size, which gives most of the speed.
    """
    scale = memory.scale(image.size, limits.max_side_px)
    wanted = {"min_width": round(image.width * scale), "min_height": round(image.height * scale)} if scale < 1 else {}
    is_cmyk = image.mode == "CMYK"
    decoded = partial(simplejpeg.decode_jpeg, colorspace="CMYK" if is_cmyk else "RGB", **wanted)
    pixels: Pixels
    try:
        pixels = decoded(memoryview(encoded)[stream.first : last])
    except ValueError as flawed:
        if jpeg.is_unusual(encoded):
            raise _RejectionError(_unread("JPEG", image.size)) from flawed
        plain = jpeg.without_flaws(encoded, stream, str(flawed))
        if plain is None:
            raise
        try:
            pixels = decoded(plain)
        except ValueError as another:
            if not jpeg.is_stray(str(another)):
                raise
            pixels = decoded(plain, strict=False)
    if is_cmyk:
        np.subtract(255, pixels, out=pixels)
        pixels = _rgb(Image.fromarray(pixels, "CMYK"))
    factor = memory.scale((pixels.shape[1], pixels.shape[0]), limits.max_side_px)
    return pixels if factor >= 1 else np.asarray(_resized(Image.fromarray(pixels), factor))


def _frame_pixels(image: Image.Image, limits: ImageLimits) -> list[Pixels]:
    """Return the frame over white, and views of what this hides: what is under transparency, faint steps of grey."""
    scale = memory.scale(image.size, limits.max_side_px)
    if memory.is_wide(image):
        return _wide_grey_pixels(image, scale)
    if not image.has_transparency_data:
        return [_rgb(_resized(image if image.mode in ("L", "RGB") else image.convert("RGB"), scale))]
    rgba = image if image.mode == "RGBA" else image.convert("RGBA")
    colour, opacity = _colour_and_opacity(rgba, scale)
    shown = _over(colour, opacity, 255)
    more = [colour] if hidden.has_structure(colour, opacity) else []
    if hidden.shows_more(opacity, [shown, *more]):
        # Over black and over white differ by just the opacity, so that one of them shows it.
        more.append(_over(colour, opacity, 0))
    return [shown, *more]


def _rgb(image: Image.Image) -> Pixels:
    """Return the pixels of a picture without transparency."""
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    for rows, columns, tile in hidden.tiles_of(image):
        pixels[rows, columns] = np.asarray(tile if tile.mode == "RGB" else tile.convert("RGB"))
    return pixels


def _colour_and_opacity(rgba: Image.Image, scale: float) -> tuple[Pixels, hidden.Plane]:
    if scale < 1:
        # Colour and alpha apart: a joint resize would weight the hidden colour with alpha 0 and so remove it. One
        # channel at a time, since a copy of all would take as much memory as the picture.
        red, green, blue, alpha = (np.asarray(_resized(rgba.getchannel(name), scale)) for name in "RGBA")
        return np.stack([red, green, blue], axis=2), alpha
    colour, opacity = np.empty((rgba.height, rgba.width, 3), np.uint8), np.empty((rgba.height, rgba.width), np.uint8)
    for rows, columns, tile in hidden.tiles_of(rgba):
        values = np.asarray(tile)
        colour[rows, columns], opacity[rows, columns] = values[:, :, :3], values[:, :, 3]
    return colour, opacity


def _over(colour: Pixels, opacity: hidden.Plane, ground: int) -> Pixels:
    """Return the colours over a ground of one grey."""
    pixels = np.empty_like(colour)
    for tile in hidden.tiles(opacity.shape):
        alpha = opacity[tile][:, :, None].astype(np.uint16)
        pixels[tile] = (colour[tile] * alpha + ground * (255 - alpha)) // 255
    return pixels


def _wide_grey_pixels(image: Image.Image, scale: float) -> list[Pixels]:
    """Convert 16-bit and float greyscale to 8 bits, from 0 to the largest value; `convert` would clip it to white. A
    second view spreads the values evenly, if that shows more."""
    top = 65535.0 if image.mode.startswith("I;16") else max(255.0, _largest(image))
    steps = hidden.steps_of(image)
    shown = _rgb(_resized(_eight_bit(image, np.array([0, top])), scale))
    spread = np.asarray(_resized(_eight_bit(image, steps), scale))
    return [shown, np.repeat(spread[:, :, None], 3, axis=2)] if hidden.shows_more(spread, [shown]) else [shown]


def _eight_bit(image: Image.Image, steps: npt.NDArray[np.floating]) -> Image.Image:
    """Map the steps, in order, to evenly spaced greys from black to white."""
    scaled = Image.new("L", image.size)
    greys = np.linspace(0, 255, len(steps))
    for rows, columns, tile in hidden.tiles_of(image):
        values = np.nan_to_num(np.asarray(tile, np.float32), nan=0.0)
        scaled.paste(Image.fromarray(np.interp(values, steps, greys).astype(np.uint8)), (columns.start, rows.start))
    return scaled


def _largest(image: Image.Image) -> float:
    """Return the largest value; 0 if it is not finite, since one infinite pixel would make all others black."""
    largest = float(np.asarray(image.getextrema(), np.float64)[1])
    return largest if np.isfinite(largest) else 0.0


def _resized(image: Image.Image, scale: float) -> Image.Image:
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0)
