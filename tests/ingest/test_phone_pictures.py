"""HEIC as phones write it, JPEG 2000 and icons: the picture that viewers show, within bounds from the headers."""

import struct
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from ingest.images.decode import DecodedImage, Rejected, decode
from ingest.images.files import formats
from ingest.images.files import heif as heif_walker
from ingest.images.pixels import ImageLimits
from tests.ingest.crafted import box, card, heif, icon, joined_icon, scene
from tests.ingest.remade import cleaned
from tests.nasty import encoded

LIMITS = ImageLimits()


def shown(content: bytes) -> DecodedImage:
    image = decode(content, LIMITS)
    assert isinstance(image, DecodedImage), image
    return image


def refused(content: bytes) -> tuple[str, str]:
    image = decode(content, LIMITS)
    assert isinstance(image, Rejected)
    return image.reason, image.message


def with_stated_size(whole: bytes, width: int, height: int) -> bytes:
    stated = b"ispe" + struct.pack(">III", 0, *scene().size)
    assert stated in whole
    return whole.replace(stated, b"ispe" + struct.pack(">III", 0, width, height))


@pytest.mark.parametrize("name", ["heic", "jp2", "j2k", "ico", "bitmap.ico"])
def test_the_picture_is_what_was_written(name: str) -> None:
    square = scene().resize((64, 64))
    content = {
        "heic": lambda: heif(square),
        "jp2": lambda: encoded(square, "JPEG2000"),
        "j2k": lambda: encoded(square, "JPEG2000", no_jp2=True),
        "ico": lambda: icon(square, 64),
        "bitmap.ico": lambda: icon(square, 64, bitmap_format="bmp"),
    }[name]()
    image = shown(content)
    difference = np.abs(image.views[0].astype(int) - np.asarray(square)).mean()
    assert difference < (4 if name == "heic" else 1)
    assert (image.width, image.height, image.num_frames, image.metadata) == (64, 64, 1, frozenset())


def test_of_several_pictures_the_primary_one_is_scanned_and_the_others_are_named() -> None:
    image = shown(heif(card(), scene(), primary_index=1))
    assert (image.width, image.height, image.num_frames) == (*scene().size, 1)
    assert image.unseen == ("embedded_image",)


def test_a_picture_in_place_of_the_primary_one_is_not_taken_for_it() -> None:
    whole = heif(thumbnails=[64])
    primary = whole.index(b"pitm") + 8
    assert whole[primary : primary + 2] == b"\0\1"
    for item in (2, 9):  # the thumbnail, and none
        assert refused(whole[:primary] + bytes([0, item]) + whole[primary + 2 :])[0] in (
            "corrupt",
            "unsupported_format",
        )


def test_what_a_phone_writes_beside_the_picture_is_named() -> None:
    exif = Image.Exif()
    exif[0x010F], exif[0x0132] = "maker", "2026:01:02 03:04:05"
    xmp = b'<x:xmpmeta><rdf:RDF><rdf:Description dc:creator="a"/></rdf:RDF></x:xmpmeta>'
    image = shown(heif(exif=exif.tobytes(), xmp=xmp))
    assert image.metadata == {"camera", "datetime", "artist"}
    assert image.unseen == ()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_heic_is_cleaned_without_its_exif_and_stays_turned(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = orientation, "maker"
    whole = heif(scene().crop((0, 0, 256, 160)), card(), exif=exif.tobytes(), thumbnails=[64])
    clean = cleaned(whole, 1)
    assert clean is not None
    before, after = shown(whole), shown(clean)
    assert before.metadata == {"camera"}
    assert (after.metadata, after.unseen) == (frozenset(), ())
    assert (after.width, after.height) == ((160, 256) if orientation >= 5 else (256, 160))
    assert np.array_equal(before.views[0], after.views[0])
    assert len(clean) < len(whole) - 500


def test_a_small_picture_that_no_box_calls_a_thumbnail_is_another_picture() -> None:
    whole = heif(thumbnails=[64])
    assert shown(whole).unseen == ()
    assert shown(whole.replace(b"thmb", b"cdsc")).unseen == ("embedded_image",)


def test_what_a_crop_takes_away_is_hidden() -> None:
    """The decoder refuses that of a single picture, but not that of one made of tiles."""
    whole = heif(scene().crop((0, 0, 251, 187)))
    crop = b"clap" + struct.pack(">II", 251, 1)
    assert crop in whole
    cropped = whole.replace(crop, b"clap" + struct.pack(">II", 91, 1))
    assert refused(cropped)[0] == "corrupt"
    for content, kinds in ((whole, set()), (cropped, {"hidden_pixels"})):
        pieces = heif_walker.pieces(content, 16, has_alpha=False, has_tracks=False)
        assert {piece.kind for piece in pieces if piece.num_bytes} == kinds


def test_a_heic_is_bounded_by_the_sizes_that_it_states() -> None:
    whole = heif()
    assert refused(with_stated_size(whole, 40_000, 40_000)) == (
        "too_many_pixels",
        "40000x40000 pixels, the limit is 178000000 (--max-pixels-in)",
    )
    assert refused(with_stated_size(whole, 13_000, 10_000))[0] == "too_much_memory"
    assert refused(with_stated_size(whole, 16, 16))[0] == "corrupt"  # less than is coded


def test_a_heic_made_of_what_is_not_decoded_says_so() -> None:
    whole = heif()
    for coding in (b"av01", b"iovl", b"jpeg", b"unci"):
        assert refused(whole.replace(b"hvc1", coding)) == ("unsupported_format", "this kind of HEIF is not decoded")


def test_a_heic_that_says_twice_which_picture_is_shown_is_not_decoded() -> None:
    whole = heif(scene(), card())
    at, pitm = whole.index(b"pitm") - 4, box(b"pitm", b"\0\0\0\0\0\2")
    holder = whole.index(b"meta") - 4
    size = struct.pack(">I", struct.unpack(">I", whole[holder : holder + 4])[0] + len(pitm))
    twice = whole[:holder] + size + whole[holder + 4 : at] + pitm + whole[at:]
    assert refused(twice)[0] == "unsupported_format"


def test_without_the_extra_a_heic_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "HAS_HEIF", False)
    monkeypatch.setattr(formats, "READ", tuple(name for name in formats.READ if name != formats.HEIF))
    assert refused(heif()) == ("unsupported_format", 'HEIC and HEIF need the extra heic: pip install "privsieve[heic]"')


@pytest.mark.parametrize(
    "changed",
    [
        # The size in the box in front, the tiles, the layers, the blocks of code, and the precincts.
        lambda whole: whole.replace(b"ihdr\0\0\0\xc0", b"ihdr\0\0\0\xb0"),
        lambda whole: whole.replace(struct.pack(">IIII", 256, 192, 0, 0), struct.pack(">IIII", 2, 2, 0, 0)),
        lambda whole: whole.replace(b"\xff\x52\0\x0c\0\0\0\1", b"\xff\x52\0\x0c\0\0\xff\xff"),
        lambda whole: whole.replace(b"\5\4\4\0\1", b"\5\0\0\0\1"),
        lambda whole: whole.replace(b"\xff\x52\0\x0c\0", b"\xff\x52\0\x12\1").replace(
            b"\5\4\4\0\1", b"\5\4\4\0\1" + b"\0" * 6
        ),
    ],
    ids=["size", "tiles", "layers", "blocks", "precincts"],
)
def test_a_jpeg_2000_that_asks_for_more_than_its_pixels_is_not_decoded(changed: Callable[[bytes], bytes]) -> None:
    whole = encoded(scene(), "JPEG2000")
    assert changed(whole) != whole
    assert refused(changed(whole)) == ("unsupported_format", "this kind of JPEG2000 is not decoded")


def test_a_jpeg_2000_whose_tiles_are_missing_is_damaged() -> None:
    whole = encoded(scene(), "JPEG2000", no_jp2=True, tile_size=(64, 64))
    last = whole.rindex(b"\xff\x90\0\x0a")
    assert refused(whole[:last] + b"\xff\xd9")[0] == "corrupt"


def test_the_largest_picture_of_an_icon_is_scanned_whatever_its_directory_says() -> None:
    image = shown(joined_icon(icon(scene(), 32), icon(scene(), 128)))
    assert (image.width, image.height, image.unseen) == (128, 96, ())


def test_an_icon_with_a_huge_bitmap_is_refused_from_its_header() -> None:
    header = struct.pack("<IiiHHIIiiII", 40, 60_000, 120_000, 1, 32, 0, 0, 0, 0, 0, 0)
    assert refused(joined_icon(bytes(22) + header)) == (
        "too_many_pixels",
        "60000x60000 pixels, the limit is 178000000 (--max-pixels-in)",
    )


def test_a_box_in_front_of_the_picture_is_no_harm() -> None:
    whole = encoded(scene(), "JPEG2000")
    assert shown(whole[:12] + whole[12:32] + box(b"xml ", b"<a/>") + whole[32:]).unseen == ()
