"""Areas of a picture are covered where a viewer shows them, and little else changes."""

import io

import numpy as np
import pytest
from PIL import Image

from ingest.images import rewriting
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import CoverMethod, Pixels
from tests.ingest.crafted import frames, scene, table_profile, tiff
from tests.ingest.pictures import DEMO, LIMITS, covered, decoded
from tests.ingest.test_cleaning import mutants, ordinary
from tests.nasty import encoded

AREA = (0.1, 0.2, 0.4, 0.5)
BLUR_PX = 2
"""A JPEG's colours have half the size of its pixels, so they run over the edge of an area."""


def shown(content: bytes) -> Pixels:
    return decoded(content).views[0]


def inside(pixels: Pixels) -> tuple[slice, slice]:
    height, width = pixels.shape[:2]
    rows = slice(int(0.2 * height) + BLUR_PX, int(0.5 * height) - BLUR_PX)
    return rows, slice(int(0.1 * width) + BLUR_PX, int(0.4 * width) - BLUR_PX)


@pytest.mark.parametrize("format_name", ["JPEG", "MPO", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_area_is_black_as_displayed_however_the_picture_is_stored(format_name: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    second = {"save_all": True, "append_images": [scene()]}
    options: dict[str, dict[str, object]] = {"WEBP": {"lossless": True}, "MPO": second}
    before = encoded(scene(), format_name, exif=exif.tobytes(), **options.get(format_name, {}))
    after = covered(before, [AREA], "solid")
    assert after is not None
    pixels, original = shown(after), shown(before)
    assert pixels.shape == original.shape
    assert pixels[inside(pixels)].max() <= (8 if format_name in ("JPEG", "MPO") else 0)
    rest = np.ones(pixels.shape[:2], dtype=bool)
    height, width = pixels.shape[:2]
    rest[int(0.2 * height) - 17 : int(0.5 * height) + 17, int(0.1 * width) - 17 : int(0.4 * width) + 17] = False
    assert np.abs(pixels[rest].astype(int) - original[rest]).max() <= (24 if format_name in ("JPEG", "MPO") else 0)


def test_outside_of_the_area_real_photographs_stay_above_55_db() -> None:
    """The median over the demo photographs, without the blocks at the edge of the area."""
    psnr = []
    for path in sorted((DEMO / "tree").rglob("*.jpg")):
        before = path.read_bytes()
        after = covered(before, [AREA], "solid") if isinstance(decode(before, LIMITS), DecodedImage) else None
        if after is None:
            continue
        pixels, original = shown(after).astype(float), shown(before)
        rest = slice(int(0.5 * pixels.shape[0]) + 32, None)
        error = float(np.mean((pixels[rest] - original[rest]) ** 2))
        psnr.append(10 * np.log10(255**2 / max(error, 1e-9)))
    assert len(psnr) >= 6
    assert np.median(psnr) >= 55


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_every_usual_kind_of_pixels_can_be_covered(mode: str) -> None:
    format_name = "JPEG" if mode == "CMYK" else "PNG"
    after = covered(encoded(scene().convert(mode), format_name), [AREA], "solid")
    assert after is not None
    pixels = shown(after)
    assert pixels[inside(pixels)].max() <= 8


def test_colour_under_transparency_is_covered_too() -> None:
    image = scene().convert("RGBA")
    image.putalpha(0)
    after = covered(encoded(image, "PNG"), [AREA], "solid")
    assert after is not None
    pixels = np.asarray(Image.open(io.BytesIO(after)))
    assert (pixels[inside(pixels)] == (0, 0, 0, 255)).all()


@pytest.mark.parametrize("method", ["pixelate", "blur"])
def test_the_other_methods_take_detail_from_the_area(method: CoverMethod) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8))
    before = encoded(noise, "PNG")
    after = covered(before, [AREA], method)
    assert after is not None
    pixels, original = shown(after), shown(before)
    assert pixels[inside(pixels)].std() < 0.25 * original[inside(original)].std()
    assert (pixels[150:] == original[150:]).all()


@pytest.mark.parametrize(
    "content", [frames(3, "GIF"), frames(3, "PNG"), tiff(), encoded(Image.new("I;16", (40, 40), 300), "PNG")]
)
def test_what_cannot_be_covered_is_not_returned(content: bytes) -> None:
    assert covered(content, [AREA], "solid") is None


@pytest.mark.slow
def test_a_damaged_file_that_can_be_scanned_is_covered_so_that_it_can_be_examined_or_not_at_all() -> None:
    assert sum(map(is_covered, mutants(30, ordinary()))) > 5


def is_covered(before: bytes) -> bool:
    """Return whether a damaged file is covered; AssertionError if it cannot be examined then, or shows the area."""
    if not isinstance(decode(before, LIMITS), DecodedImage):
        return False
    after = covered(before, [(0.2, 0.3, 0.6, 0.7)], "solid")
    if after is None:
        return False
    again = decoded(after)
    assert (again.unseen, again.metadata, again.num_frames) == ((), frozenset(), 1)
    height, width = again.views[0].shape[:2]
    rows, columns = slice(int(0.35 * height), int(0.65 * height)), slice(int(0.25 * width), int(0.55 * width))
    assert max(view[rows, columns].max(initial=0) for view in again.views) < 12
    return True


@pytest.mark.parametrize("mode", ["RGB", "CMYK"])
def test_a_covered_picture_loses_a_profile_with_tables_and_keeps_its_kind(mode: str) -> None:
    before = encoded(scene().convert(mode), "JPEG", icc_profile=table_profile(mode))
    made = rewriting.covered(before, [AREA], "solid")
    assert made is not None
    image = Image.open(io.BytesIO(made.content))
    assert (made.colours, image.mode, "icc_profile" in image.info) == ("removed", mode, False)


def test_a_lossy_webp_stays_lossy_whatever_is_behind_its_pixels() -> None:
    lossy, lossless = encoded(scene(), "WEBP"), encoded(scene(), "WEBP", lossless=True)
    both = b"RIFF" + (len(lossy) + len(lossless) - 20).to_bytes(4, "little") + lossy[8:] + lossless[12:]
    made = covered(both, [(0.1, 0.1, 0.2, 0.2)], "solid") or b""
    assert (b"VP8 " in made, b"VP8L" in made) == (True, False)
