"""Files of a few hundred bytes whose canvas would take gigabytes."""

import io
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from math import isqrt

import pytest
from PIL import Image

from benchmarks.decode_memory import measured_apart
from ingest.images.decode import Rejected, decode
from ingest.images.files.memory import MAX_PICTURE_BYTES, Views, decoding_bytes, gif_canvas, opened
from ingest.images.pixels import ImageLimits
from tests.ingest.made import animated, webp
from tests.ingest.peak import peak_mb
from tests.ingest.pictures import decoded, refused
from tests.nasty import encoded


def gif(width: int, height: int) -> bytes:
    """The same as GIF (GIF89a, logical screen descriptor)."""
    content = animated("GIF", "P")
    content[6:10] = struct.pack("<HH", width, height)
    return bytes(content)


@pytest.mark.parametrize(
    ("make", "width", "height", "megabytes"), [(webp, 1_048_632, 80, "2,348"), (gif, 33_080, 2_464, "1,743")]
)
def test_a_small_file_with_a_large_canvas_is_not_decoded(
    make: Callable[[int, int], bytes], width: int, height: int, megabytes: str
) -> None:
    content = make(width, height)
    assert len(content) < 1_000
    assert decode(content, ImageLimits(max_side_px=1280)) == Rejected(
        "too_much_memory",
        f"{width}x{height} pixels of this {make.__name__} would take about {megabytes} MB of memory to decode, the "
        f"limit is {MAX_PICTURE_BYTES // 2**20:,} MB",
        width,
        height,
        make.__name__,
    )


@pytest.mark.parametrize("make", [webp, gif])
def test_a_canvas_that_fits_is_decoded(make: Callable[[int, int], bytes]) -> None:
    found = decoded(make(2_000, 1_000), ImageLimits(max_side_px=640))
    assert (found.width, found.height, found.num_frames_decoded) == (2_000, 1_000, 3)


def test_a_gif_whose_later_frame_lies_far_outside_is_refused_from_its_headers() -> None:
    """95 bytes, with frames that are cleared before the next one."""
    content = _far_gif(40_000, disposal=2)
    assert len(content) == 95
    before = peak_mb()
    assert decode(content, ImageLimits()) == Rejected(
        "too_many_pixels", "40000x40000 pixels, the limit is 178000000 (--max-pixels-in)", 40_000, 40_000, "gif"
    )
    assert peak_mb() - before < 100


def test_a_tiff_whose_tile_is_larger_than_its_picture_is_refused_from_its_headers() -> None:
    """A TIFF has the size of its tiles in tags 322 and 323."""
    pixels = zlib.compress(bytes(100))
    tags = {256: 16, 257: 16, 258: 8, 259: 8, 262: 2, 277: 3, 322: 26_000, 323: 26_000, 324: 200, 325: len(pixels)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    content = (b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries).ljust(200, b"\0") + pixels
    rejected = refused(content)
    assert (rejected.reason, rejected.width, rejected.height) == ("too_much_memory", 16, 16)


def _far_gif(side_px: int, disposal: int) -> bytes:
    def frame(side: int) -> bytes:
        control = b"\x21\xf9\x04" + bytes([disposal << 2 | 1]) + b"\0\0\1\0"
        return control + struct.pack("<BHHHHB", 0x2C, 0, 0, side, side, 0) + b"\2\2\x44\1\0"

    head = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x81, 0, 0) + bytes(range(12))
    return head + frame(1) + frame(side_px) + frame(1) + b";"


def test_the_canvas_of_a_gif_is_told_as_pillow_makes_it() -> None:
    """Also of damaged files, which Pillow reads in ways of its own."""
    draw, num_compared = random.Random(7), 0
    files = [bytes(animated("GIF", "P")), _far_gif(300, 2), _far_gif(300, 3)]
    for _ in range(150):
        content = bytearray(draw.choice(files))
        for _ in range(draw.randrange(4)):
            place = draw.randrange(len(content))
            content[place : place + draw.randrange(2)] = draw.choice(
                [b"!", b",", b";", b"\0", b"!\xff\x0bNETSCAPE2.0\0"]
            )
        try:
            image = Image.open(io.BytesIO(content), formats=("GIF",))
            for number in range(draw.randrange(1, 4)):
                canvas = gif_canvas(bytes(content), number + 1)
                assert canvas is not None
                if canvas[0] * canvas[1] > 10**5:
                    break
                image.seek(number)
                assert image.size == canvas
                num_compared += 1
        except (OSError, EOFError, ValueError, SyntaxError, IndexError, struct.error):
            continue
    assert num_compared > 80


def test_frames_before_damage_are_held_once() -> None:
    """They are decoded again."""
    frames = [Image.new("RGB", (300, 300), (shade, 0, 0)) for shade in range(8)]
    whole = encoded(frames[0], "PNG", save_all=True, append_images=frames[1:])
    peaks = []
    for content in (whole, whole[:-50]):
        tracemalloc.start()
        assert getattr(decode(content, ImageLimits()), "num_frames", None) == 8
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.slow
def test_decoding_cleaning_and_covering_take_no_more_memory_than_is_counted() -> None:
    """In each format and mode; what is counted is refused above the limit that is printed."""
    for picture, works in measured_apart().items():
        for work, (peak, counted) in works.items():
            assert peak <= counted, f"{work} of {picture} takes {peak:.1f} bytes per pixel, {counted:.1f} are counted"


def test_the_largest_plain_picture_that_the_limit_on_pixels_allows_is_within_the_memory() -> None:
    """Of 178 megapixels, as a PNG of colour with transparency, which is scanned at a smaller size."""
    file = io.BytesIO()
    Image.new("RGBA", (4, 4)).save(file, "PNG")
    image, side = opened(file.getvalue(), ("PNG",)), isqrt(ImageLimits().max_pixels)
    assert decoding_bytes(image, (side, side), 1, 2**28, Views(1, 1280)) <= MAX_PICTURE_BYTES
