"""Pictures are recognised by their first bytes; captions, tables and code are not taken for pictures."""

import io
import json
import random

import pytest
from PIL import Image

from ingest.images.files.formats import READ
from ingest.images.files.magic import HEAD_BYTES, picture_format, picture_in_place_of_text
from tests.ingest.made import jpeg
from tests.ingest.pictures import refused
from tests.ingest.texts import CAPTIONS, LIKE_PICTURES, TEXT_PICTURES

WRITTEN = (
    *("avif", "bmp", "dds", "dib", "eps", "gif", "icns", "ico", "jpeg", "jpeg2000", "mpo", "msp", "pcx", "pdf"),
    *("png", "ppm", "sgi", "tiff", "webp", "xbm"),
)


@pytest.mark.parametrize("name", WRITTEN)
def test_what_pillow_writes_is_a_picture(name: str) -> None:
    out = io.BytesIO()
    Image.new("1" if name in ("msp", "xbm") else "RGB", (64, 64), 1).save(out, name)
    assert picture_format(out.getvalue()[:HEAD_BYTES]) is not None
    assert picture_format(out.getvalue()[:512]) is not None
    assert picture_in_place_of_text(out.getvalue()[:HEAD_BYTES]) is not None


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "I", "F"])
def test_every_kind_of_netpbm_is_a_picture(mode: str) -> None:
    out = io.BytesIO()
    Image.new(mode, (3, 3)).save(out, "ppm")
    assert picture_format(out.getvalue()) == "PPM"
    assert picture_format(b"P3 # drawn\n# by hand\n2 2\n255\n") == "PPM"


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"8BPS\0\1", "Photoshop"),
        (b"Image type: L image\r\nImage size (x*y): 2*2\r\n" + b"\0" * 400 + b"\x1a", "IM, MSP or Sun raster"),
        (b"%PDF-1.7\n", "PDF"),
        (b"\0" * 128 + b"DICM", "DICOM"),
    ],
)
def test_formats_that_are_not_decoded(head: bytes, name: str) -> None:
    assert picture_format(head) == name
    rejected = refused(head)
    assert (rejected.reason, rejected.message) == ("unsupported_format", f"{name} is not decoded")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"BMW parked in a street",
        b"BMP is a format, and so is TIFF",
        b"P1 racing car, 12 laps",
        b"P3 12 of them",
        b"GIF animation of a dancing cat",
        b"II. World War poster",
        b"MM*",
        b"RIFF WAVE",
        b"<html><body>not found</body></html>",
        b"# include <stdio.h>",
        *CAPTIONS,
        b"#define WIDTH 3",
        b"%!",
        json.dumps({"caption": "a picture", "width": 3}).encode(),
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'",
        b"PK\x03\x04",
        b"\x28\0\0\0" * 20,
        b"\0\0\1\0" * 20,
        b"\0" * 600,
    ],
)
def test_what_is_no_picture(content: bytes) -> None:
    assert picture_format(content) is None


@pytest.mark.parametrize("caption", [*CAPTIONS, *LIKE_PICTURES])
def test_a_caption_about_formats_is_no_picture_where_text_is_expected(caption: bytes) -> None:
    assert picture_in_place_of_text(caption) is None
    assert picture_in_place_of_text(caption + " ä".encode()[:-1]) is None  # cut where it is long


@pytest.mark.parametrize("content", TEXT_PICTURES)
def test_a_picture_that_is_text_is_found_among_texts(content: bytes) -> None:
    assert picture_in_place_of_text(content) == picture_format(content) is not None


def test_numbers_are_hardly_ever_taken_for_a_picture() -> None:
    chance = random.Random(0)
    taken = sum(picture_format(chance.randbytes(200)) is not None for _ in range(20_000))
    assert taken <= 3


def test_a_cut_picture_of_a_format_that_is_decoded_is_corrupt() -> None:
    for head in (jpeg(1)[:3], b"\x89PNG\r\n", b"GIF89a", b"II*\0"):
        assert picture_format(head) in READ
        rejected = refused(head)
        assert rejected.reason == "corrupt"
