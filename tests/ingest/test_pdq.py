"""PDQ hashes against the authors' program, and the search among them."""

import io
from collections.abc import Sequence

import numpy as np
import pdqhash
import pytest
from PIL import Image, ImageEnhance

from ingest.images.pdq import MAX_DISTANCE, distances, hashes_of, near, pdq_of, turned
from ingest.images.pixels import ImageLimits, Pixels
from tests.ingest.crafted import HIDING, SHOWING, card, frames
from tests.ingest.pictures import decoded, demo_pictures

NOTHING_SHOWN = {
    *("svg_in_comment.jpg", "jxl_in_comment.jpg", "cut_off_thumbnail.jpg", "sub_directory.tiff"),
    *("sub_directory_in_xmp.tiff", "strips_in_xmp.tiff", "sub_directories.tiff", "gps_directory.tiff"),
    *("item.avif", "second_picture.heic", "second_codestream.jp2"),
}
"""Pictures inside a file that cannot be decoded apart from it."""


@pytest.fixture(scope="module")
def pictures() -> list[Pixels]:
    return demo_pictures()


def of_the_authors(pixels: Pixels) -> str:
    return np.packbits(np.asarray(pdqhash.compute(np.ascontiguousarray(pixels))[0], np.uint8)).tobytes().hex()


def changed(pixels: Pixels, side_px: int, quality: int = 75) -> Pixels:
    """Made smaller, and encoded as JPEG."""
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.thumbnail((side_px, side_px), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer).convert("RGB"))


def is_near(listed: str, pixels: Pixels) -> bool:
    return bool(near(turned(hashes_of([listed])).reshape(-1, 4), hashes_of([pdq_of(pixels)]))[0])


@pytest.mark.slow
@pytest.mark.parametrize("side_px", [4000, 512, 256])
def test_a_hash_by_the_authors_program_finds_copies_mirrored_turned_and_brighter_ones_too(
    pictures: list[Pixels], side_px: int
) -> None:
    assert len(pictures) >= 35
    found = []
    for pixels in pictures:
        brighter = np.asarray(ImageEnhance.Brightness(Image.fromarray(pixels)).enhance(1.2))
        turned_ways = (np.rot90(pixels), np.rot90(pixels, 2), np.rot90(pixels, 3)[::-1])
        for seen in (pixels, pixels[:, ::-1], *turned_ways, brighter):
            found.append(is_near(of_the_authors(pixels), changed(seen, side_px)))
    assert np.mean(found) >= 0.95


def test_other_pictures_are_not_found(pictures: list[Pixels]) -> None:
    half = len(pictures) // 2
    listed = hashes_of(map(of_the_authors, pictures[:half]))
    others = hashes_of(map(pdq_of, pictures[half:]))
    assert not near(turned(listed).reshape(-1, 4), others).any()
    assert distances(listed, others).min() > MAX_DISTANCE


def test_a_picture_of_any_shape_has_a_hash_and_an_even_one_has_no_bit_set() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 2, 3), dtype=np.uint8)
    for pixels in (noise, noise[:1, :1], np.repeat(noise, 500, axis=0)):
        assert hashes_of([pdq_of(pixels)]).shape == (1, 4)
    assert pdq_of(np.full((300, 700, 3), 201, np.uint8)) == "0" * 64


@pytest.mark.parametrize("num_listed", [1, 40, 5000])
def test_every_hash_within_31_bits_is_found_and_none_beyond(num_listed: int) -> None:
    random = np.random.default_rng(num_listed)
    listed = random.integers(0, 2**64, (num_listed, 4), dtype=np.uint64)
    ways = turned(listed)
    apart = random.integers(0, 2 * MAX_DISTANCE, 300).tolist()
    asked = np.stack([ways[number % 8, number % num_listed] for number in range(300)])
    for number, distance in enumerate(apart):
        for bit in random.choice(256, distance, replace=False):
            asked[number, bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
    assert near(ways.reshape(-1, 4), asked).tolist() == [distance <= 31 for distance in apart]
    assert near(ways.reshape(-1, 4), asked[:0]).shape == (0,)
    assert distances(listed[:7], asked[:10]).shape == (10, min(7, num_listed))


def test_a_text_that_is_no_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="64 hex digits"):
        hashes_of(["00" * 31])


def test_of_the_five_hashes_that_1_0_wrote_the_last_is_taken() -> None:
    assert hashes_of(["00" * 4 * 32 + "ff" * 32]).tolist() == hashes_of(["ff" * 32]).tolist()


def is_on(listed: Sequence[Image.Image], encoded: bytes, max_frames: int = 16) -> bool | None:
    """None: it cannot be known."""
    image = decoded(encoded, ImageLimits(max_frames=max_frames, has_pdq=True))
    assert image.pdq is not None
    assert len(set(image.pdq)) == len(image.pdq)
    known = hashes_of(one for one in image.pdq if one is not None)
    if near(turned(hashes_of(pdq_of(np.asarray(one)) for one in listed)).reshape(-1, 4), known).any():
        return True
    return None if None in image.pdq else False


@pytest.mark.parametrize("name", [name for name, (_, kinds) in HIDING.items() if "embedded_image" in kinds])
def test_a_picture_inside_a_file_has_a_hash_or_is_known_to_have_none(name: str) -> None:
    """But for cards that are so small that they are other pictures, and files with another picture inside."""
    others = {"text_ppm_in_comment.jpg", "larger_than_scanned.jpg", "unblurred_thumbnail.jpg", "small_known_tag.tiff"}
    others |= {"tiff_of_many_tags.png"}  # which shows nothing
    wanted = None if name in NOTHING_SHOWN else name not in others
    assert is_on([card(), card(96)], HIDING[name][0]()) is wanted


@pytest.mark.parametrize("name", sorted(SHOWING))
def test_a_file_without_hidden_content_can_be_compared(name: str) -> None:
    assert is_on([card()], SHOWING[name]()) is False


@pytest.mark.parametrize("format_name", ["GIF", "PNG", "WEBP", "AVIF", "TIFF"])
def test_every_frame_has_a_hash_and_frames_beyond_the_limit_are_known_to_have_none(format_name: str) -> None:
    """The card is on the last frame."""
    options = {"lossless": True} if format_name == "WEBP" else {}
    encoded = frames(3, format_name, **options)
    whole = decoded(encoded)
    last = Image.fromarray(whole.views[2])
    assert is_on([last], encoded) is True
    assert is_on([last], encoded, max_frames=2) is None


def test_no_hash_is_computed_unless_it_is_asked_for() -> None:
    image = decoded(HIDING["behind_jpeg.jpg"][0]())
    assert image.pdq is None
