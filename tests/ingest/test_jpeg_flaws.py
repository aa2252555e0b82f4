"""Of flaws in a JPEG, those of the pixels count; what decoders pass over does not."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from ingest.images.decode import DecodedImage, Rejected, decode
from tests.ingest.crafted import jpeg, mpo, scene, segment, with_segments
from tests.ingest.pictures import LIMITS, cleaned, decoded, refused


def before_marker(marker: int, content: bytes, whole: bytes) -> bytes:
    at = whole.rindex(bytes([0xFF, marker]))
    return whole[:at] + content + whole[at:]


def with_scan_header(*numbers: int) -> bytes:
    whole = jpeg()
    end = whole.index(b"\xff\xda") + 14
    return whole[: end - 3] + bytes(numbers) + whole[end:]


def with_adobe_transform(transform: int) -> bytes:
    """Without the JFIF header, which would win."""
    return jpeg()[:2] + segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([transform])) + jpeg()[20:]


WHOLE = {
    "bytes before the tables": before_marker(0xDB, b"\0" * 4, jpeg()),
    "bytes before a segment": jpeg()[:20] + b"\0" * 16 + segment(0xE1, b"of a program") + jpeg()[20:],
    "bytes before the scan": before_marker(0xDA, b"\1\2", jpeg()),
    "bytes before the end": before_marker(0xD9, b"\0" * 8, jpeg()),
    "the first of two parts of a colour profile": with_segments(segment(0xE2, b"ICC_PROFILE\0\1\2" + bytes(200))),
    "JFIF of another version": jpeg().replace(b"JFIF\0\1\1", b"JFIF\0\2\1"),
    "scan of no coefficients, as of a phone": with_scan_header(0, 0, 0),
    "scan of the last coefficient, as of a phone": with_scan_header(63, 0, 0),
    "the colour transform of four channels": with_adobe_transform(2),
    "all at once": before_marker(0xD9, b"\0" * 8, before_marker(0xDA, b"\1", with_scan_header(0, 0, 0))),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_jpeg_with_a_flaw_outside_of_its_pixels_is_whole(name: str) -> None:
    assert_array_equal(decoded(WHOLE[name]).views[0], decoded(jpeg()).views[0])
    after = decoded(cleaned(WHOLE[name], 1) or b"")
    assert (after.unseen, after.metadata) == ((), frozenset())


@pytest.mark.parametrize("name", WHOLE)
def test_such_a_flaw_hides_no_damage_of_the_pixels(name: str) -> None:
    whole = WHOLE[name]
    start = whole.index(b"\xff\xda") + 14
    rng = np.random.default_rng(7)
    num_noticed = 0
    for position in rng.integers(start + 100, len(whole) - 100, 30):
        damaged = whole[:position] + b"\xff\xd9" + whole[position + 2 :]
        num_noticed += isinstance(decode(damaged, LIMITS), Rejected)
    assert num_noticed == 30


@pytest.mark.parametrize("num_bytes", [1, 4, 8, 16, 32, 64])
def test_a_few_bytes_before_the_end_are_no_damage_whatever_they_are(num_bytes: int) -> None:
    """More are: the decoder has lost its place. It reads some bytes ahead, which it does not report."""
    contents = [bytes(num_bytes), b"\x55" * num_bytes, np.random.default_rng(num_bytes).bytes(num_bytes)]
    results = [decode(before_marker(0xD9, content.replace(b"\xff", b"\1"), jpeg()), LIMITS) for content in contents]
    assert [isinstance(result, DecodedImage) for result in results] == [num_bytes <= 16] * 3


@pytest.mark.parametrize("marker", [0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF])
def test_a_lossless_or_hierarchical_jpeg_is_sound_and_not_decoded(marker: int) -> None:
    rejected = refused(jpeg().replace(b"\xff\xc0\0\x11", bytes([0xFF, marker, 0, 0x11])))
    assert (rejected.reason, rejected.width, rejected.format) == ("unsupported_format", 256, "jpeg")


TWO = mpo(scene(), scene(9))
AT = TWO.rindex(b"\xff\xd8\xff")
THREE = mpo(scene(), scene(9), scene(20))
THIRD = THREE.rindex(b"\xff\xd8\xff")
NOT_SCANNED = ("embedded_image", "frames", "trailing_data")


@pytest.mark.parametrize(
    ("content", "num_frames", "unseen"),
    [
        (TWO[:AT], 1, ()),
        (TWO[:AT] + bytes(len(TWO) - AT), 1, ()),
        (TWO[: AT + 2000], 2, NOT_SCANNED),
        (TWO[:AT] + bytes(64) + TWO[AT:], 1, ("embedded_image", "trailing_data")),
        (THREE[: THIRD - 1000] + b"\1" * 1000 + THREE[THIRD:], 3, NOT_SCANNED),
    ],
    ids=["gone", "zeros", "cut", "moved", "second of three cut"],
)
def test_the_first_picture_is_scanned_where_the_second_of_the_index_is_not_whole(
    content: bytes, num_frames: int, unseen: tuple[str, ...]
) -> None:
    image, expected = decoded(content), decoded(TWO)
    assert (expected.num_frames, expected.unseen) == (2, ())
    assert (image.num_frames, image.num_frames_decoded, image.unseen) == (num_frames, 1, unseen)
    assert_array_equal(image.views[0], expected.views[0])
    after = decoded(cleaned(content, 1) or b"")
    assert after.unseen == ()


def test_of_thousands_of_pictures_in_an_index_the_first_16_are_scanned() -> None:
    image = decoded(mpo(scene(), *[Image.new("L", (8, 8))] * 4000))
    assert (image.num_frames, image.num_frames_decoded, "frames" in image.unseen) == (4001, 16, True)
