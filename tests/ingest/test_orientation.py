"""A picture is judged, hashed, cleaned and covered as viewers show it, whichever way up its file stores it."""

import io
import struct
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, TiffImagePlugin, TiffTags

from ingest.images.phash import phash
from ingest.images.pixels import Pixels
from tests.ingest.crafted import heif, scene, with_chunks
from tests.ingest.pictures import cleaned, covered, decoded, refused
from tests.nasty import chunk, encoded

ORIENTATION = 0x0112
STORED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""EXIF orientation -> how an upright picture is stored so that this orientation shows it upright."""
SHOWN = STORED | {6: Image.Transpose.ROTATE_270, 8: Image.Transpose.ROTATE_90}
"""EXIF orientation -> how the stored pixels are turned to be shown."""


def stored(orientation: int, mode: str = "RGB") -> Image.Image:
    image = scene().convert(mode)
    return image.transpose(STORED[orientation]) if orientation in STORED else image


def exif(orientation: int) -> bytes:
    block = Image.Exif()
    block[ORIENTATION] = orientation
    return block.tobytes()


def in_exif(format_name: str, mode: str = "RGB", **options: object) -> Callable[[int], bytes]:
    return lambda number: encoded(stored(number, mode), format_name, exif=exif(number), **options)


def in_tag(mode: str = "RGB", **options: object) -> Callable[[int], bytes]:
    return lambda number: encoded(stored(number, mode), "TIFF", tiffinfo={ORIENTATION: number}, **options)


def behind_pixels(number: int) -> bytes:
    block = chunk(b"eXIf", exif(number).removeprefix(b"Exif\0\0"))
    return with_chunks(block, whole=encoded(stored(number), "PNG"))


def wide_grey(number: int) -> bytes:
    grey = np.asarray(stored(number, "L")).astype(np.uint16) * 257
    return encoded(Image.fromarray(grey), "TIFF", tiffinfo={ORIENTATION: number})


TURNED: dict[str, Callable[[int], bytes]] = {
    "JPEG": in_exif("JPEG", quality=95),
    "JPEG CMYK": in_exif("JPEG", "CMYK", quality=95),
    "MPO": lambda number: encoded(
        stored(number), "MPO", quality=95, save_all=True, append_images=[stored(number)], exif=exif(number)
    ),
    "PNG": in_exif("PNG"),
    "PNG, behind the pixels": behind_pixels,
    "WEBP": in_exif("WEBP", lossless=True),
    "AVIF": in_exif("AVIF", quality=100, subsampling="4:4:4"),
    "HEIF": lambda number: heif(stored(number), exif=exif(number)),
    "TIFF": in_tag(),
    "TIFF grey": in_tag("L"),
    "TIFF grey of 16 bits": wide_grey,
    "TIFF palette": in_tag("P"),
    "TIFF with opacity": in_tag("RGBA"),
    **{f"TIFF {name}": in_tag(compression=name) for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits")},
    "TIFF jpeg": in_tag(compression="jpeg", quality=95),
    "TIFF of one bit": in_tag("1", compression="group4"),
}


@pytest.mark.parametrize("name", TURNED)
def test_all_eight_orientations_of_a_picture_are_shown_alike(name: str) -> None:
    images = [decoded(TURNED[name](number)) for number in range(1, 9)]
    assert [(image.width, image.height) for image in images] == [scene().size] * 8
    assert [view.shape for image in images for view in image.views[:1]] == [(*scene().size[::-1], 3)] * 8
    assert len({phash(image.views[0]) for image in images}) == 1
    assert {len(image.views) for image in images} == {len(images[0].views)}


def test_each_page_of_a_tiff_is_turned_as_its_own_tag_says() -> None:
    pages = [stored(number) for number in range(1, 9)]
    for number, page in enumerate(pages, 1):
        page.encoderinfo = {"tiffinfo": {ORIENTATION: number}}
    image = decoded(encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:]))
    assert len(image.views) == 8
    assert all((view == np.asarray(scene())).all() for view in image.views)


def xmp(orientation: int) -> bytes:
    tag = f'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="{orientation}"/>'
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF>{tag}</rdf:RDF></x:xmpmeta>'.encode()


def png_text(orientation: int) -> bytes:
    return chunk(b"iTXt", b"XML:com.adobe.xmp" + bytes(5) + xmp(orientation))


def mpo_with_byte_tag(orientation: int) -> bytes:
    block = b"Exif\0\0MM\0*" + struct.pack(">IHHHIB3xI", 8, 1, ORIENTATION, 1, 1, orientation, 0)
    return encoded(scene(), "MPO", quality=95, save_all=True, append_images=[scene()], exif=block)


WITH_XMP: dict[str, Callable[[int], bytes]] = {
    "JPEG": lambda number: encoded(scene(), "JPEG", quality=95, xmp=xmp(number)),
    "MPO": lambda number: encoded(scene(), "MPO", quality=95, save_all=True, append_images=[scene()], xmp=xmp(number)),
    "PNG": lambda number: with_chunks(png_text(number), before=b"IDAT"),
    "PNG, behind the pixels": lambda number: with_chunks(png_text(number)),
    "WEBP": lambda number: encoded(scene(), "WEBP", lossless=True, xmp=xmp(number)),
    "AVIF": lambda number: encoded(scene(), "AVIF", quality=100, xmp=xmp(number)),
    "TIFF": lambda number: encoded(scene(), "TIFF", tiffinfo={700: xmp(number)}),
    "TIFF, orientation as a byte": lambda number: encoded(scene(), "TIFF", tiffinfo=byte_tag(number)),
    "MPO, orientation as a byte": mpo_with_byte_tag,
}


SPELLINGS = {
    "spaces": b"tiff:Orientation = '6'",
    "a character reference": b'tiff:Orientation="&#54;"',
    "one in base 16": b'tiff:Orientation="&#x0036;"',
    "another prefix": b't:Orientation="6"',
    "an element": b"/><rdf:Description><tiff:Orientation>\n6\n</tiff:Orientation></rdf:Description>",
    "an element with attributes": b"/><rdf:Description><t:Orientation x='y'>6</t:Orientation></rdf:Description>",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_xmp_may_spell_an_orientation_in_any_way(name: str) -> None:
    packet = xmp(6).replace(b'tiff:Orientation="6"', SPELLINGS[name])
    for content in (packet, packet.decode().encode("utf-16-le")):
        image = decoded(encoded(scene(), "WEBP", xmp=content))
        assert [view.shape for view in image.views] == [(192, 256, 3), (256, 192, 3)]


def byte_tag(orientation: int) -> TiffImagePlugin.ImageFileDirectory_v2:
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags.tagtype[ORIENTATION] = TiffTags.BYTE
    tags[ORIENTATION] = bytes([orientation])
    return tags


def turned(pixels: Pixels, orientation: int) -> Pixels:
    return np.asarray(Image.fromarray(pixels).transpose(SHOWN[orientation]))


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("name", WITH_XMP)
def test_an_orientation_that_only_some_viewers_follow_is_judged_both_ways(name: str, orientation: int) -> None:
    image, upright = (decoded(WITH_XMP[name](number)) for number in (orientation, 1))
    assert (image.width, image.height, len(upright.views)) == (*scene().size, image.num_frames)
    views = [*upright.views, *(turned(view, orientation) for view in upright.views)]
    assert all((one == other).all() for one, other in zip(image.views, views, strict=True))


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("name", ["JPEG", "MPO", "MPO, orientation as a byte", "PNG", "PNG, behind the pixels", "WEBP"])
def test_a_cleaned_or_covered_picture_has_no_orientation_that_its_exif_had_not(name: str, orientation: int) -> None:
    """An area may have been found in either view, so it is covered as it lies in both."""
    content = WITH_XMP[name](orientation)
    area = (0.1, 0.2, 0.3, 0.4)
    views = list[Pixels]()
    for after in (cleaned(content, 2), covered(content, [area], "solid")):
        image = decoded(after or b"")
        assert len(image.views) == 1
        assert dict(Image.open(io.BytesIO(after or b"")).getexif()) == {}
        views.append(image.views[0])
    for shown in (views[1], turned(views[1], orientation)):
        height, width = shown.shape[:2]
        part = shown[int(0.2 * height) + 2 : int(0.4 * height) - 2, int(0.1 * width) + 2 : int(0.3 * width) - 2]
        assert part.max() <= 8


def test_exif_wins_over_xmp() -> None:
    jpeg = encoded(stored(6), "JPEG", exif=exif(6), xmp=xmp(3))
    tiff = encoded(stored(6), "TIFF", tiffinfo={ORIENTATION: 6, 700: xmp(3)})
    for image in map(decoded, (jpeg, tiff)):
        assert (len(image.views), image.width, image.height) == (1, *scene().size)


def test_a_view_that_is_turned_otherwise_counts_in_the_limit_of_memory() -> None:
    """One of 16 frames is there; each may be turned otherwise, which is only known behind the pixels."""
    frames = chunk(b"acTL", struct.pack(">2I", 16, 0))
    whole = with_chunks(frames, before=b"IDAT", whole=encoded(Image.new("1", (3600, 3000)), "PNG"))
    assert len(decoded(with_chunks(png_text(1), whole=whole)).views) == 1
    assert refused(with_chunks(png_text(3), whole=whole)).reason == "too_much_memory"
