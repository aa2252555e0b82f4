"""A cleaned file shows the same pixels and holds nothing else."""

import io
import random
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from PIL import Image, ImageCms

from ingest.images import rewriting
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import Pixels
from tests.ingest.crafted import (
    CARD,
    HIDING,
    NUM_SCANNED,
    SHOWING,
    TEXT,
    frames,
    jpeg,
    png,
    profile,
    scene,
    table_profile,
    webp,
    with_chunks,
)
from tests.ingest.pictures import LIMITS, cleaned, decoded
from tests.nasty import chunk, encoded


def assert_same_pixels(after: DecodedImage, before: DecodedImage, num_frames: int) -> None:
    """Every frame is the same, and with all frames also what these do not show."""
    last = None if num_frames == before.num_frames_decoded else num_frames
    pairs = zip(after.views[:last], before.views[:last], strict=True)
    assert all((here == there).all() for here, there in pairs)


def num_kept(image: DecodedImage) -> int:
    """Of a JPEG with several pictures, one."""
    return 1 if image.format == "jpeg" else image.num_frames_decoded


FILES = {
    **{f"hiding, {name}": hidden for name, hidden in HIDING.items()},
    **{f"showing, {name}": (maker, ()) for name, maker in SHOWING.items()},
}
"""Name -> maker, and the kinds of content that are unseen."""
CLEANED = ("jpeg", "png", "gif", "webp")


@pytest.mark.parametrize("name", FILES)
def test_pixels_stay_and_everything_else_goes(name: str) -> None:
    maker, unseen = FILES[name]
    before = maker()
    image = decoded(before)
    assert image.unseen == unseen
    after = cleaned(before, image.num_frames_decoded)
    is_in_pixels = "hidden_pixels" in image.unseen and image.format != "png"
    if image.format not in CLEANED or is_in_pixels or name == "hiding, behind_lossy.webp":
        assert after is None
        return
    assert after is not None
    again = decoded(after)
    assert (again.unseen, again.metadata, again.format) == ((), frozenset(), image.format)
    assert (again.width, again.height) == (image.width, image.height)
    assert_same_pixels(again, image, num_kept(image))
    assert cleaned(after, NUM_SCANNED) == after


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_picture_stays_turned(format_name: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "a camera"
    exif[0x8825] = {1: "N", 2: (1.0, 2.0, 3.0), 3: "E", 4: (1.0, 2.0, 3.0)}
    before = encoded(scene(), format_name, exif=exif.tobytes())
    after = cleaned(before, 1)
    assert after is not None
    kept = Image.open(io.BytesIO(after)).getexif()
    assert dict(kept) == ({0x0112: orientation} if orientation > 1 else {})
    image, again = decoded(before), decoded(after)
    assert image.metadata == {"camera", "gps"}
    assert again.metadata == frozenset()
    assert (again.views[0] == image.views[0]).all()


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP"])
def test_of_a_colour_profile_the_colours_stay_and_the_rest_goes(format_name: str) -> None:
    after = cleaned(encoded(scene(), format_name, icc_profile=profile(priv=CARD, cprt=TEXT, bkpt=TEXT)), 1)
    kept = Image.open(io.BytesIO(after or b"")).info["icc_profile"]
    lab = ImageCms.createProfile("LAB")
    both = [ImageCms.ImageCmsProfile(io.BytesIO(each)) for each in (profile(), kept)]
    shown = [np.asarray(ImageCms.profileToProfile(scene(), each, lab, outputMode="LAB")) for each in both]
    assert (shown[0] == shown[1]).all()
    assert len(kept) < 600


def test_of_two_colour_profiles_of_a_png_the_first_counts() -> None:
    """As for libpng; Pillow alone takes the last."""
    second = chunk(b"iCCP", b"other\0\0" + zlib.compress(table_profile()))
    before = with_chunks(second, before=b"IDAT", whole=png(icc_profile=profile()))
    assert cleaned(before, 1) == cleaned(png(icc_profile=profile()), 1)


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP"])
def test_a_damaged_colour_profile_goes(format_name: str) -> None:
    no_curve = b"curv\0\0\0\0\0\0\1\0" + TEXT[:512]
    for given in (profile(rTRC=no_curve), profile(rXYZ=b""), b"no profile" * 20):
        after = remade(rewriting.cleaned(encoded(scene(), format_name, icc_profile=given), 1))
        assert after[1:] == ("removed", False)


def remade(made: rewriting.Remade | None) -> tuple[Pixels, str | None, bool]:
    """RGB pixels, what became of the profile, and whether there is one."""
    assert made is not None
    image = Image.open(io.BytesIO(made.content))
    return np.asarray(image.convert("RGB")), made.colours, "icc_profile" in image.info


@pytest.mark.parametrize(
    "before",
    [
        encoded(scene(), "JPEG", icc_profile=table_profile()),
        encoded(scene().convert("CMYK"), "JPEG", icc_profile=table_profile("CMYK")),
        encoded(scene(), "WEBP", icc_profile=table_profile()),
        encoded(scene().convert("L"), "PNG", icc_profile=table_profile()),
        encoded(scene(), "PNG", icc_profile=table_profile()),
        encoded(scene(), "PNG", icc_profile=table_profile()[:1500]),
    ],
    ids=["jpeg", "cmyk.jpg", "lossy.webp", "grey.png", "png", "cut"],
)
def test_pixels_stay_and_lose_a_profile_with_tables(before: bytes) -> None:
    pixels, *rest = remade(rewriting.cleaned(before, 1))
    assert rest == ["removed", False]
    assert (pixels == np.asarray(Image.open(io.BytesIO(before)).convert("RGB"))).all()


@pytest.mark.parametrize("format_name", ["GIF", "PNG", "WEBP"])
def test_frames_beyond_those_scanned_go(format_name: str) -> None:
    before = frames(20, format_name)
    after = cleaned(before, 3)
    assert after is not None
    assert decoded(after).num_frames == 3
    assert_same_pixels(decoded(after), decoded(before), 3)


def test_what_is_no_picture_is_not_cleaned() -> None:
    for content in (b"", b"\xff\xd8\xff", b"P6 1 1 255\nabc", b"GIF89a", b"RIFF\0\0\0\0WEBP"):
        assert cleaned(content, 1) is None


def ordinary() -> tuple[bytes, ...]:
    return (
        jpeg(),
        jpeg(progressive=True),
        png(),
        webp(),
        webp(lossless=True),
        frames(3, "GIF"),
        frames(3, "PNG"),
        frames(3, "WEBP"),
        HIDING["mpo_frame_17.jpg"][0](),
    )


def mutants(num_each: int, wholes: Sequence[bytes]) -> Iterator[bytes]:
    rng = random.Random(7)
    for whole in wholes:
        for _ in range(num_each):
            changed = bytearray(whole)
            for _ in range(rng.randint(1, 4)):
                position = rng.randrange(len(changed)) if rng.random() < 0.3 else rng.randrange(min(300, len(changed)))
                match rng.randrange(3):
                    case 0:
                        changed[position] = rng.randrange(256)
                    case 1:
                        changed[position:position] = rng.randbytes(rng.randint(1, 40))
                    case _:
                        del changed[position : position + rng.randint(1, 20)]
            yield bytes(changed)


@pytest.mark.slow
def test_a_damaged_file_that_can_be_scanned_is_cleaned_to_the_same_pixels_or_not_at_all() -> None:
    assert sum(map(is_cleaned, mutants(60, ordinary()))) > 30


def is_cleaned(before: bytes) -> bool:
    """Return whether a damaged file is cleaned; AssertionError if that leaves other pixels, or content unseen."""
    image = decode(before, LIMITS)
    after = cleaned(before, image.num_frames_decoded) if isinstance(image, DecodedImage) else None
    if after is None or not isinstance(image, DecodedImage):
        return False
    again = decoded(after)
    assert (again.unseen, again.metadata) == ((), frozenset())
    assert_same_pixels(again, image, num_kept(image))
    return True


def with_hidden_colours(image: Image.Image) -> Image.Image:
    """20 colours are used, and the last two say something."""
    image = image.quantize(20)
    image.putpalette((image.getpalette() or [])[:60] + list(b"SECRET"))
    return image


def gif_with_hidden_colours(**options: object) -> bytes:
    """Pillow writes the used ones alone, and fills the table of 32 with zeros."""
    whole = encoded(scene().quantize(20), "GIF", **options)
    return whole[: 13 + 3 * 30] + b"SECRET" + whole[13 + 3 * 32 :]


HIDDEN_COLOURS: dict[str, Callable[[], bytes]] = {
    "PNG": lambda: encoded(with_hidden_colours(scene()), "PNG"),
    "PNG with opacity": lambda: encoded(with_hidden_colours(scene()), "PNG", transparency=b"\0" + b"\xff" * 19 + b"SS"),
    "GIF": gif_with_hidden_colours,
    "GIF animated": lambda: gif_with_hidden_colours(save_all=True, append_images=[scene(50).quantize(20)]),
}


@pytest.mark.parametrize("name", HIDDEN_COLOURS)
def test_colours_of_a_palette_that_no_pixel_has_go(name: str) -> None:
    before = HIDDEN_COLOURS[name]()
    after = cleaned(before, 16) or b""
    assert (b"SECRET" in before, b"SECRET" in after, b"SS" in after) == (True, False, False)
    assert_same_pixels(decoded(after), decoded(before), decoded(before).num_frames)


@pytest.mark.parametrize(("mode", "opacity"), [("L", b"\0\1"), ("RGB", b"\0\1" * 3), ("RGBA", b"")])
def test_of_transparency_without_a_palette_only_one_colour_stays(mode: str, opacity: bytes) -> None:
    part = chunk(b"tRNS", opacity + b"SECRET" * 40)
    before = with_chunks(part, before=b"IDAT", whole=encoded(scene().convert(mode), "PNG"))
    after = cleaned(before, 1) or b""
    assert (opacity in after, b"SECRET" in after) == (True, False)
    assert_same_pixels(decoded(after), decoded(before), 1)
