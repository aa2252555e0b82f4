"""HEIC as phones write it, JPEG 2000 and icons: the picture that viewers show, within bounds from the headers."""

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from ingest.images.files import formats
from ingest.images.files import heif as heif_walker
from tests.ingest.crafted import box, card, half_transparent, heif, icon, joined_icon, scene
from tests.ingest.pictures import LIMITS, cleaned, decoded, refused
from tests.nasty import encoded


def why(content: bytes) -> tuple[str, str]:
    rejected = refused(content)
    return rejected.reason, rejected.message


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
    image = decoded(content)
    difference = np.abs(image.views[0].astype(int) - np.asarray(square)).mean()
    assert difference < (4 if name == "heic" else 1)
    assert (image.width, image.height, image.num_frames, image.metadata) == (64, 64, 1, frozenset())


def test_of_several_pictures_the_primary_one_is_scanned_and_the_others_are_named() -> None:
    image = decoded(heif(card(), scene(), primary_index=1))
    assert (image.width, image.height, image.num_frames) == (*scene().size, 1)
    assert image.unseen == ("embedded_image",)


def test_a_picture_in_place_of_the_primary_one_is_not_taken_for_it() -> None:
    whole = heif(thumbnails=[64])
    primary = whole.index(b"pitm") + 8
    assert whole[primary : primary + 2] == b"\0\1"
    for item in (2, 9):  # the thumbnail, and none
        found, _ = why(whole[:primary] + bytes([0, item]) + whole[primary + 2 :])
        assert found in ("corrupt", "unsupported_format")


def test_what_a_phone_writes_beside_the_picture_is_named() -> None:
    exif = Image.Exif()
    exif[0x010F], exif[0x0132] = "maker", "2026:01:02 03:04:05"
    xmp = b'<x:xmpmeta><rdf:RDF><rdf:Description dc:creator="a"/></rdf:RDF></x:xmpmeta>'
    image = decoded(heif(exif=exif.tobytes(), xmp=xmp))
    assert image.metadata == {"camera", "datetime", "artist"}
    assert image.unseen == ()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_heic_is_scanned_as_it_is_shown_and_is_not_cleaned(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = orientation, "maker"
    whole = heif(scene().crop((0, 0, 256, 160)), exif=exif.tobytes(), thumbnails=[64])
    image = decoded(whole)
    assert image.metadata == {"camera"}
    assert (image.width, image.height) == ((160, 256) if orientation >= 5 else (256, 160))
    assert cleaned(whole, 1) is None


def test_a_small_picture_that_no_box_calls_a_thumbnail_is_another_picture() -> None:
    whole = heif(thumbnails=[64])
    assert decoded(whole).unseen == ()
    assert decoded(whole.replace(b"thmb", b"cdsc")).unseen == ("embedded_image",)


def test_depth_and_maps_of_brightness_are_known_parts_and_other_auxiliary_pictures_are_not() -> None:
    alpha = b"urn:mpeg:hevc:2015:auxid:1\0"
    whole = heif(half_transparent())
    assert alpha in whole
    for name in (b"urn:mpeg:hevc:2015:auxid:2\0", b"urn:com:apple:photo:2020:a\0"):
        assert decoded(whole.replace(alpha, name)).unseen == ()
    assert decoded(whole.replace(alpha, b"urn:mpeg:hevc:2015:auxid:9\0")).unseen == ("embedded_image",)
    item = heif(exif=b"Exif\0\0II*\0" + bytes(200))
    assert decoded(item.replace(b"Exif", b"tmap")).unseen == ()
    assert decoded(item.replace(b"Exif", b"tmax")).unseen == ("embedded_image",)


def test_what_a_crop_takes_away_is_hidden() -> None:
    """The decoder refuses that of a single picture, but not that of one made of tiles."""
    whole = heif(scene().crop((0, 0, 251, 187)))
    crop = b"clap" + struct.pack(">II", 251, 1)
    assert crop in whole
    cropped = whole.replace(crop, b"clap" + struct.pack(">II", 91, 1))
    assert why(cropped)[0] == "corrupt"
    for content, kinds in ((whole, set()), (cropped, {"hidden_pixels"})):
        pieces = heif_walker.pieces(content, False)
        assert {piece.kind for piece in pieces if piece.num_bytes} == kinds


def test_a_heic_is_bounded_by_the_sizes_that_it_states() -> None:
    whole = heif()
    message = "40000x40000 pixels, the limit is 178000000 (--max-pixels-in)"
    assert why(with_stated_size(whole, 40_000, 40_000)) == ("too_many_pixels", message)
    assert why(with_stated_size(whole, 13_000, 10_000))[0] == "too_much_memory"
    assert why(with_stated_size(whole, 16, 16))[0] == "corrupt"  # less than is coded


@pytest.mark.parametrize("depth", [1, 5])
def test_a_heic_whose_parts_have_no_bound_is_not_decoded_even_inside_another_file(depth: int) -> None:
    """Tiles that are made of others, and a picture that is made of another, and so on, deeper than it is followed."""
    coded = derived_heif(0)
    assert decoded(coded).unseen == ()
    assert decoded(derived_heif(2)).unseen == ()  # such a picture may have two names
    whole = derived_heif(depth, kind=b"grid" if depth == 1 else b"iden")
    assert why(whole) == ("unsupported_format", "this kind of HEIF is not decoded")
    image = decoded(encoded(scene(), "JPEG") + whole, replace(LIMITS, has_pdq=True))
    assert image.unseen == ("embedded_image", "trailing_data")
    assert image.pdq is not None
    assert None in image.pdq


def derived_heif(depth: int, kind: bytes = b"iden") -> bytes:
    """A picture that is made of another one, and so on; a grid has the next one as its only tile, twice."""
    coded = heif()
    facts = heif_walker._contents(coded)
    content = heif_walker._content(coded, facts, facts.primary)
    properties = [coded[part.start : part.last] for part in facts.properties if part.name in (b"hvcC", b"ispe")]
    grid = struct.pack(">BBBBHH", 0, 0, 0, 0, *scene().size)
    last = depth + (kind == b"grid")
    names = [kind] * last + [b"hvc1"]
    contents = [grid if kind == b"grid" else b"\0"] * last + [content]

    def full(name: bytes, head: bytes, body: bytes = b"") -> bytes:
        return box(name, head.ljust(4, b"\0") + body)

    def tables(offset: int) -> bytes:
        entries = places = links = b""
        for number, (name, part) in enumerate(zip(names, contents, strict=True), 1):
            entries += full(b"infe", b"\2", struct.pack(">HH", number, 0) + name + b"\0")
            places += struct.pack(">HHHII", number, 0, 1, offset, len(part))
            links += struct.pack(">HBBB", number, 2, 0x81, 2)
            offset += len(part)
        derived = b"".join(box(b"dimg", struct.pack(">HHH", at, 1, at + 1)) for at in range(1, last + 1))
        parts = [
            full(b"hdlr", b"\0", bytes(4) + b"pict" + bytes(13)),
            full(b"pitm", b"\0", b"\0\1"),
            full(b"iinf", b"\0", struct.pack(">H", len(names)) + entries),
            *([full(b"iref", b"\0", derived)] if derived else []),
            box(
                b"iprp", box(b"ipco", b"".join(properties)) + full(b"ipma", b"", struct.pack(">I", len(names)) + links)
            ),
            full(b"iloc", b"", b"\x44\0" + struct.pack(">H", len(names)) + places),
        ]
        return full(b"meta", b"", b"".join(parts))

    head = box(b"ftyp", b"heic" + bytes(4) + b"mif1heic")
    return head + tables(len(head) + len(tables(0)) + 8) + box(b"mdat", b"".join(contents))


def test_a_heic_made_of_what_is_not_decoded_says_so() -> None:
    whole = heif()
    for coding in (b"av01", b"iovl", b"jpeg", b"unci"):
        assert why(whole.replace(b"hvc1", coding)) == ("unsupported_format", "this kind of HEIF is not decoded")


def test_a_heic_that_says_twice_which_picture_is_shown_is_not_decoded() -> None:
    whole = heif(scene(), card())
    at, pitm = whole.index(b"pitm") - 4, box(b"pitm", b"\0\0\0\0\0\2")
    holder = whole.index(b"meta") - 4
    size = struct.pack(">I", struct.unpack(">I", whole[holder : holder + 4])[0] + len(pitm))
    twice = whole[:holder] + size + whole[holder + 4 : at] + pitm + whole[at:]
    assert why(twice)[0] == "unsupported_format"


def test_without_the_extra_a_heic_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "HAS_HEIF", False)
    monkeypatch.setattr(formats, "READ", tuple(name for name in formats.READ if name != formats.HEIF))
    for content in (heif(), with_stated_size(heif(), 40_000, 40_000)):
        message = 'HEIC and HEIF need the extra heic: pip install "privsieve[heic]"'
        assert why(content) == ("unsupported_format", message)


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
    assert why(changed(whole)) == ("unsupported_format", "this kind of JPEG2000 is not decoded")


def test_a_jpeg_2000_whose_tiles_are_missing_is_damaged() -> None:
    whole = encoded(scene(), "JPEG2000", no_jp2=True, tile_size=(64, 64))
    last = whole.rindex(b"\xff\x90\0\x0a")
    assert why(whole[:last] + b"\xff\xd9")[0] == "corrupt"


def test_the_largest_picture_of_an_icon_is_scanned_whatever_its_directory_says() -> None:
    image = decoded(joined_icon(icon(scene(), 32), icon(scene(), 128)))
    assert (image.width, image.height, image.unseen) == (128, 96, ())


def test_an_icon_with_a_huge_bitmap_is_refused_from_its_header() -> None:
    header = struct.pack("<IiiHHIIiiII", 40, 60_000, 120_000, 1, 32, 0, 0, 0, 0, 0, 0)
    message = "60000x60000 pixels, the limit is 178000000 (--max-pixels-in)"
    assert why(joined_icon(bytes(22) + header)) == ("too_many_pixels", message)


def test_a_box_in_front_of_the_picture_is_no_harm() -> None:
    whole = encoded(scene(), "JPEG2000")
    assert decoded(whole[:12] + whole[12:32] + box(b"xml ", b"<a/>") + whole[32:]).unseen == ()


def test_a_heic_whose_first_box_is_long_is_no_icon() -> None:
    whole = heif()
    first = struct.unpack(">I", whole[:4])[0]
    grown = 256 - first
    place = heif_walker._contents(whole).items[1][0][0]
    longer = struct.pack(">I", 256) + whole[4:first] + b"heic" * (grown // 4) + whole[first:]
    longer = longer.replace(struct.pack(">I", place), struct.pack(">I", place + grown), 1)
    assert longer.startswith(b"\0\0\1\0")
    assert (decoded(longer).format, decoded(longer).unseen) == ("heif", ())


def position() -> bytes:
    exif = Image.Exif()
    exif[0x010F] = "maker"
    exif.get_ifd(0x8825).update({1: "N", 2: (52.0, 30.0, 10.0), 3: "E", 4: (13.0, 20.0, 2.0)})
    return exif.tobytes().removeprefix(b"Exif\0\0")


def test_metadata_of_a_jpeg_2000_and_of_each_picture_of_an_icon_is_named() -> None:
    whole = encoded(scene(), "JPEG2000")
    image = decoded(whole + box(b"uuid", b"JpgTiffExif->JP2" + position()))
    assert (set(image.metadata), image.unseen) == ({"camera", "gps"}, ())
    iptc = bytes.fromhex("33c7a4d2b81d4723a0baf1a3e097ad38") + b"\x1c\2\x50\0\4Anna"
    assert decoded(whole + box(b"uuid", iptc)).metadata == {"artist"}
    assert decoded(whole + box(b"xml ", b"<a>Anna</a>")).metadata == {"description"}
    texts = PngInfo()
    texts.add_text("Author", "Anna")
    small = bytes(22) + encoded(scene().resize((32, 24)), "PNG", pnginfo=texts)
    image = decoded(joined_icon(icon(scene(), 128), small))
    assert (set(image.metadata), image.unseen) == ({"artist"}, ())
