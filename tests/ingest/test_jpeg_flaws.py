"""Of flaws in a JPEG, those of the pixels count; what decoders pass over does not."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ingest.images.decode import DecodedImage, Rejected, decode
from ingest.images.pixels import ImageLimits
from tests.ingest.crafted import jpeg, mpo, scene, segment, with_segments
from tests.ingest.remade import cleaned

LIMITS = ImageLimits()


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
    image = decode(WHOLE[name], LIMITS)
    expected = decode(jpeg(), LIMITS)
    assert isinstance(image, DecodedImage), image
    assert isinstance(expected, DecodedImage)
    assert_array_equal(image.views[0], expected.views[0])
    after = decode(cleaned(WHOLE[name], 1) or b"", LIMITS)
    assert isinstance(after, DecodedImage)
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


def test_many_bytes_behind_the_scan_are_a_sign_of_damage() -> None:
    """The decoder has lost its place."""
    rejected = decode(before_marker(0xD9, bytes(64), jpeg()), LIMITS)
    assert isinstance(rejected, Rejected)
    assert rejected.reason == "corrupt"


TWO = mpo(scene(), scene(9))
AT = TWO.rindex(b"\xff\xd8\xff")


@pytest.mark.parametrize(
    ("content", "unseen"),
    [
        (TWO[:AT], ()),
        (TWO[:AT] + bytes(len(TWO) - AT), ()),
        (TWO[: AT + 2000], ("embedded_image", "trailing_data")),
        (TWO[:AT] + bytes(64) + TWO[AT:], ("embedded_image", "trailing_data")),
    ],
    ids=["gone", "zeros", "cut", "moved"],
)
def test_the_first_picture_is_scanned_where_the_second_of_the_index_is_not(
    content: bytes, unseen: tuple[str, ...]
) -> None:
    image = decode(content, LIMITS)
    expected = decode(TWO, LIMITS)
    assert isinstance(image, DecodedImage), image
    assert isinstance(expected, DecodedImage)
    assert (expected.num_frames, expected.unseen) == (2, ())
    assert (image.num_frames, image.num_frames_decoded, image.unseen) == (1, 1, unseen)
    assert_array_equal(image.views[0], expected.views[0])
    after = decode(cleaned(content, 1) or b"", LIMITS)
    assert isinstance(after, DecodedImage)
    assert after.unseen == ()
