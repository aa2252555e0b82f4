"""Writing that a viewer does not show, although it lies in the pixels, is a view of its own or named as unseen."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageDraw

from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from tests.ingest.crafted import extended_header, jpeg, riff, riff_chunk, scene
from tests.ingest.remade import cleaned
from tests.nasty import chunk, encoded

SIZE = (256, 192)


def decoded(content: bytes) -> DecodedImage:
    image = decode(content, ImageLimits())
    assert isinstance(image, DecodedImage), image
    return image


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


def with_fourth_channel(channel: Image.Image, compression: str | None) -> bytes:
    image = scene().convert("RGBA")
    image.putalpha(channel)
    whole = bytearray(encoded(image, "TIFF", compression=compression))
    at = whole.index(struct.pack("<HHI", 338, 3, 1)) + 8
    whole[at] = 0  # a channel without meaning
    return bytes(whole)


def bmp_of_32_bits(channel: Image.Image) -> bytes:
    image = scene().convert("RGBA")
    image.putalpha(channel)
    pixels = image.tobytes("raw", "BGRA", 0, -1)
    head = struct.pack("<IiiHHIIiiII", 40, *SIZE, 1, 32, 0, len(pixels), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54) + head + pixels


@pytest.mark.parametrize("kind", ["tiff", "packed_tiff", "bmp"])
def test_writing_in_a_channel_that_viewers_skip_is_a_view(kind: str) -> None:
    def whole(channel: Image.Image) -> bytes:
        return bmp_of_32_bits(channel) if kind == "bmp" else with_fourth_channel(channel, packing)

    packing = "tiff_lzw" if kind == "packed_tiff" else None
    image = decoded(whole(writing()))
    assert len(image.views) == 2
    assert (image.views[1] == np.asarray(writing())[:, :, None]).all()
    assert len(decoded(whole(Image.new("L", SIZE, 255))).views) == 1


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
def test_a_picture_in_the_low_bytes_of_16_bits_is_a_view_and_goes_from_a_clean_file(mode: str) -> None:
    kind, num_channels = DEEP[mode]
    high = np.asarray(scene().convert(mode)).reshape(192, -1)
    for low in (np.repeat(np.asarray(writing()), num_channels, axis=1), high):
        rows = (high.astype(np.uint16) << 8 | low).astype(">u2")
        packed = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
        header = struct.pack(">IIBBBBB", *SIZE, 16, kind, 0, 0, 0)
        parts = ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
        before = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, content) for name, content in parts)
        image, after = decoded(before), decoded(cleaned(before, 1) or b"")
        is_shown = any((view == np.asarray(writing())[:, :, None]).all() for view in image.views)
        assert (is_shown, len(image.views) > 1) == ((False, False) if low is high else (True, True))
        assert (after.views[0] == image.views[0]).all()
        assert mode == "L" or len(after.views) == 1


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


def laid_over(first: Image.Image, later: Image.Image, format_name: str) -> bytes:
    """An animation of two frames, the second one blended over the first, as it is stored."""
    if format_name == "PNG":
        return encoded(first, "PNG", save_all=True, append_images=[later], blend=1)
    parts = [riff_chunk(b"ANIM", bytes(6))]
    for image in (first, later):
        sides = b"".join(struct.pack("<I", side - 1)[:3] for side in image.size)
        whole = encoded(image, "WEBP", lossless=True, exact=True)
        pixels = whole[whole.index(b"VP8L") :]
        parts.append(riff_chunk(b"ANMF", bytes(6) + sides + b"\x64\0\0\0" + pixels))
    return riff(extended_header(0x12) + b"".join(parts))


@pytest.mark.parametrize("opacity", [0, 1])
@pytest.mark.parametrize("format_name", ["PNG", "WEBP"])
def test_a_picture_in_a_later_frame_that_is_laid_over_the_first_unseen_is_a_view(
    format_name: str, opacity: int
) -> None:
    later = writing().convert("RGBA")
    later.putalpha(opacity)
    image = decoded(laid_over(scene().convert("RGBA"), later, format_name))
    assert image.num_frames_decoded == 2
    assert np.abs(image.views[1].astype(int) - image.views[0]).max() <= 2
    assert [(view == np.asarray(writing())[:, :, None]).all() for view in image.views[2:]] == [True]


def test_writing_in_the_opacity_of_a_later_frame_is_a_view() -> None:
    white = Image.new("RGBA", SIZE, "white")
    later = white.copy()
    later.putalpha(writing())
    for format_name in ("PNG", "WEBP"):
        image = decoded(laid_over(white, later, format_name))
        assert contrast(image, 1) <= 1
        assert max(contrast(image, view) for view in range(2, len(image.views))) > 100


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


def without_hint_of_opacity(image: Image.Image) -> bytes:
    whole = bytearray(encoded(image, "WEBP", lossless=True, exact=True))
    whole[whole.index(b"VP8L") + 12] &= ~0x10
    return riff(bytes(whole[whole.index(b"VP8L") :]))


def test_opacity_that_a_webp_says_it_has_not_is_a_view_and_goes_from_a_clean_file() -> None:
    picture = scene().convert("RGBA")
    picture.putalpha(writing())
    before = without_hint_of_opacity(picture)
    image = decoded(before)
    assert (image.views[0] == np.asarray(scene())).all()
    assert len(image.views) > 1
    after = cleaned(before, 1)
    assert after is not None
    assert (decoded(after).views[0] == image.views[0]).all()
    again = bytearray(after)
    again[again.index(b"VP8L") + 12] |= 0x10
    assert np.asarray(Image.open(io.BytesIO(again)).convert("RGBA"))[:, :, 3].min() == 255
    picture.putalpha(255)
    assert len(decoded(without_hint_of_opacity(picture)).views) == 1
