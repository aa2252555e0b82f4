"""Writing that a viewer does not show, although it lies in the pixels, is a view of its own or named as unseen."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageDraw

from ingest.images.decode import DecodedImage
from tests.ingest.crafted import jpeg, scene
from tests.ingest.pictures import cleaned, decoded
from tests.nasty import chunk, encoded

SIZE = (256, 192)


def writing() -> Image.Image:
    """White on black."""
    image = Image.new("L", SIZE)
    ImageDraw.Draw(image).text((40, 80), "4111 1111 1111 1111", fill=255, font_size=16)
    return image


def logo(shade: int) -> Image.Image:
    image = Image.new("RGB", SIZE, (shade,) * 3)
    image.putalpha(writing())
    return image


def contrast(image: DecodedImage, view: int) -> int:
    part = image.views[view][80:100, 40:200].astype(int)
    return int(part.max() - part.min())


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_white_writing_on_nothing_is_shown_over_black(mode: str) -> None:
    image = decoded(encoded(logo(255).convert(mode), "PNG"))
    assert [contrast(image, view) for view in range(len(image.views))] == [0, 255]


@pytest.mark.parametrize("shade", [0, 120, 200])
def test_a_logo_that_shows_over_white_is_one_view(shade: int) -> None:
    assert len(decoded(encoded(logo(shade), "PNG")).views) == 1


def test_dark_16_bit_grey_and_one_wild_float_are_shown_with_their_steps_spread() -> None:
    dark = decoded(encoded(Image.fromarray(np.asarray(writing()).astype(np.uint16)), "PNG"))
    values = np.where(np.asarray(writing()) > 127, np.float32(0.9), np.float32(0.2))
    values[0, 0] = 1e6
    wild = decoded(encoded(Image.fromarray(values), "TIFF"))
    for image in (dark, wild):
        assert contrast(image, 0) < 2
        assert contrast(image, 1) > 100
    whole = Image.fromarray(np.asarray(writing()).astype(np.uint16) * 257)
    assert len(decoded(encoded(whole, "PNG")).views) == 1


DEEP = {"RGB": (2, 3), "RGBA": (6, 4), "LA": (4, 2), "L": (0, 1)}
"""Pillow's mode -> PNG's type of colour, and channels."""


@pytest.mark.parametrize("mode", DEEP)
def test_low_bytes_of_16_bits_go_from_a_clean_file(mode: str) -> None:
    kind, num_channels = DEEP[mode]
    high = np.asarray(scene().convert(mode)).reshape(192, -1)
    low = np.repeat(np.asarray(writing()), num_channels, axis=1)
    rows = (high.astype(np.uint16) << 8 | low).astype(">u2")
    packed = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    header = struct.pack(">IIBBBBB", *SIZE, 16, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
    before = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, content) for name, content in parts)
    after = cleaned(before, 1) or b""
    assert after[24] == (16 if mode == "L" else 8)
    assert (decoded(after).views[0] == decoded(before).views[0]).all()


@pytest.mark.parametrize("share", [1, 0.8])
def test_faint_writing_behind_a_white_picture_is_no_copy(share: float) -> None:
    white, faint = Image.new("RGB", SIZE, "white"), Image.new("RGB", SIZE, "white")
    ImageDraw.Draw(faint).text((20, 80), "4111 1111 1111 1111", fill=(229,) * 3, font_size=20)
    behind = faint.resize((round(SIZE[0] * share), round(SIZE[1] * share)))
    assert decoded(encoded(white, "JPEG") + encoded(behind, "JPEG")).unseen == ("embedded_image", "trailing_data")


def test_a_picture_as_large_as_the_scanned_one_is_a_copy_only_with_the_same_pixels() -> None:
    shown = Image.open(io.BytesIO(jpeg())).convert("RGB")
    assert decoded(encoded(shown, "PNG") + encoded(shown, "PNG")).unseen == ("trailing_data",)
    assert "embedded_image" in decoded(jpeg() + encoded(scene(), "JPEG", quality=60)).unseen


@pytest.mark.parametrize("options", [{}, {"lossless": True}, {"allow_mixed": True, "minimize_size": True}])
@pytest.mark.parametrize("format_name", ["PNG", "WEBP", "GIF"])
def test_an_ordinary_animation_has_nothing_unseen_and_can_be_cleaned(
    format_name: str, options: dict[str, bool]
) -> None:
    sprite = Image.new("RGBA", (60, 60))
    ImageDraw.Draw(sprite).ellipse((5, 5, 55, 55), fill=(240, 160, 30, 255), outline=(60, 40, 10, 128), width=3)
    for ground in (scene().convert("RGBA"), Image.new("RGBA", SIZE)):
        pictures = [ground.copy() for _ in range(5)]
        for number, picture in enumerate(pictures):
            picture.alpha_composite(sprite, (20 + 30 * number, 60))
        blend = {"blend": 1} if format_name == "PNG" else {}
        whole = encoded(pictures[0], format_name, save_all=True, append_images=pictures[1:], **blend, **options)
        image = decoded(whole)
        assert (image.num_frames_decoded, image.unseen) == (5, ())
        assert cleaned(whole, 5) is not None
