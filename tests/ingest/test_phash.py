"""Perceptual hashes: what they call a copy, and what they do not."""

import io

import numpy as np
import pytest
import scipy.fft
from PIL import Image

from ingest.images.phash import _candidates, near_duplicate_groups, phash
from ingest.images.pixels import Pixels
from tests.ingest.pictures import decoded, demo_pictures
from tests.making import Patch


def _distance(text: str, other: str) -> int:
    """Return the number of bits in which two hashes differ."""
    return (int(text, 16) ^ int(other, 16)).bit_count()


@pytest.fixture(scope="module")
def pictures() -> list[Pixels]:
    found = demo_pictures()
    assert len(found) >= 35
    return found


def _copy(pixels: Pixels, scale: float, quality: int) -> Pixels:
    image, out = Image.fromarray(pixels), io.BytesIO()
    size = (round(image.width * scale), round(image.height * scale))
    image.resize(size, Image.Resampling.LANCZOS).save(out, "JPEG", quality=quality)
    copy = decoded(out.getvalue())
    return copy.views[0]


def _flipped(text: str, bits: list[int]) -> str:
    number = int(text, 16)
    for bit in bits:
        number ^= 1 << bit
    return f"{number:016x}"


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "quality"), [(1, 30), (0.5, 75), (0.25, 50), (0.13, 90), (1.5, 60)])
def test_a_resized_or_recompressed_copy_of_a_demo_picture_is_within_8_bits(
    pictures: list[Pixels], scale: float, quality: int
) -> None:
    distances = [_distance(phash(one), phash(_copy(one, scale, quality))) for one in pictures]

    assert max(distances) <= 8
    assert sum(distances) > 0  # the copies are not the pictures themselves


def test_no_two_demo_pictures_are_near_duplicates(pictures: list[Pixels]) -> None:
    hashes = [phash(one) for one in pictures]

    assert all(len(text) == 16 and int(text, 16) >= 0 for text in hashes)
    assert near_duplicate_groups(hashes).tolist() == list(range(len(hashes)))


def test_a_copy_shares_its_pictures_group(pictures: list[Pixels]) -> None:
    hashes = [phash(pictures[0]), phash(pictures[1]), phash(_copy(pictures[0], 0.4, 60)), None, None]

    assert near_duplicate_groups(hashes).tolist() == [0, 1, 0, 2, 3]


def test_the_hash_has_the_signs_of_scipys_cosine_transform_about_their_median() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    greys = pixels @ np.array([0.299, 0.587, 0.114])
    low = scipy.fft.dctn(greys, norm="ortho")[:8, :8]

    assert phash(pixels) == np.packbits(low > np.median(low)).tobytes().hex()


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (7, 3), (3000, 2)])
def test_pictures_of_any_shape_have_a_hash(size: tuple[int, int]) -> None:
    assert len(phash(np.zeros((*size, 3), np.uint8))) == 16


def test_plain_pictures_join_no_group_but_that_of_their_equals() -> None:
    black, white = (phash(np.full((50, 50, 3), shade, np.uint8)) for shade in (0, 255))
    ramp = phash(np.broadcast_to(np.linspace(0, 255, 90).astype(np.uint8)[:, None, None], (90, 90, 3)).copy())
    nearly_plain = "80c0000000000000"

    assert (black, white) == ("0" * 16, "8" + "0" * 15)
    assert _distance(white, ramp) <= 8  # so that only the rule about plain pictures keeps them apart
    assert near_duplicate_groups([black, white, black, nearly_plain]).tolist() == [0, 1, 0, 2]


def test_groups_are_chains_of_near_hashes_numbered_by_their_first_picture() -> None:
    first = "f0f0f0f0f0f0f0f0"
    near = _flipped(first, [0, 9, 17, 26, 33, 42, 50, 60])
    next_to_near = _flipped(near, [1, 10, 18, 27, 34, 43])
    far = "0f3c0f3c0f3cf0c3"

    assert _distance(first, next_to_near) == 14
    assert near_duplicate_groups([far, next_to_near, first, None, near]).tolist() == [0, 1, 1, 2, 1]
    assert near_duplicate_groups([far, next_to_near, first], max_distance=8).tolist() == [0, 1, 2]
    assert near_duplicate_groups([far, next_to_near, first], max_distance=14).tolist() == [0, 1, 1]
    assert near_duplicate_groups([]).tolist() == []


@pytest.mark.slow
@pytest.mark.parametrize("many", [0, 10**9], ids=["agree in two bands", "agree in one band"])
def test_groups_are_those_that_comparing_all_pairs_gives(many: int, monkeypatch: Patch) -> None:
    monkeypatch.setattr("ingest.images.phash.MANY", many)
    generator = np.random.default_rng(3)
    hashes = [f"{n:016x}" for n in generator.integers(0, 2**64, 100, dtype=np.uint64)]
    for _ in range(500):
        parent = hashes[generator.integers(len(hashes))]
        hashes.append(_flipped(parent, generator.choice(64, generator.integers(0, 12), replace=False).tolist()))
    telling = [text for text in hashes if int(text, 16).bit_count() >= 24]
    near = np.array([[_distance(one, other) <= 8 for other in telling] for one in telling])
    while (reached := (near.astype(int) @ near) > 0).sum() > near.sum():
        near = reached
    expected = [int(row.argmax()) for row in near]  # the first member of each one's group

    groups = near_duplicate_groups(telling)

    assert [int(np.flatnonzero(groups == group)[0]) for group in groups] == expected
    assert 20 < len(set(expected)) < len(telling)


@pytest.mark.slow
def test_a_hundred_thousand_hashes_are_grouped_without_comparing_all_pairs() -> None:
    generator = np.random.default_rng(5)
    originals = [f"{n:016x}" for n in generator.integers(0, 2**64, 20_000, dtype=np.uint64)]
    originals = [text for text in originals if int(text, 16).bit_count() >= 30][:10_000]
    copies = [_flipped(text, generator.choice(64, 4, replace=False).tolist()) for text in originals]
    others = [f"{n:016x}" for n in generator.integers(0, 2**64, 80_000, dtype=np.uint64)]
    hashes = [*originals, *copies, *others]

    groups = near_duplicate_groups(hashes)

    assert (groups[:10_000] == groups[10_000:20_000]).all()
    values = np.array([int(text, 16) for text in hashes], np.uint64)
    num_compared = sum(len(ours) * len(theirs) for ours, theirs in _candidates(values, 8))
    assert num_compared < 0.1 * len(hashes) ** 2


def test_what_is_no_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="16 hex digits, not 3"):
        near_duplicate_groups(["abc", "0" * 16])
