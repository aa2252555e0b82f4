"""Files of a few hundred bytes whose canvas would take gigabytes."""

import io
import struct
from collections.abc import Callable

import pytest
from PIL import Image

from ingest.images.decode import MAX_DECODE_BYTES, DecodedImage, Rejected, decode
from ingest.images.pixels import ImageLimits

SIDE_PX = 64


def animated(format_name: str, mode: str) -> bytearray:
    frames = [Image.new("L", (SIDE_PX, SIDE_PX), 100 * number).convert(mode) for number in range(3)]
    file = io.BytesIO()
    frames[0].save(file, format_name, save_all=True, append_images=frames[1:], disposal=2)
    return bytearray(file.getvalue())


def webp(width: int, height: int) -> bytes:
    """An animation of small frames on a canvas of this size (WebP container specification, chunk VP8X)."""
    content = animated("WEBP", "RGBA")
    canvas = content.index(b"VP8X") + 12
    content[canvas : canvas + 6] = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return bytes(content)


def gif(width: int, height: int) -> bytes:
    """The same as GIF (GIF89a, logical screen descriptor)."""
    content = animated("GIF", "P")
    content[6:10] = struct.pack("<HH", width, height)
    return bytes(content)


@pytest.mark.parametrize(
    ("make", "width", "height", "megabytes"), [(webp, 1_048_632, 80, "1,440"), (gif, 33_080, 2_464, "1,710")]
)
def test_a_small_file_with_a_large_canvas_is_not_decoded(
    make: Callable[[int, int], bytes], width: int, height: int, megabytes: str
) -> None:
    content = make(width, height)
    assert len(content) < 1_000
    assert decode(content, ImageLimits(max_side_px=1280)) == Rejected(
        "too_much_memory",
        f"{width}x{height} pixels of this {make.__name__} would take about {megabytes} MB of memory to decode, the "
        f"limit is {MAX_DECODE_BYTES // 2**20:,} MB",
        width,
        height,
        make.__name__,
    )


@pytest.mark.parametrize("make", [webp, gif])
def test_a_canvas_that_fits_is_decoded(make: Callable[[int, int], bytes]) -> None:
    found = decode(make(2_000, 1_000), ImageLimits(max_side_px=640))
    assert isinstance(found, DecodedImage)
    assert (found.width, found.height, found.num_frames_decoded) == (2_000, 1_000, 3)


def test_the_largest_plain_picture_that_the_limit_on_pixels_allows_is_within_the_memory() -> None:
    """Of 178 megapixels, as PNG or TIFF of colour or grey."""
    assert ImageLimits().max_pixels * 6 <= MAX_DECODE_BYTES
