"""What a file holds beyond the pictures that are scanned: found in every place, and nothing said where nothing is."""

import pytest

from ingest.images import DecodedImage, ImageLimits, decode
from ingest.unseen import UNSEEN_KINDS
from tests.ingest.hiding import HIDING, SHOWING

LIMITS = ImageLimits()
ENGINE_LIMITS = ImageLimits(max_side_px=200)


def decoded(encoded: bytes, limits: ImageLimits = LIMITS) -> DecodedImage:
    image = decode(encoded, limits)
    assert isinstance(image, DecodedImage), image
    return image


@pytest.mark.parametrize("limits", [LIMITS, ENGINE_LIMITS], ids=["full_size", "downscaled"])
@pytest.mark.parametrize("name", HIDING)
def test_what_is_hidden_in_a_file_is_named(name: str, limits: ImageLimits) -> None:
    maker, kinds = HIDING[name]
    image = decoded(maker(), limits)
    assert image.unseen == kinds
    assert set(kinds) <= set(UNSEEN_KINDS)
    assert 64 < image.unseen_bytes <= len(maker())


@pytest.mark.parametrize("limits", [LIMITS, ENGINE_LIMITS], ids=["full_size", "downscaled"])
@pytest.mark.parametrize("name", SHOWING)
def test_a_file_that_shows_everything_has_nothing_unseen(name: str, limits: ImageLimits) -> None:
    image = decoded(SHOWING[name](), limits)
    assert (image.unseen, image.unseen_bytes) == ((), 0)
