"""Files of a few hundred bytes whose canvas would take gigabytes."""

import struct
from collections.abc import Callable

import pytest

from ingest.images.decode import MAX_DECODE_BYTES, DecodedImage, Rejected, decode
from ingest.images.pixels import ImageLimits
from tests.ingest.made import animated, webp


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
