"""How much memory a picture takes to be decoded or covered, from the headers of its frames, before pixels are read.

The figures are the largest that `python -m benchmarks.decode_memory` measures. A file of a few hundred bytes can
have a canvas that takes gigabytes.
"""

import io
from dataclasses import dataclass
from math import prod

from PIL import Image, ImageFile, TiffImagePlugin

from ingest.images.files import heif, icon
from ingest.images.files.magic import HEAD_BYTES, picture_format
from ingest.images.files.metadata import MAX_CHUNKS
from ingest.images.files.orientation import is_turned_by_decoder

Size = tuple[int, int]
"""Width and height in pixels."""

MAX_PICTURE_BYTES = 2**30
"""Limit of the memory to decode, clean or cover one picture, besides its file."""

_FILE_COPIES, _FILE_COPIES_OF_REWRITING = 2, 5
"""Copies of the file's own bytes that are held at once while its parts are examined, or written again."""

_WORK_BYTES = 28 * 2**20
"""For strips, blocks and buffers, whatever the size of the picture."""

_TILE_WIDTH, _TILE_HEIGHT, _BITS, _SAMPLES = 322, 323, 258, 277
"""Tags of a TIFF."""

_LEAST_BYTES_PER_PIXEL = 5
"""Of any format whose canvas may be larger than its picture."""
_STORED = frozenset(["L", "RGB", "RGBA", "I", "F"])
"""Modes that are downscaled as they are."""
_BYTES_PER_PIXEL_OF_MODES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}
"""Bytes of a pixel in Pillow's memory; 4 in all other modes."""
_BYTES_PER_PIXEL_OF_CANVASES = {("webp", False): 18, ("webp", True): 29, ("avif", False): 12, ("avif", True): 24}
_BYTES_PER_PIXEL_OF_HEIF = {False: 13, True: 21}
"""Whether it has more than 8 bits per channel -> planes of the decoder, the frame and a copy of it."""
_BYTES_PER_PIXEL_OF_JPEG_2000, _BYTES_PER_CHANNEL_OF_JPEG_2000 = 3, 6
_BYTES_PER_PIXEL_OF_ANIMATIONS = 22
"""Format, and whether it has several frames -> canvases of the decoder, the frame and copies of it."""


@dataclass(frozen=True)
class Views:
    """What is made of a picture."""

    num_frames: int
    """Frames that are decoded."""

    max_side_px: int | None
    """Longer side of each view; None for the size of the frame."""

    def pixels(self, size: Size) -> int:
        return prod(max(1, round(side * scale(size, self.max_side_px))) for side in size)


def scale(size: Size, max_side_px: int | None) -> float:
    """Return by how much a frame is downscaled, at most 1. max_side_px: as in `Views`."""
    return 1.0 if max_side_px is None else min(1.0, max_side_px / max(size))


class TooLargeError(Exception):
    """A picture takes more than `MAX_PICTURE_BYTES`."""

    def __init__(self, size: Size, num_bytes: int):
        num_mb, limit_mb = num_bytes // 2**20, MAX_PICTURE_BYTES // 2**20
        super().__init__(f"would take about {num_mb:,} MB of memory to decode, the limit is {limit_mb:,} MB")
        self.size = size


def check_bytes(size: Size, num_bytes: int) -> None:
    """Raise TooLargeError above the limit. size: of the picture."""
    if num_bytes > MAX_PICTURE_BYTES:
        raise TooLargeError(size, num_bytes)


def opened(encoded: bytes, formats: tuple[str, ...]) -> ImageFile.ImageFile:
    """Open a picture without decoding it. TooLargeError for a GIF, whose first frame takes memory then, an icon, which
    is decoded then, and a HEIF, whose parts may be larger or have no bound; other errors are those of Pillow."""
    size = canvas_of(encoded, 1)
    if size is not None:
        check_bytes(size, prod(size) * _LEAST_BYTES_PER_PIXEL)
    elif heif.is_heif(encoded):
        raise TooLargeError((0, 0), MAX_PICTURE_BYTES + 1)
    if "ICO" in formats and _is_icon(encoded):
        return icon.opened(encoded)
    return Image.open(io.BytesIO(encoded), formats=[name for name in formats if name != "ICO"])


def decoding_bytes(
    image: ImageFile.ImageFile,
    size: Size,
    num_frames: int,
    num_encoded: int,
    views: Views,
    coefficients: int = 0,
    *,
    is_turned: bool = False,
    by_pillow: bool = False,
) -> int:
    """Return the memory to decode a picture, by the mode of its frame.

    size: of the canvas. num_frames: of the file. num_encoded: size of the file in bytes. coefficients: of a JPEG
    (`coefficient_bytes`). is_turned: whether each frame gets a view that is turned otherwise. by_pillow: whether a JPEG
    is decoded by Pillow, which holds the whole frame.
    """
    name, has_alpha = format_name(image), image.has_transparency_data
    stored = _BYTES_PER_PIXEL_OF_MODES.get(image.mode, 4)
    if name == "jpeg" and not by_pillow:
        per_pixel = 1 + coefficients
    elif canvas := _BYTES_PER_PIXEL_OF_CANVASES.get((name, num_frames > 1)):
        per_pixel = canvas
    elif name == "heif":
        per_pixel = _BYTES_PER_PIXEL_OF_HEIF[image.info.get("bit_depth", 8) > 8]
    elif name == "jpeg2000":
        channels = len(image.getbands())
        per_pixel = _BYTES_PER_PIXEL_OF_JPEG_2000 + channels * _BYTES_PER_CHANNEL_OF_JPEG_2000
    elif num_frames > 1 and name in ("gif", "png"):  # pages of TIFF and pictures of MPO are decoded one by one
        per_pixel = _BYTES_PER_PIXEL_OF_ANIMATIONS
    else:
        converted = 0 if image.mode in _STORED or stored == 2 else 4
        plane = int(has_alpha or is_wide(image))
        per_pixel = max(stored + converted + plane, stored + coefficients)
    if is_turned_by_decoder(image):
        per_pixel = max(per_pixel, 2 * stored)
    # Views: as shown, turned otherwise, two of what transparency hides, one of faint steps.
    num_views = views.num_frames * (1 + is_turned + 2 * has_alpha + is_wide(image))
    num_pixels = views.pixels(size)
    view_bytes = num_pixels * 3 * num_views
    working = num_pixels * (4 if scale(size, views.max_side_px) == 1 else 36)
    flawless = _FILE_COPIES * num_encoded if name == "jpeg" and not by_pillow else 0  # jpeg.without_flaws
    tile_bytes = 0
    if isinstance(image, TiffImagePlugin.TiffImageFile) and _TILE_WIDTH in (tags := image.tag_v2):
        bits = max(tags.get(_BITS, (1,))) * tags.get(_SAMPLES, 1)  # a tile may be much larger than its picture
        tile_bytes = int(tags[_TILE_WIDTH]) * int(tags[_TILE_HEIGHT]) * int(bits) // 8
    while_decoding = prod(size) * per_pixel + tile_bytes + view_bytes + working + flawless
    return max(while_decoding, _FILE_COPIES * num_encoded + view_bytes) + _WORK_BYTES


def covering_bytes(image: Image.Image, num_encoded: int, coefficients: int) -> int:
    """Return the memory to cover areas of a picture. Arguments as in `decoding_bytes`."""
    stored = _BYTES_PER_PIXEL_OF_MODES.get(image.mode, 4)
    per_pixel = {"png": stored + 5, "webp": 36}.get(format_name(image), max(9, stored + coefficients))
    pixels = image.width * image.height * per_pixel
    return max(pixels, _FILE_COPIES_OF_REWRITING * num_encoded) + _WORK_BYTES


def coefficient_bytes(image: Image.Image, num_scans: int) -> int:
    """Return the bytes per pixel that libjpeg holds of a JPEG: 2 for each coefficient, until the last of its scans."""
    sampling: list[tuple[int, int]] = [(layer[1], layer[2]) for layer in getattr(image, "layer", ())]
    if num_scans < 2 or not sampling:
        return 0
    whole = max(across for across, _ in sampling) * max(down for _, down in sampling)
    return -(-2 * sum(across * down for across, down in sampling) // whole)


def format_name(image: Image.Image) -> str:
    """Return the format in lower case; that of a JPEG for a file of several JPEGs."""
    name = (image.format or "").lower()
    return "jpeg" if name == "mpo" else name


def is_wide(image: Image.Image) -> bool:
    """Return whether the picture has grey of more than 8 bits."""
    return image.mode.startswith("I") or image.mode == "F"


def canvas_of(encoded: bytes, max_frames: int) -> Size | None:
    """Return the size that takes memory where that is not the size of the picture: of a GIF, a HEIF or an icon. None
    for other formats, and if it is not stated."""
    if _is_icon(encoded):
        return icon.largest(encoded).size
    return heif.canvas(encoded) if heif.is_heif(encoded) else gif_canvas(encoded, max_frames)


def _is_icon(encoded: bytes) -> bool:
    return picture_format(encoded[:HEAD_BYTES]) == "ICO"


def largest_size(image: Image.Image, canvas: Size | None) -> Size:
    """Return the size that bounds the memory of a frame. canvas: as in `canvas_of`."""
    return max(canvas or (0, 0), image.size, key=prod)


def gif_canvas(encoded: bytes, max_frames: int) -> Size | None:
    """Return the size to which Pillow extends the canvas of a GIF for its first frames; None if it is no GIF or
    has no frame. ValueError if it has too many extensions before their end.

    A frame may lie outside of the canvas that the header states. The file is read as Pillow reads it, also where that
    differs from the standard.
    """
    if not encoded.startswith((b"GIF87a", b"GIF89a")):
        return None
    stream = io.BytesIO(encoded)

    def block() -> bytes:
        return stream.read((stream.read(1) or b"\0")[0])

    def skip_table(flags: int) -> None:
        stream.seek(3 << (flags & 7) + 1 if flags & 0x80 else 0, io.SEEK_CUR)

    header = stream.read(13).ljust(13, b"\0")
    width, height = int.from_bytes(header[6:8], "little"), int.from_bytes(header[8:10], "little")
    skip_table(header[10])
    num_frames = num_extensions = 0
    while num_frames < max_frames and (mark := stream.read(1)) not in (b"", b";"):
        if mark == b"!":
            label, content = stream.read(1), block()
            num_extensions += 1
            if num_extensions > MAX_CHUNKS:
                raise ValueError(f"more than {MAX_CHUNKS:,} extensions")
            if label == b"\xff" and num_frames == 0 and content.startswith(b"NETSCAPE2.0"):
                block()
            if label != b"\xfe" or content:
                while block():
                    pass
        elif mark == b",":
            frame = stream.read(9).ljust(9, b"\0")
            x, y, across, down = (int.from_bytes(frame[n : n + 2], "little") for n in range(0, 8, 2))
            width, height = max(width, x + across), max(height, y + down)
            skip_table(frame[8])
            stream.seek(1, io.SEEK_CUR)
            while block():
                pass
            num_frames += 1
    return (width, height) if num_frames else None
