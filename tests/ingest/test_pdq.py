"""PDQ hashes against the authors' program, and the search among them."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pdqhash
import pytest
from PIL import Image, ImageEnhance

from ingest.images.decode import DecodedImage, ImageLimits, Pixels, decode
from ingest.images.pdq import MAX_DISTANCE, as_array, pdq_hashes, turned
from ingest.images.pdq_search import PdqSearch
from tests.ingest.hiding import HIDING, SHOWING, card, frames

DEMO = Path(__file__).parents[2] / "jobs/demo/corpus"
NOTHING_SHOWN = {"svg_in_comment.jpg", "jxl_in_comment.jpg", "cut_off_thumbnail.jpg", "item.avif"}
"""Pictures inside a file that cannot be decoded."""


def encoded_pictures() -> Iterator[bytes]:
    yield from (path.read_bytes() for path in sorted(DEMO.glob("tree/*/*")))
    for path in sorted(DEMO.glob("shards/*.tar")):
        with tarfile.open(path) as shard:
            yield from (shard.extractfile(member).read() for member in shard.getmembers())  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def pictures() -> list[tuple[bytes, Pixels]]:
    """Of the demo corpus: the file, and all its pixels."""
    found = [(encoded, decode(encoded, ImageLimits(max_frames=1))) for encoded in encoded_pictures()]
    return [(encoded, image.views[0]) for encoded, image in found if isinstance(image, DecodedImage)]


def size_of(pixels: Pixels) -> tuple[int, int]:
    return pixels.shape[1], pixels.shape[0]


def of_the_authors(pixels: Pixels) -> str:
    return np.packbits(np.asarray(pdqhash.compute(pixels)[0], np.uint8)).tobytes().hex()


def num_differing(one: str, other: str) -> int:
    return (int(one, 16) ^ int(other, 16)).bit_count()


def changed(pixels: Pixels, side_px: int | None = None, quality: int = 75) -> Pixels:
    """Made smaller, and encoded as JPEG."""
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if side_px is not None:
        image.thumbnail((side_px, side_px), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer).convert("RGB"))


def test_the_hash_is_that_of_the_authors_program(pictures: list[tuple[bytes, Pixels]]) -> None:
    assert len(pictures) >= 35
    for _, pixels in pictures:
        differing = num_differing(pdq_hashes(pixels, size_of(pixels))[0], of_the_authors(pixels))
        assert differing <= (0 if max(pixels.shape[:2]) < 1024 else 6), pixels.shape


@pytest.mark.parametrize("size", [(5, 5), (64, 64), (65, 63), (7, 900), (129, 127), (1000, 11), (511, 768)])
def test_a_picture_of_any_size_has_the_hash_of_the_authors_program(size: tuple[int, int]) -> None:
    pixels = np.asarray(
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 9, 3), dtype=np.uint8)).resize(size)
    )
    assert pdq_hashes(pixels, size)[0] == of_the_authors(pixels)


@pytest.mark.parametrize("max_side_px", [336, 512, 1024])
def test_the_hash_of_a_picture_that_was_decoded_smaller_is_nearly_the_same(
    pictures: list[tuple[bytes, Pixels]], max_side_px: int
) -> None:
    differing = []
    for encoded, pixels in pictures:
        smaller = decode(encoded, ImageLimits(max_frames=1, max_side_px=max_side_px, has_pdq=True))
        assert isinstance(smaller, DecodedImage)
        assert smaller.pdq is not None
        assert smaller.pdq[0] is not None
        differing.append(num_differing(smaller.pdq[0], of_the_authors(pixels)))
    assert np.mean(differing) < 6
    assert max(differing) <= 16


def near(listed: list[str], hashes: tuple[str, ...]) -> bool:
    return bool(PdqSearch(as_array(listed)).near(as_array(hashes)).any())


@pytest.mark.slow
@pytest.mark.parametrize("side_px", [None, 512, 384, 256, 224])
def test_copies_of_any_size_are_found_mirrored_and_turned_ones_too(
    pictures: list[tuple[bytes, Pixels]], side_px: int | None
) -> None:
    listed = [of_the_authors(pixels) for _, pixels in pictures]
    num_found, num_asked = 0, 0
    for number, (_, pixels) in enumerate(pictures):
        for seen in (pixels, pixels[:, ::-1], np.rot90(pixels), np.rot90(pixels, 2), np.rot90(pixels, 3)[::-1]):
            copy = changed(seen, side_px)
            num_found += near([listed[number]], pdq_hashes(copy, size_of(copy)))
            num_asked += 1
    assert num_found >= 0.97 * num_asked


def test_other_pictures_are_not_found(pictures: list[tuple[bytes, Pixels]]) -> None:
    half = len(pictures) // 2
    search = PdqSearch(as_array([of_the_authors(pixels) for _, pixels in pictures[:half]]))
    hashes = [one for _, pixels in pictures[half:] for one in pdq_hashes(pixels, size_of(pixels))]
    assert not search.near(as_array(hashes)).any()


def test_a_brighter_copy_is_found(pictures: list[tuple[bytes, Pixels]]) -> None:
    found = []
    for _, pixels in pictures:
        brighter = changed(np.asarray(ImageEnhance.Brightness(Image.fromarray(pixels)).enhance(1.2)))
        found.append(near([of_the_authors(pixels)], pdq_hashes(brighter, size_of(brighter))))
    assert np.mean(found) > 0.9


def test_an_even_picture_has_no_bit_set() -> None:
    assert pdq_hashes(np.full((300, 700, 3), 201, np.uint8), (700, 300)) == ("0" * 64, "0" * 64)


@pytest.mark.parametrize("num_listed", [1, 40, 5000])
def test_every_hash_within_31_bits_is_found_and_none_beyond(num_listed: int) -> None:
    random = np.random.default_rng(num_listed)
    listed = random.integers(0, 2**64, (num_listed, 4), dtype=np.uint64)
    asked, distances = [], []
    for number in range(300):
        one = turned(listed[[number % num_listed]])[number % 8].copy()
        distances.append(int(random.integers(0, 2 * MAX_DISTANCE)))
        for bit in random.choice(256, distances[-1], replace=False):
            one[bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
        asked.append(one)
    found = PdqSearch(listed).near(np.array(asked))
    assert found.tolist() == [distance <= MAX_DISTANCE for distance in distances]
    assert PdqSearch(listed).near(np.zeros((0, 4), np.uint64)).shape == (0,)


def test_a_text_that_is_no_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="64 hex digits"):
        as_array(["00" * 31])


def is_on(listed: Image.Image, encoded: bytes, max_frames: int = 16) -> bool | None:
    """None: it cannot be known."""
    image = decode(encoded, ImageLimits(max_frames=max_frames, has_pdq=True))
    assert isinstance(image, DecodedImage)
    assert image.pdq is not None
    known = tuple(one for one in image.pdq if one is not None)
    assert len(set(image.pdq)) == len(image.pdq)
    return near(list(pdq_hashes(np.asarray(listed), listed.size)), known) or (None if None in image.pdq else False)


@pytest.mark.parametrize("name", [name for name, (_, kinds) in HIDING.items() if "embedded_image" in kinds])
def test_a_picture_inside_a_file_has_a_hash_or_is_known_to_have_none(name: str) -> None:
    """Not of cards that are made so small or changed so much that they are other pictures."""
    others = {"text_ppm_in_comment.jpg", "larger_than_scanned.jpg", "unblurred_thumbnail.jpg", "small_known_tag.tiff"}
    wanted = None if name in NOTHING_SHOWN else name not in others
    assert is_on(card(), HIDING[name][0]()) is wanted


@pytest.mark.parametrize("name", sorted(SHOWING))
def test_a_file_without_hidden_content_can_be_compared(name: str) -> None:
    assert is_on(card(), SHOWING[name]()) is False


@pytest.mark.parametrize("format_name", ["GIF", "PNG", "WEBP", "AVIF", "TIFF"])
def test_every_frame_has_a_hash_and_frames_beyond_the_limit_are_known_to_have_none(format_name: str) -> None:
    """The card is on the last frame."""
    options = {"lossless": True} if format_name == "WEBP" else {}
    encoded = frames(3, format_name, **options)
    whole = decode(encoded, ImageLimits())
    assert isinstance(whole, DecodedImage)
    last = Image.fromarray(whole.views[2])
    assert is_on(last, encoded) is True
    assert is_on(last, encoded, max_frames=2) is None


def test_no_hash_is_computed_unless_it_is_asked_for() -> None:
    image = decode(HIDING["behind_jpeg.jpg"][0](), ImageLimits())
    assert isinstance(image, DecodedImage)
    assert image.pdq is None
