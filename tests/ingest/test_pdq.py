"""PDQ hashes against the authors' program, and the search among them."""

import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pdqhash
import pytest
from PIL import Image, ImageEnhance

from ingest.images.decode import DecodedImage, decode
from ingest.images.pdq import MAX_DISTANCE, NUM_HASHES, PdqSearch, hashes_of, pdq_of, turned
from ingest.images.pixels import ImageLimits, Pixels
from tests.ingest.crafted import card, frames
from tests.ingest.hiding import HIDING, SHOWING

DEMO = Path(__file__).parents[2] / "jobs/demo/corpus"
NOTHING_SHOWN = {
    "svg_in_comment.jpg",
    "jxl_in_comment.jpg",
    "cut_off_thumbnail.jpg",
    "item.avif",
    "second_picture.heic",
    "second_codestream.jp2",
}
"""Pictures inside a file that cannot be decoded apart from it."""


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


def own_hash(pixels: Pixels) -> str:
    return pdq_of(pixels, size_of(pixels))[:64]


@pytest.mark.slow
def test_the_hash_is_that_of_the_authors_program(pictures: list[tuple[bytes, Pixels]]) -> None:
    assert len(pictures) >= 35
    for _, pixels in pictures:
        differing = num_differing(own_hash(pixels), of_the_authors(pixels))
        assert differing <= (0 if max(pixels.shape[:2]) < 1024 else 6), pixels.shape


def test_the_next_hashes_are_those_of_the_mirrored_picture(pictures: list[tuple[bytes, Pixels]]) -> None:
    for _, pixels in pictures[:12]:
        if max(pixels.shape[:2]) < 1024:
            hashes = pdq_of(pixels, size_of(pixels))
            mirrored = (pixels, pixels[:, ::-1], pixels[::-1], pixels[::-1, ::-1])
            assert hashes[:256] == "".join(own_hash(np.ascontiguousarray(one)) for one in mirrored)


@pytest.mark.parametrize("size", [(5, 5), (64, 64), (65, 63), (7, 900), (129, 127), (1000, 11), (511, 768)])
def test_a_picture_of_any_size_has_the_hash_of_the_authors_program(size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    pixels = np.asarray(Image.fromarray(noise).resize(size))
    assert own_hash(pixels) == of_the_authors(pixels)


def test_a_very_large_or_narrow_picture_has_a_hash() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 2, 3), dtype=np.uint8)
    for pixels, size in ((noise, (2, 10**9)), (noise[:1, :1], (1, 1)), (np.repeat(noise, 500, axis=0), (2, 20_000))):
        assert len(hashes_of([pdq_of(pixels, size)], NUM_HASHES)[0]) == NUM_HASHES


@pytest.mark.slow
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
        differing.append(num_differing(smaller.pdq[0][:64], of_the_authors(pixels)))
    assert np.mean(differing) < 6
    assert max(differing) <= 16


def listing(*hashes: str) -> PdqSearch:
    return PdqSearch(hashes_of(hashes)[:, 0])


def is_near(search: PdqSearch, pixels: Pixels) -> bool:
    return bool(search.near(hashes_of([pdq_of(pixels, size_of(pixels))], NUM_HASHES))[0])


@pytest.mark.slow
@pytest.mark.parametrize("side_px", [None, 512, 256])
def test_copies_are_found_mirrored_and_turned_ones_too(
    pictures: list[tuple[bytes, Pixels]], side_px: int | None
) -> None:
    """Not all copies of a picture whose hash was made of a much smaller picture."""
    found: dict[int | None, list[bool]] = {None: [], 256: []}
    for _, pixels in pictures:
        searches = {listed_px: listing(of_the_authors(changed(pixels, listed_px, 95))) for listed_px in found}
        for seen in (pixels, pixels[:, ::-1], np.rot90(pixels), np.rot90(pixels, 2), np.rot90(pixels, 3)[::-1]):
            copy = changed(seen, side_px)
            known = hashes_of([pdq_of(copy, size_of(copy))], NUM_HASHES)
            for listed_px, search in searches.items():
                found[listed_px].append(bool(search.near(known)[0]))
    for listed_px, of_listed in found.items():
        assert np.mean(of_listed) >= (0.97 if listed_px is None or side_px == listed_px else 0.65), listed_px


def test_other_pictures_are_not_found(pictures: list[tuple[bytes, Pixels]]) -> None:
    half = len(pictures) // 2
    search = listing(*(of_the_authors(pixels) for _, pixels in pictures[:half]))
    others = [pdq_of(pixels, size_of(pixels)) for _, pixels in pictures[half:]]
    assert not search.near(hashes_of(others, NUM_HASHES)).any()


@pytest.mark.slow
def test_a_brighter_copy_is_found(pictures: list[tuple[bytes, Pixels]]) -> None:
    found = []
    for _, pixels in pictures:
        brighter = np.asarray(ImageEnhance.Brightness(Image.fromarray(pixels)).enhance(1.2))
        found.append(is_near(listing(of_the_authors(pixels)), changed(brighter)))
    assert np.mean(found) > 0.9


def test_an_even_picture_has_no_bit_set() -> None:
    assert pdq_of(np.full((300, 700, 3), 201, np.uint8), (700, 300)) == "0" * 320


@pytest.mark.parametrize("num_listed", [1, 40, 5000])
def test_every_hash_within_31_bits_is_found_and_none_beyond(num_listed: int) -> None:
    random = np.random.default_rng(num_listed)
    listed = random.integers(0, 2**64, (num_listed, 4), dtype=np.uint64)
    asked = random.integers(0, 2**64, (300, NUM_HASHES, 4), dtype=np.uint64)
    distances = random.integers(0, 2 * MAX_DISTANCE, 300).tolist()
    for number, distance in enumerate(distances):
        hash_number = number % NUM_HASHES
        ways = turned(listed[[number % num_listed]], is_mirrored=hash_number == NUM_HASHES - 1)
        one = ways[number % len(ways)].copy()
        for bit in random.choice(256, distance, replace=False):
            one[bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
        asked[number, hash_number] = one
    found = PdqSearch(listed).near(asked)
    assert found.tolist() == [distance <= MAX_DISTANCE for distance in distances]
    assert PdqSearch(listed).near(asked[:0]).shape == (0,)


def test_a_text_that_is_no_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="64 hex digits"):
        hashes_of(["00" * 31])


def is_on(listed: Sequence[Image.Image], encoded: bytes, max_frames: int = 16) -> bool | None:
    """None: it cannot be known."""
    image = decode(encoded, ImageLimits(max_frames=max_frames, has_pdq=True))
    assert isinstance(image, DecodedImage)
    assert image.pdq is not None
    assert len(set(image.pdq)) == len(image.pdq)
    known = hashes_of([one for one in image.pdq if one is not None], NUM_HASHES)
    if listing(*(own_hash(np.asarray(one)) for one in listed)).near(known).any():
        return True
    return None if None in image.pdq else False


@pytest.mark.parametrize("name", [name for name, (_, kinds) in HIDING.items() if "embedded_image" in kinds])
def test_a_picture_inside_a_file_has_a_hash_or_is_known_to_have_none(name: str) -> None:
    """But for cards that are so small that they are other pictures, and files with another picture inside."""
    others = {
        "text_ppm_in_comment.jpg",
        "larger_than_scanned.jpg",
        "unblurred_thumbnail.jpg",
        "small_known_tag.tiff",
        "smaller_picture.ico",
    }
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
    whole = decode(encoded, ImageLimits())
    assert isinstance(whole, DecodedImage)
    last = Image.fromarray(whole.views[2])
    assert is_on([last], encoded) is True
    assert is_on([last], encoded, max_frames=2) is None


def test_no_hash_is_computed_unless_it_is_asked_for() -> None:
    image = decode(HIDING["behind_jpeg.jpg"][0](), ImageLimits())
    assert isinstance(image, DecodedImage)
    assert image.pdq is None
