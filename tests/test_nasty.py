"""Each nasty input has its reason, or is decoded as it is displayed."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import ExifTags, Image, TiffImagePlugin

from ingest.images.decode import Rejected, decode
from ingest.images.pixels import ImageLimits
from scoring.engines.detectors.findings import decide, embedded_findings, embedded_unread
from scoring.taxonomy import KEYS
from tests import nasty
from tests.ingest.pictures import LIMITS, decoded, refused
from tests.nasty import CORNER_PX, NASTY, PNG_MAGIC, chunk, drawn, encoded, jpeg

ENGINE_LIMITS = ImageLimits(max_side_px=48)


@pytest.mark.parametrize("limits", [LIMITS, ENGINE_LIMITS], ids=["full_size", "downscaled"])
@pytest.mark.parametrize("name", NASTY)
def test_reason(name: str, limits: ImageLimits) -> None:
    maker, reason = NASTY[name]
    result = decode(maker(), limits)
    assert (result.reason if isinstance(result, Rejected) else None) == reason


@pytest.mark.parametrize("name", ["zero_byte.jpg", "html_error_page.jpg", "drawing.svg", "truncated.jpg"])
def test_messages_hold_nothing_of_the_content(name: str) -> None:
    result = refused(NASTY[name][0]())
    assert "555" not in result.message
    assert "Not Found" not in result.message


PROLOG = '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n'
DOCTYPE = '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd" [\n'
ENTITIES = DOCTYPE + '  <!ENTITY ns_svg "http://www.w3.org/2000/svg">\n]>\n'
SVG = nasty.SVG.decode()


@pytest.mark.parametrize(
    "encoded",
    [
        (PROLOG + SVG).encode(),
        (PROLOG + "<!-- Created with a drawing program -->\n" + SVG).encode(),
        (PROLOG + f"<!-- {'long ' * 1000}-->\n<!-- twice -->" + SVG).encode(),
        (PROLOG + '<?xml-stylesheet href="style.css" type="text/css"?>\n' + SVG).encode(),
        (PROLOG + ENTITIES + SVG).encode(),
        (PROLOG + "<!-- a > b -->" + ENTITIES + SVG).encode(),
        (" \r\n\t" + SVG).encode(),
        ("\ufeff" + PROLOG + SVG).encode(),
        (PROLOG + SVG.replace("<svg", "<svg:svg").replace("</svg", "</svg:svg")).encode(),
        (PROLOG + SVG).encode("utf-16"),
        (PROLOG + SVG).encode("utf-16-le"),
        ("\ufeff\n" + PROLOG + ENTITIES + SVG).encode("utf-16-be"),
        b"<svg width='9'/>",
    ],
)
def test_svg_is_a_format_that_is_not_decoded_however_it_begins(encoded: bytes) -> None:
    result = refused(encoded)
    assert (result.reason, result.message) == ("unsupported_format", "SVG is not decoded")


@pytest.mark.parametrize(
    "encoded",
    [
        f"<!DOCTYPE html><html><body>{SVG}</body></html>".encode(),
        f"{PROLOG}<html>{SVG}</html>".encode(),
        f"words, and then {SVG}".encode(),
        b"<!---->" * 1000 + b"<p>",  # no regular expression may try these in every way
        b"<?a?>" * 1000 + b"<p>",
        "<!---->".encode("utf-16") * 500,
    ],
)
def test_a_page_with_a_drawing_in_it_is_no_image(encoded: bytes) -> None:
    result = refused(encoded)
    assert result.reason == "not_an_image"


def test_a_palette_tiff_with_colours_of_8_bits_is_not_black() -> None:
    picture = drawn("sample").quantize(16)
    whole = encoded(picture, "TIFF", save_all=True, append_images=[picture])
    colours = TiffImagePlugin.TiffImageFile(io.BytesIO(whole)).tag_v2[320]
    packed = struct.pack(f"<{len(colours)}H", *colours)
    assert whole.count(packed) == 2
    image = decoded(whole.replace(packed, struct.pack(f"<{len(colours)}H", *(value >> 8 for value in colours))))
    assert [(view == np.asarray(picture.convert("RGB"))).all() for view in image.views] == [True, True]
    assert image.unseen == ()


@pytest.mark.parametrize("name", ["cmyk.jpg", "rgb16.png", "gray16.png"])
def test_unusual_modes_keep_their_brightness(name: str) -> None:
    expected = np.asarray(drawn().convert("L" if name == "gray16.png" else "RGB").convert("RGB"))
    pixels = decoded(NASTY[name][0]()).views[0]
    assert pixels.shape == expected.shape
    for part in (slice(None), slice(4, CORNER_PX - 4)):  # the whole, and the middle of a corner
        assert pixels[part, part].mean(axis=(0, 1)) == pytest.approx(expected[part, part].mean(axis=(0, 1)), abs=10)


@pytest.mark.parametrize(("name", "num_views"), [("animated.gif", 3), ("animated.webp", 3), ("multipage.tiff", 2)])
def test_every_frame_is_seen(name: str, num_views: int) -> None:
    image = decoded(NASTY[name][0]())
    assert image.num_frames == image.num_frames_decoded == len(image.views) == num_views
    first, last = image.views[0].astype(int), image.views[-1].astype(int)
    assert np.abs(first - last).max() > 60  # the writing is on the last one only


@pytest.mark.parametrize("name", ["palette_transparent.png", "rgba_hidden_text.png"])
def test_hidden_writing_is_a_second_view(name: str) -> None:
    shown, under = decoded(NASTY[name][0]()).views
    writing = slice(24, 42), slice(18, 78)
    assert shown[writing].min() > 60
    assert under[writing].min() < 60


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("exif_rotated_gps.jpg", {"gps", "artist", "camera", "serial"}),
        ("png_text_chunks.png", {"gps", "artist"}),
        ("lossy.webp", set()),
        ("broken_icc.jpg", set()),
    ],
)
def test_metadata_kinds(name: str, kinds: set[str]) -> None:
    assert decoded(NASTY[name][0]()).metadata == kinds


XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><dc:creator>A. Example</dc:creator></rdf:RDF></x:xmpmeta>'
EXIF_OF_AN_ARTIST = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x3b\x01\x02\0\x04\0\0\0Ada\0\0\0\0\0"
PICTURE = encoded(drawn(), "PNG")
END = chunk(b"IEND", b"")


def text_chunk(name: bytes, keyword: bytes, text: bytes, packed: bool = False) -> bytes:
    text = zlib.compress(text) if packed else text
    heads = {b"tEXt": b"", b"zTXt": b"\0", b"iTXt": (b"\1\0" if packed else b"\0\0") + b"\0\0"}
    return chunk(name, keyword + b"\0" + heads[name] + text)


def raw_profile(kind: bytes, content: bytes) -> bytes:
    digits = b"\n".join(content.hex().encode()[at : at + 72] for at in range(0, 2 * len(content), 72))
    return text_chunk(b"zTXt", b"Raw profile type " + kind, b"\n%s\n%8d\n%s\n" % (kind, len(content), digits), True)


CHUNKS = {
    "plain": (text_chunk(b"tEXt", b"Author", b"A. Example") + text_chunk(b"tEXt", b"Location", b"here"), "artist gps"),
    "packed": (text_chunk(b"zTXt", b"Author", b"A. Example", True), "artist"),
    "international": (text_chunk(b"iTXt", b"Author", "Ä. Example".encode()), "artist"),
    "international_packed": (text_chunk(b"iTXt", b"Author", b"A. Example", True), "artist"),
    "xmp": (text_chunk(b"iTXt", b"XML:com.adobe.xmp", XMP), "artist"),
    "xmp_packed": (text_chunk(b"iTXt", b"XML:com.adobe.xmp", XMP, True), "artist"),
    "exif": (chunk(b"eXIf", EXIF_OF_AN_ARTIST[6:]), "artist"),
    "raw_exif": (raw_profile(b"exif", EXIF_OF_AN_ARTIST), "artist"),
    "raw_xmp": (raw_profile(b"xmp", XMP), "artist"),
    "blank": (text_chunk(b"tEXt", b"Author", b" \n"), ""),
    "software": (text_chunk(b"tEXt", b"date:create", b"2020-01-01"), ""),
    "damaged": (chunk(b"zTXt", b"Author\0\0no stream") + raw_profile(b"exif", b"words"), ""),
    "too_large": (text_chunk(b"zTXt", b"Author", b"A" * (2**20 + 1), True), "artist unread"),
    "too_large_profile": (text_chunk(b"iTXt", b"XML:com.adobe.xmp", b"A" * 2**24, True), "unread"),
    "too_much": (text_chunk(b"zTXt", b"Note", b"A" * 2**20, True) * 65, "unread"),
    "unknown_packing": (chunk(b"zTXt", b"Note\0\x07words"), "unread"),
}


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before_the_pixels", "behind_the_pixels"])
@pytest.mark.parametrize("name", CHUNKS)
def test_metadata_of_a_png_counts_wherever_it_lies_and_costs_no_picture(name: str, place: str) -> None:
    chunks, kinds = CHUNKS[name]
    header = len(PNG_MAGIC) + 25
    at = header if place == "before_the_pixels" else len(PICTURE) - len(END)
    image = decoded(PICTURE[:at] + chunks + PICTURE[at:])
    assert image.metadata == set(kinds.split())
    assert (image.views[0] == np.asarray(drawn())).all()


def test_text_behind_the_frames_that_are_not_scanned_counts() -> None:
    frames = [drawn(str(number)) for number in range(20)]
    whole = encoded(frames[0], "PNG", save_all=True, append_images=frames[1:])
    image = decoded(whole[: -len(END)] + CHUNKS["plain"][0] + END)
    assert (image.num_frames, image.num_frames_decoded, image.metadata) == (20, 16, frozenset(("artist", "gps")))


def segment(content: bytes) -> bytes:
    return b"\xff\xe1" + struct.pack(">H", len(content) + 2) + content


@pytest.mark.parametrize("content", [EXIF_OF_AN_ARTIST, b"http://ns.adobe.com/xap/1.0/\0" + XMP], ids=["exif", "xmp"])
@pytest.mark.parametrize("place", ["header", "between_scans", "end"])
def test_metadata_of_a_jpeg_counts_wherever_it_lies(content: bytes, place: str) -> None:
    whole = encoded(drawn("sample"), "JPEG", progressive=True)
    tables = whole.rindex(b"\xff\xc4")  # of the last scan
    at = {"header": 2, "between_scans": tables, "end": len(whole)}[place]
    image = decoded(whole[:at] + segment(content) + whole[at:])
    assert image.metadata == {"artist"}


def iptc(*datasets: tuple[int, bytes], name: bytes = b"") -> bytes:
    """Photoshop's segment of a JPEG with these datasets of record 2."""
    held = b"".join(b"\x1c\x02" + bytes([number]) + struct.pack(">H", len(text)) + text for number, text in datasets)
    padded = bytes([len(name)]) + name + b"\0" * (1 - len(name) % 2)
    content = b"Photoshop 3.0\x008BIM\x04\x04" + padded + struct.pack(">I", len(held)) + held
    return b"\xff\xed" + struct.pack(">H", len(content) + 2) + content


@pytest.mark.parametrize(
    ("block", "kinds"),
    [
        (iptc((80, b"A. Example"), (90, b"Utrecht")), {"artist", "gps"}),
        (iptc((55, b"20260101"), (116, b"A. Example"), name=b"abc"), {"datetime", "copyright"}),
        (iptc((0, b"\0\2"), (120, b"words"), name=b"ab"), {"description"}),
        (iptc((80, b"  "), (25, b"a keyword")), set()),
        (iptc((80, b"Picasa 2.7")), set()),
        (iptc((80, b"A. Example")).replace(b"\x1c\x02P\0", b"\x1c\x02P\xff"), set()),  # longer than the file
        (iptc(), set()),
    ],
)
def test_iptc_of_a_jpeg_counts(block: bytes, kinds: set[str]) -> None:
    whole = encoded(drawn("sample"), "JPEG")
    image = decoded(whole[:2] + block + whole[2:])
    assert image.metadata == kinds


def test_xmp_at_the_end_and_comments_of_a_gif_count() -> None:
    whole = encoded(drawn(), "GIF", comment=b"words")
    image = decoded(whole[:-1] + b"\x21\xff\x0bXMP DataXMP" + XMP + b"\x01\0\0;")
    assert image.metadata == {"description", "artist"}


@pytest.mark.parametrize("format_name", ["WEBP", "TIFF", "AVIF"])
def test_xmp_and_exif_of_other_formats_count(format_name: str) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Copyright] = "A. Example"
    image = decoded(encoded(drawn(), format_name, exif=exif.tobytes()))
    assert image.metadata == {"copyright"}
    tags = {"tiffinfo": {700: XMP}} if format_name == "TIFF" else {"xmp": XMP}
    image = decoded(encoded(drawn(), format_name, **tags))
    assert image.metadata == {"artist"}


def test_metadata_of_a_later_page_counts() -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Artist] = "A. Example"
    pages = io.BytesIO()
    with TiffImagePlugin.AppendingTiffWriter(pages) as writer:
        for options in ({}, {"exif": exif}):
            drawn().save(writer, "TIFF", **options)
            writer.newFrame()
    image = decoded(pages.getvalue())
    assert (image.num_frames, image.metadata) == (2, frozenset(["artist"]))


@pytest.mark.parametrize("block", [b"Exif\0\0", b"<rdf:RDF></rdf:RDF>", b"<rdf:RDF>" + b" " * 200])
def test_more_metadata_than_is_read_is_not_known(block: bytes) -> None:
    image = decoded(jpeg() + block * 100_000)
    assert image.metadata == {"unread"}


@pytest.mark.parametrize(("kinds", "value"), [((), 0.0), (("unread",), None), (("unread", "artist"), 1.0)])
def test_metadata_that_is_not_known_is_null_and_never_absent(kinds: tuple[str, ...], value: float | None) -> None:
    found = decide(embedded_findings(kinds), embedded_unread(kinds)).values[KEYS.index("metadata")]
    assert (None if np.isnan(found) else found) == value


def test_format_is_known_by_content() -> None:
    assert decoded(NASTY["png_content.jpg"][0]()).format == "png"


@pytest.mark.parametrize(("name", "size"), [("bomb_header.png", 60_000), ("bomb_real_400mp.png", 20_000)])
def test_size_of_a_bomb_is_known(name: str, size: int) -> None:
    result = refused(NASTY[name][0]())
    assert (result.width, result.height, result.format) == (size, size, "png")
