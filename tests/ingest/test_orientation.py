"""A picture is judged, hashed, cleaned and covered as viewers show it, whichever way up its file stores it."""

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from ingest.images.decode import DecodedImage, decode
from ingest.images.phash import phash
from ingest.images.pixels import ImageLimits
from tests.ingest.crafted import scene
from tests.nasty import chunk, encoded

ORIENTATION = 0x0112
STORED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""EXIF orientation -> how an upright picture is stored so that this orientation shows it upright."""


def stored(orientation: int, mode: str = "RGB") -> Image.Image:
    image = scene().convert(mode)
    return image.transpose(STORED[orientation]) if orientation in STORED else image


def exif(orientation: int) -> bytes:
    block = Image.Exif()
    block[ORIENTATION] = orientation
    return block.tobytes()


def in_exif(format_name: str, mode: str = "RGB", **options: object) -> Callable[[int], bytes]:
    return lambda number: encoded(stored(number, mode), format_name, exif=exif(number), **options)


def in_tag(mode: str = "RGB", **options: object) -> Callable[[int], bytes]:
    return lambda number: encoded(stored(number, mode), "TIFF", tiffinfo={ORIENTATION: number}, **options)


def behind_pixels(number: int) -> bytes:
    whole = encoded(stored(number), "PNG")
    end = chunk(b"IEND", b"")
    return whole.removesuffix(end) + chunk(b"eXIf", exif(number).removeprefix(b"Exif\0\0")) + end


def wide_grey(number: int) -> bytes:
    grey = np.asarray(stored(number, "L")).astype(np.uint16) * 257
    return encoded(Image.fromarray(grey), "TIFF", tiffinfo={ORIENTATION: number})


TURNED: dict[str, Callable[[int], bytes]] = {
    "JPEG": in_exif("JPEG", quality=95),
    "JPEG CMYK": in_exif("JPEG", "CMYK", quality=95),
    "MPO": lambda number: encoded(
        stored(number), "MPO", quality=95, save_all=True, append_images=[stored(number)], exif=exif(number)
    ),
    "PNG": in_exif("PNG"),
    "PNG, behind the pixels": behind_pixels,
    "WEBP": in_exif("WEBP", lossless=True),
    "AVIF": in_exif("AVIF", quality=100, subsampling="4:4:4"),
    "TIFF": in_tag(),
    "TIFF grey": in_tag("L"),
    "TIFF grey of 16 bits": wide_grey,
    "TIFF palette": in_tag("P"),
    "TIFF with opacity": in_tag("RGBA"),
    **{f"TIFF {name}": in_tag(compression=name) for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits")},
    "TIFF jpeg": in_tag(compression="jpeg", quality=95),
    "TIFF of one bit": in_tag("1", compression="group4"),
}


@pytest.mark.parametrize("name", TURNED)
def test_all_eight_orientations_of_a_picture_are_shown_alike(name: str) -> None:
    found = [decode(TURNED[name](number), ImageLimits()) for number in range(1, 9)]
    assert [(image.width, image.height) for image in found] == [scene().size] * 8
    images = [image for image in found if isinstance(image, DecodedImage)]
    assert [view.shape for image in images for view in image.views[:1]] == [(*scene().size[::-1], 3)] * 8
    assert len({phash(image.views[0]) for image in images}) == 1
    assert {len(image.views) for image in images} == {len(images[0].views)}


def test_each_page_of_a_tiff_is_turned_as_its_own_tag_says() -> None:
    pages = [stored(number) for number in range(1, 9)]
    for number, page in enumerate(pages, 1):
        page.encoderinfo = {"tiffinfo": {ORIENTATION: number}}
    image = decode(encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:]), ImageLimits())
    assert isinstance(image, DecodedImage)
    assert len(image.views) == 8
    assert all((view == np.asarray(scene())).all() for view in image.views)
