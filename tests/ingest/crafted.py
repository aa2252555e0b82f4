"""Makers of picture files and of their parts (segments, chunks, boxes, directories), deterministic and in memory; and
files that hold a card where no engine looks.

`HIDING`: name -> (maker, kinds of `ingest.images.files` that must be found). `SHOWING`: files with nothing unseen.
"""

import base64
import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pillow_heif
from PIL import Image, ImageCms, ImageDraw, TiffImagePlugin

from tests.nasty import chunk, encoded

SIDE_PX = 256
NUM_SCANNED = 16


def scene(shade: int = 0) -> Image.Image:
    """A harmless picture with some structure."""
    image = Image.linear_gradient("L").resize((SIDE_PX, 192)).convert("RGB")
    draw = ImageDraw.Draw(image)
    draw.ellipse((30, 40, 130, 150), fill=(200, 60 + shade, 40))
    draw.rectangle((150, 20, 230, 170), fill=(40, 90, 180 - shade))
    return image


def card(width: int = 160) -> Image.Image:
    image = Image.new("RGB", (160, 100), (20, 40, 90))
    draw = ImageDraw.Draw(image)
    draw.rectangle((14, 30, 36, 46), fill=(210, 180, 90))
    draw.text((14, 60), "4111 1111 1111 1111", fill="white")
    return image.resize((width, width * 100 // 160))


def card_file(format_name: str = "JPEG") -> bytes:
    return encoded(card(), format_name)


def jpeg(**options: object) -> bytes:
    return encoded(scene(), "JPEG", quality=88, **options)


def thumbnail(format_name: str = "JPEG", side_px: int = 128, **options: object) -> bytes:
    small = scene()
    small.thumbnail((side_px, side_px))
    return encoded(small, format_name, **options)


def segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def with_segments(*segments: bytes, whole: bytes | None = None) -> bytes:
    whole = whole or jpeg()
    return whole[:2] + b"".join(segments) + whole[2:]


def with_earlier_scan(image: Image.Image) -> bytes:
    """Each colour has a scan of its own, and brightness before it one of another picture at 1/8 of the size."""
    coarse = image.resize((SIDE_PX // 8, 192 // 8)).resize(scene().size, Image.Resampling.NEAREST)
    planes = scene().convert("YCbCr").split()
    tables, scans = b"", b""
    for component, plane in ((1, coarse.convert("L")), *enumerate(planes, 1)):
        grey = encoded(plane, "JPEG")
        first, frame, huffman, scan = (grey.index(bytes([0xFF, mark])) for mark in (0xDB, 0xC0, 0xC4, 0xDA))
        colours = b"".join(bytes([number, 0x11, 0]) for number in (1, 2, 3))
        tables = grey[first:frame] + segment(0xC0, grey[frame + 4 : frame + 9] + b"\3" + colours) + grey[huffman:scan]
        scans += segment(0xDA, bytes([1, component, 0, 0, 63, 0])) + grey[scan + 10 : -2]
    return b"\xff\xd8" + tables + scans + b"\xff\xd9"


def quantisation_tables(content: bytes) -> bytes:
    parts = [content[at : at + 64].ljust(64, b"\0") for at in range(0, len(content), 64)]
    return segment(0xDB, b"".join(b"\3" + part for part in parts))


def huffman_table(content: bytes) -> bytes:
    return segment(0xC4, b"\x13" + bytes([0] * 15 + [len(content)]) + content)


def one_colour(image: Image.Image, format_name: str) -> bytes:
    """A picture in the indices of a palette, whose colours are all the same."""
    indices = image.convert("L").convert("P")
    indices.putpalette([120, 130, 140] * 256)
    return encoded(indices, format_name)


def behind_chunk(name: bytes, content: bytes, whole: bytes) -> bytes:
    """A WebP with more behind the pixels in a chunk."""
    at = whole.index(name)
    last = at + 8 + int.from_bytes(whole[at + 4 : at + 8], "little")
    return riff(whole[12:at] + riff_chunk(name, whole[at + 8 : last] + content) + whole[last + last % 2 :])


def exif(picture: bytes, compression: int = 6) -> bytes:
    """An EXIF block whose second directory is a thumbnail."""
    first = struct.pack("<HI", 0, 14)
    tags = ((0x0103, 3, compression), (0x0201, 4, 14 + 2 + 3 * 12 + 4), (0x0202, 4, len(picture)))
    second = struct.pack("<H", 3) + b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    return b"II*\0" + struct.pack("<I", 8) + first + second + struct.pack("<I", 0) + picture


def exif_of_bare_pixels(image: Image.Image) -> bytes:
    """An EXIF block whose thumbnail is uncompressed."""
    tiff = encoded(image, "TIFF")
    first = struct.unpack("<I", tiff[4:8])[0]
    return tiff[:4] + struct.pack("<I", len(tiff)) + tiff[8:] + struct.pack("<HI", 0, first)


def photoshop(picture: bytes) -> bytes:
    resource = struct.pack(">IIIIIIHH", 1, 160, 100, 480, 48000, len(picture), 24, 1) + picture
    return b"Photoshop 3.0\x008BIM\x04\x0c\0\0" + struct.pack(">I", len(resource)) + resource


def profile(**tags: bytes) -> bytes:
    """The profile of sRGB, with more tags."""
    whole = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    entries = [whole[at : at + 12] for at in range(132, 132 + 12 * whole[131], 12)]
    contents = {entry[:4]: whole[int.from_bytes(entry[4:8]) :][: int.from_bytes(entry[8:])] for entry in entries}
    contents |= {name.encode(): content for name, content in tags.items()}
    table, data = struct.pack(">I", len(contents)), b""
    for name, content in contents.items():
        table += name + struct.pack(">II", 132 + 12 * len(contents) + len(data), len(content))
        data += content + b"\0" * (-len(content) % 4)
    return struct.pack(">I", 128 + len(table + data)) + whole[4:128] + table + data


def table_profile(space: str = "RGB") -> bytes:
    """A profile that has a table in place of curves, as those of printers."""
    whole = profile(A2B0=b"mft1" + bytes(range(256)) * 8, rTRC=b"", gTRC=b"", bTRC=b"")
    return whole[:12] + b"prtr" + space.ljust(4).encode() + b"Lab " + whole[24:]


def xmp(picture: bytes) -> bytes:
    text = base64.b64encode(picture).decode()
    broken = "&#xA;".join(text[at : at + 76] for at in range(0, len(text), 76))
    return f"<x:xmpmeta><rdf:RDF><xmpGImg:image>{broken}</xmpGImg:image></rdf:RDF></x:xmpmeta>".encode()


def extended_xmp(content: bytes) -> bytes:
    head = b"http://ns.adobe.com/xmp/extension/\0" + b"0" * 32
    parts = [content[at : at + 700] for at in range(0, len(content), 700)]
    return b"".join(segment(0xE1, head + struct.pack(">II", len(content), 700 * n) + p) for n, p in enumerate(parts))


def mpo(*pictures: Image.Image) -> bytes:
    """Pillow's own writer gives wrong places for more than two pictures."""
    files = [encoded(picture, "JPEG") for picture in pictures]
    num_before = 2 + 4 + 4  # SOI, and the segment up to where places count from
    tables = struct.pack("<4sIHHHIIHHIII", b"II*\0", 8, 2, 0xB001, 4, 1, len(files), 0xB002, 7, 16 * len(files), 38, 0)
    num_added = 4 + 4 + len(tables) + 16 * len(files)
    entries, place = b"", num_added - num_before
    for number, file in enumerate(files):
        entries += struct.pack("<IIIHH", 0, len(file), place if number else 0, 0, 0)
        place += len(file)
    files[0] = with_segments(segment(0xE2, b"MPF\0" + tables + entries), whole=files[0])
    return b"".join(files)


def png(**options: object) -> bytes:
    return encoded(scene(), "PNG", **options)


def with_chunks(*chunks: bytes, before: bytes = b"IEND", whole: bytes | None = None) -> bytes:
    whole = whole or png()
    at = whole.index(before) - 4
    return whole[:at] + b"".join(chunks) + whole[at:]


def gif(*blocks: bytes) -> bytes:
    return encoded(scene(), "GIF")[:-1] + b"".join(blocks) + b";"


def sub_blocks(content: bytes) -> bytes:
    parts = [content[at : at + 255] for at in range(0, len(content), 255)]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def riff_chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def webp(*chunks: bytes, **options: object) -> bytes:
    body = encoded(scene(), "WEBP", **options)[8:] + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def frames(num_frames: int, format_name: str, **options: object) -> bytes:
    """The card is the last frame."""
    pictures = [scene(3 * number) for number in range(num_frames - 1)]
    pictures.append(Image.new("RGB", scene().size, "black"))
    pictures[-1].paste(card(), (20, 20))
    return encoded(pictures[0], format_name, save_all=True, append_images=pictures[1:], **options)


def tiff(**options: object) -> bytes:
    return encoded(scene(), "TIFF", **options)


def bmp() -> bytes:
    return encoded(scene(), "BMP")


def bmp_with_gap(content: bytes) -> bytes:
    """The pixels begin behind `content`."""
    whole = bmp()
    first = struct.unpack("<I", whole[10:14])[0]
    return whole[:10] + struct.pack("<I", first + len(content)) + whole[14:first] + content + whole[first:]


def bmp_with_old_header(gap: bytes) -> bytes:
    head = struct.pack("<4H", *scene().size, 1, 24)
    first = 26 + len(gap)
    return b"BM" + struct.pack("<IIII", 0, 0, first, 12) + head + gap + bmp()[54:]


def avif(**options: object) -> bytes:
    return encoded(scene(), "AVIF", **options)


def heif(image: Image.Image | None = None, *others: Image.Image, **options: object) -> bytes:
    """A picture of HEVC. Options are those of pillow-heif; an orientation in its EXIF becomes boxes too."""
    file, whole = io.BytesIO(), pillow_heif.from_pillow(image or scene())
    for other in others:
        whole.add_from_pillow(other)
    whole.save(file, quality=80, **options)
    return file.getvalue()


def icon(image: Image.Image, *sides_px: int, **options: object) -> bytes:
    return encoded(image, "ICO", sizes=[(side, side) for side in sides_px], **options)


def joined_icon(*pictures: bytes) -> bytes:
    """An icon of other icons' first pictures. All state 16 pixels."""
    offset, entries, contents = 6 + 16 * len(pictures), b"", [picture[22:] for picture in pictures]
    for content in contents:
        entries += bytes([16, 16, 0, 0, 1, 0, 32, 0]) + struct.pack("<II", len(content), offset)
        offset += len(content)
    return b"\0\0\1\0" + struct.pack("<H", len(pictures)) + entries + b"".join(contents)


def icon_with_directory(content: bytes) -> bytes:
    """An icon whose directory has entries that are none."""
    whole, num_entries = icon(scene(), 96), -(-len(content) // 16)
    place = struct.pack("<I", 22 + 16 * num_entries)
    directory = whole[6:18] + place + content.ljust(16 * num_entries, b" ")
    return whole[:4] + struct.pack("<H", 1 + num_entries) + directory + whole[22:]


def box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content) + 8) + name + content


def avif_with_item(kind: bytes, content: bytes) -> bytes:
    """One item more, which nothing refers to; its data lies in a box of its own."""
    whole = avif()
    head, meta, data = (whole[first:last] for first, last in box_ranges(whole, 0, len(whole)))
    children = {meta[first + 4 : first + 8]: meta[first:last] for first, last in box_ranges(meta, 12, len(meta))}
    item = children[b"iinf"][14:]
    other = box(b"infe", b"\2\0\0\0\0\2\0\0" + kind + b"\0")
    children[b"iinf"] = box(b"iinf", b"\0\0\0\0\0\2" + item + other)
    properties = children[b"iprp"].index(b"ipma") - 4
    linked = children[b"iprp"][properties:]
    linked = box(b"ipma", linked[8:12] + struct.pack(">I", 2) + linked[16:] + b"\0\2" + linked[18:])
    sized = children[b"iprp"][:properties] + linked
    grown = len(other) + 14 + len(sized) - len(children[b"iprp"])
    children[b"iprp"] = box(b"iprp", sized[8:])
    place, length = struct.unpack(">II", children[b"iloc"][-8:])
    entries = struct.pack(">HHHII", 1, 0, 1, place + grown, length)
    entries += struct.pack(">HHHII", 2, 0, 1, len(whole) + grown + 8, len(content))
    children[b"iloc"] = box(b"iloc", b"\0\0\0\0\x44\0\0\2" + entries)
    return head + box(b"meta", b"\0\0\0\0" + b"".join(children.values())) + data + box(b"mdat", content)


def box_ranges(whole: bytes, at: int, last: int) -> list[tuple[int, int]]:
    found = []
    while at < last:
        size = struct.unpack(">I", whole[at : at + 4])[0]
        found.append((at, at + size))
        at += size
    return found


def painted_over(image: Image.Image) -> Image.Image:
    ImageDraw.Draw(image).rectangle((150, 20, 190, 60), fill="black")
    return image


def wide() -> Image.Image:
    return scene().crop((0, 20, SIDE_PX, 164))


def letterboxed(image: Image.Image) -> bytes:
    """In 160 x 120 pixels, as cameras do."""
    small = image.resize((160, round(160 * image.height / image.width)))
    whole = Image.new("RGB", (160, 120))
    whole.paste(small, (0, (120 - small.height) // 2))
    return encoded(whole, "JPEG", quality=80)


def turned_exif(picture: bytes) -> bytes:
    """Says that the picture is to be turned; its thumbnail is as the sensor saw it."""
    first = struct.pack("<HHHIII", 1, 0x0112, 3, 1, 8, 26)
    tags = ((0x0103, 3, 6), (0x0201, 4, 26 + 2 + 3 * 12 + 4), (0x0202, 4, len(picture)))
    second = struct.pack("<H", 3) + b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    return b"Exif\0\0II*\0" + struct.pack("<I", 8) + first + second + struct.pack("<I", 0) + picture


def half_transparent() -> Image.Image:
    image = scene().convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    return image


def tiff_with_larger_strip(content: bytes) -> bytes:
    """The strip's length reaches the end of the file."""
    whole = bytearray(tiff() + content)
    directory = struct.unpack("<I", whole[4:8])[0]
    for at in range(directory + 2, directory + 2 + 12 * struct.unpack("<H", whole[directory : directory + 2])[0], 12):
        if struct.unpack("<H", whole[at : at + 2])[0] == 279:
            whole[at + 8 : at + 12] = struct.pack("<I", len(whole))
    return bytes(whole)


def png_with_more_rows(more: bytes, is_interlaced: bool = False) -> bytes:
    """Interlaced it has one shade of grey, and the sizes of its seven passes written out."""
    if is_interlaced:
        header = struct.pack(">IIBBBBB", 5, 5, 8, 0, 0, 0, 1)
        rows = b"".join(b"\0" + b"\x50" * num for num in (1, 1, 2, 1, 1, 3, 2, 2, 2, 5, 5))
    else:
        header = struct.pack(">IIBBBBB", SIDE_PX, 192, 8, 2, 0, 0, 0)
        rows = b"".join(b"\0" + row.tobytes() for row in np.asarray(scene()))
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows + more)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, content) for name, content in parts)


def riff(body: bytes) -> bytes:
    return riff_chunk(b"RIFF", b"WEBP" + body)


def extended_header(flags: int) -> bytes:
    size = struct.pack("<I", SIDE_PX - 1)[:3] + struct.pack("<I", 191)[:3]
    return riff_chunk(b"VP8X", bytes([flags, 0, 0, 0]) + size)


def alpha_chunk() -> bytes:
    image = scene()
    image.putalpha(card().convert("L").resize(image.size))
    whole = encoded(image, "WEBP")
    first = whole.index(b"ALPH")
    return whole[first : whole.index(b"VP8 ")]


def bmp_of(num_bits: int, compression: int, pixels: bytes, more: bytes = b"") -> bytes:
    """more: colours or masks behind the header."""
    info = struct.pack("<IiiHHIIiiII", 40, SIDE_PX, 192, 1, num_bits, compression, 0, 0, 0, 0, 0)
    first = 14 + len(info + more)
    return b"BM" + struct.pack("<IHHI", first + len(pixels), 0, 0, first) + info + more + pixels


def bmp_of_runs() -> bytes:
    indexes = np.asarray(scene().convert("L"))[::-1] // 8 * 8
    runs = b"".join(b"".join(bytes([1, value]) for value in row) + b"\0\0" for row in indexes) + b"\0\1"
    return bmp_of(8, 1, runs, b"".join(bytes([shade, shade, 255 - shade, 0]) for shade in range(256)))


def bmp_with_spare_bytes(order: str, spare: Image.Image | None = None) -> bytes:
    """Four bytes a pixel, in an order such as BGRX, of which viewers skip X."""
    planes = dict(zip("RGB", scene().split(), strict=True)) | {"X": (spare or Image.new("L", (1, 1))).convert("L")}
    pixels = np.stack([np.asarray(planes[channel].resize(scene().size))[::-1] for channel in order], axis=-1)
    masks = [0xFF << 8 * order.index(channel) for channel in "RGB"]
    return bmp_of(32, 3, pixels.tobytes(), struct.pack("<III", *masks))


def bmp_with_spare_bits(spare: Image.Image | None = None) -> bytes:
    """Two bytes a pixel, of which viewers skip the top bit."""
    red, green, blue = (np.asarray(channel)[::-1].astype(np.uint16) >> 3 for channel in scene().split())
    top = np.asarray((spare or Image.new("1", (1, 1))).convert("1").resize(scene().size))[::-1]
    return bmp_of(16, 0, (red << 10 | green << 5 | blue | top.astype(np.uint16) << 15).astype("<u2").tobytes())


def tiff_of_one_strip(packed: bytes) -> bytes:
    """Deflated, RGB."""
    tags = [(256, SIDE_PX), (257, 192), (258, 8), (259, 8), (262, 2), (273, 8), (277, 3), (278, 192)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in [*tags, (279, len(packed))])
    bits = struct.pack("<HHII", 258, 3, 3, 8 + len(packed))
    entries = entries.replace(struct.pack("<HHII", 258, 4, 1, 8), bits)
    strip = packed + struct.pack("<HHH", 8, 8, 8)
    directory = struct.pack("<H", 9) + entries + struct.pack("<I", 0)
    return b"II*\0" + struct.pack("<I", 8 + len(strip + directory) - len(directory)) + strip + directory


def tiff_with_tag(tag: int, content: bytes) -> bytes:
    """Whatever type its values should be of."""
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags.tagtype[tag] = 7
    tags[tag] = content
    return tiff(tiffinfo=tags)


def tiff_with_pointer(tag: int, content: bytes, xmp: bytes = b"") -> bytes:
    """The page points to the XMP, or to the content behind the picture if there is none."""
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[700], tags[65000], tags.tagtype[65000] = xmp or b"<x/>", 0xFFFFFFF, 4
    whole = tiff(tiffinfo=tags)
    place = whole.index(xmp) if xmp else len(whole)
    pointer = struct.pack("<HHII", 65000, 4, 1, 0xFFFFFFF)
    return whole.replace(pointer, struct.pack("<HHII", tag, 4, 1, place)) + content


def tiff_with_old_jpeg_tags(picture: bytes) -> bytes:
    whole = tiff(tiffinfo={513: 0xFFFFFFF, 514: len(picture)})
    return whole.replace(struct.pack("<I", 0xFFFFFFF), struct.pack("<I", len(whole))) + picture


def codestream(image: Image.Image, **options: object) -> bytes:
    return encoded(image, "JPEG2000", no_jp2=True, **options)


CARD = card_file()
SMALL_CARD = encoded(card(48), "JPEG", quality=20)
TEXT = b"Anna Maria Smith 4111 1111 1111 1111 " * 20
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><text y="9">4111 1111 1111 1111</text></svg>'
PICTURE, CHUNK = ("embedded_image",), ("unknown_chunk",)
PICTURE_IN_CHUNK, PICTURE_BEHIND = ("embedded_image", "unknown_chunk"), ("embedded_image", "trailing_data")

HIDING: dict[str, tuple[Callable[[], bytes], tuple[str, ...]]] = {
    "gif_frame_17.gif": (lambda: frames(17, "GIF"), ("frames",)),
    "apng_frame_17.png": (lambda: frames(17, "PNG"), ("frames",)),
    "webp_frame_17.webp": (lambda: frames(17, "WEBP", lossless=True), ("frames",)),
    "avif_frame_17.avif": (lambda: frames(17, "AVIF"), ("frames",)),
    "animated.avif": (lambda: frames(3, "AVIF"), ("frames",)),
    "tiff_page_17.tiff": (lambda: frames(17, "TIFF"), ("frames",)),
    "mpo_frame_17.jpg": (lambda: mpo(*map(scene, range(16)), card()), ("embedded_image", "frames", "trailing_data")),
    "behind_jpeg.jpg": (lambda: jpeg() + CARD, PICTURE_BEHIND),
    "behind_png.png": (lambda: png() + CARD, PICTURE_BEHIND),
    "behind_gif.gif": (lambda: gif() + CARD, PICTURE_BEHIND),
    "behind_webp.webp": (lambda: webp() + CARD, PICTURE_BEHIND),
    "behind_avif.avif": (lambda: avif() + CARD, PICTURE_BEHIND),
    "behind_bmp.bmp": (lambda: bmp() + CARD, PICTURE_BEHIND),
    "behind_tiff.tiff": (lambda: tiff() + CARD, PICTURE_BEHIND),
    "behind_packed_tiff.tiff": (lambda: tiff(compression="tiff_lzw") + CARD, PICTURE_BEHIND),
    "behind_ppm.ppm": (lambda: encoded(scene(), "PPM") + CARD, PICTURE_BEHIND),
    "beyond_white.ppm": (lambda: b"P6 160 100 1\n" + bytes(value | 1 for value in card().tobytes()), CHUNK),
    "plain.ppm": (lambda: b"P3\n40 30\n255\n" + b"40 80 120\n" * 1200, CHUNK),
    "archive_behind.jpg": (lambda: jpeg() + b"PK\3\4" + bytes(range(256)), ("trailing_data",)),
    "behind_mpo.jpg": (lambda: mpo(scene(), scene(9)) + CARD, PICTURE_BEHIND),
    "app9.jpg": (lambda: with_segments(segment(0xE9, CARD)), PICTURE_IN_CHUNK),
    "app9_in_two.jpg": (lambda: with_segments(segment(0xE9, CARD[:900]), segment(0xE9, CARD[900:])), PICTURE_IN_CHUNK),
    "app9_packed.jpg": (lambda: with_segments(segment(0xE9, zlib.compress(card().tobytes()))), CHUNK),
    "app9_between_scans.jpg": (
        lambda: (w := jpeg(progressive=True)).replace(w[-2:], segment(0xE9, CARD) + w[-2:]),
        PICTURE_IN_CHUNK,
    ),
    "dnl.jpg": (lambda: with_segments(segment(0xDC, CARD)), PICTURE_IN_CHUNK),
    "comment.jpg": (lambda: with_segments(segment(0xFE, CARD)), PICTURE_IN_CHUNK),
    "bmp_in_comment.jpg": (lambda: with_segments(segment(0xFE, card_file("BMP"))), PICTURE_IN_CHUNK),
    "ppm_in_comment.jpg": (lambda: with_segments(segment(0xFE, card_file("PPM"))), PICTURE_IN_CHUNK),
    "text_ppm_in_comment.jpg": (lambda: with_segments(segment(0xFE, b"P3 20 10 255\n" + b"4 111 111 " * 200)), PICTURE),
    "svg_in_comment.jpg": (lambda: with_segments(segment(0xFE, SVG)), PICTURE),
    "jxl_in_comment.jpg": (lambda: with_segments(segment(0xFE, b"\xff\x0a" + bytes(range(256)))), PICTURE_IN_CHUNK),
    "packed_in_comment.jpg": (lambda: with_segments(segment(0xFE, zlib.compress(CARD))), CHUNK),
    "bmp_in_icc.jpg": (lambda: jpeg(icc_profile=card_file("BMP")), PICTURE_IN_CHUNK),
    "bmp_within_icc.jpg": (lambda: jpeg(icc_profile=b"no profile" * 20 + card_file("BMP")), PICTURE_IN_CHUNK),
    "icc.jpg": (lambda: jpeg(icc_profile=b"no profile" * 20 + CARD), PICTURE_IN_CHUNK),
    "tag_of_icc.jpg": (lambda: jpeg(icc_profile=profile(priv=CARD)), PICTURE_IN_CHUNK),
    "tag_of_icc.png": (lambda: png(icc_profile=profile(priv=CARD)), PICTURE_IN_CHUNK),
    "tag_of_icc.webp": (lambda: webp(icc_profile=profile(priv=CARD)), PICTURE_IN_CHUNK),
    "known_tag_of_icc.jpg": (lambda: jpeg(icc_profile=profile(cprt=CARD)), PICTURE),
    "text_in_icc.jpg": (lambda: jpeg(icc_profile=profile(priv=b"text\0\0\0\0" + TEXT)), CHUNK),
    "earlier_scan.jpg": (lambda: with_earlier_scan(card()), ("hidden_pixels",)),
    "quantisation_tables.jpg": (lambda: with_segments(quantisation_tables(CARD)), PICTURE_IN_CHUNK),
    "huffman_table.jpg": (lambda: with_segments(huffman_table(TEXT[:200])), CHUNK),
    "restart_intervals.jpg": (
        lambda: with_segments(*(segment(0xDD, TEXT[at : at + 2]) for at in range(0, 80, 2))),
        CHUNK,
    ),
    "bare_markers.jpg": (lambda: with_segments(*(bytes([0xFF, 0xD0 + value % 8]) for value in TEXT)), CHUNK),
    "exif_thumbnail.jpg": (lambda: jpeg(exif=b"Exif\0\0" + exif(CARD)), PICTURE),
    "exif_bare_thumbnail.jpg": (lambda: jpeg(exif=b"Exif\0\0" + exif_of_bare_pixels(card(96))), PICTURE),
    "exif_thumbnail.png": (lambda: with_chunks(chunk(b"eXIf", exif(CARD))), PICTURE),
    "bmp_in_exif.png": (lambda: with_chunks(chunk(b"eXIf", card_file("BMP"))), PICTURE),
    "icc.png": (lambda: png(icc_profile=CARD), PICTURE_IN_CHUNK),
    "icc_not_packed.png": (lambda: with_chunks(chunk(b"iCCP", b"x\0\0" + CARD), before=b"IDAT"), PICTURE),
    "behind_icc.png": (
        lambda: with_chunks(chunk(b"iCCP", b"x\0\0" + zlib.compress(b"profile") + CARD), before=b"IDAT"),
        PICTURE,
    ),
    "packed_in_text.png": (lambda: with_chunks(chunk(b"tEXt", b"x\0" + zlib.compress(CARD))), CHUNK),
    "exif_thumbnail.webp": (lambda: webp(exif=exif(CARD)), PICTURE),
    "exif_thumbnail.avif": (lambda: avif(exif=exif(CARD)), PICTURE),
    "photoshop_thumbnail.jpg": (lambda: with_segments(segment(0xED, photoshop(CARD))), PICTURE),
    "photoshop_thumbnail.tiff": (lambda: tiff(tiffinfo={34377: photoshop(CARD)[14:]}), PICTURE),
    "xmp_thumbnail.jpg": (lambda: jpeg(xmp=xmp(CARD)), PICTURE),
    "xmp_thumbnail.webp": (lambda: webp(xmp=xmp(CARD)), PICTURE),
    "extended_xmp.jpg": (lambda: with_segments(extended_xmp(xmp(CARD))), PICTURE),
    "jfif_thumbnail.jpg": (
        lambda: (w := jpeg())[:2] + segment(0xE0, b"JFIF\0\1\2\0\0\1\0\1\x60\x3c" + card(96).tobytes()) + w[20:],
        PICTURE,
    ),
    "behind_jfif.jpg": (lambda: (w := jpeg())[:2] + segment(0xE0, w[6:20] + TEXT) + w[20:], CHUNK),
    "jfxx_thumbnail.jpg": (lambda: (w := jpeg())[:20] + segment(0xE0, b"JFXX\0\x10" + CARD) + w[20:], PICTURE_IN_CHUNK),
    "larger_than_scanned.jpg": (
        lambda: jpeg(exif=b"Exif\0\0" + exif(encoded(scene().resize((512, 384)), "JPEG"))),
        PICTURE,
    ),
    "unblurred_thumbnail.jpg": (
        lambda: encoded(painted_over(scene()), "JPEG", exif=b"Exif\0\0" + exif(thumbnail(side_px=160))),
        PICTURE,
    ),
    "cut_off_thumbnail.jpg": (lambda: jpeg(exif=b"Exif\0\0" + exif(CARD[:-200])), PICTURE),
    "tiff_of_many_tags.png": (
        lambda: with_chunks(chunk(b"tEXt", b"x\0II*\0\x08\0\0\0" + b"\xff" * 90_000)),
        PICTURE_IN_CHUNK,
    ),
    "private_chunk.png": (lambda: with_chunks(chunk(b"prVt", CARD)), PICTURE_IN_CHUNK),
    "packed_chunk.png": (lambda: with_chunks(chunk(b"prVt", zlib.compress(card().tobytes()))), CHUNK),
    "known_name.png": (lambda: with_chunks(chunk(b"tIME", CARD)), PICTURE_IN_CHUNK),
    "text.png": (lambda: with_chunks(chunk(b"tEXt", b"Comment\0" + CARD)), PICTURE_IN_CHUNK),
    "packed_text.png": (lambda: with_chunks(chunk(b"zTXt", b"Comment\0\0" + zlib.compress(CARD))), PICTURE_IN_CHUNK),
    "raw_profile.png": (
        lambda: with_chunks(
            chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(f"\nexif\n{len(CARD)}\n{CARD.hex()}".encode()))
        ),
        PICTURE,
    ),
    "more_pixels.png": (lambda: with_chunks(chunk(b"IDAT", CARD)), PICTURE_BEHIND),
    "webp_behind_pixels.png": (lambda: with_chunks(chunk(b"IDAT", card_file("WEBP"))), PICTURE_BEHIND),
    "second_stream.png": (lambda: with_chunks(chunk(b"IDAT", zlib.compress(card().tobytes()))), ("trailing_data",)),
    "more_rows.png": (lambda: png_with_more_rows(card().tobytes()), ("trailing_data",)),
    "more_rows_interlaced.png": (lambda: png_with_more_rows(card().tobytes(), True), ("trailing_data",)),
    "behind_last_frame.png": (
        lambda: with_chunks(chunk(b"fdAT", b"\0\0\0\x05" + card_file("WEBP")), whole=frames(3, "PNG")),
        PICTURE_BEHIND,
    ),
    "later_pixels.png": (
        lambda: with_chunks(chunk(b"tIME", b"\7\xea\1\1\0\0\0"), chunk(b"IDAT", CARD)),
        PICTURE_IN_CHUNK,
    ),
    "frames_without_animation.png": (lambda: with_chunks(chunk(b"fdAT", b"\0\0\0\0" + CARD)), ("frames",)),
    "application.gif": (lambda: gif(b"!\xff" + sub_blocks(b"PRIVATE0001" + CARD)), PICTURE_IN_CHUNK),
    "plain_text.gif": (lambda: gif(b"!\1" + sub_blocks(b"\0" * 12 + b"4111 1111 " * 9)), CHUNK),
    "comment.gif": (lambda: gif(b"!\xfe" + sub_blocks(CARD)), PICTURE_IN_CHUNK),
    "packed_in_comment.gif": (lambda: gif(b"!\xfe" + sub_blocks(zlib.compress(CARD))), CHUNK),
    "garbage.gif": (lambda: gif(b"\5" * 40 + b"4111 1111 1111 1111 " * 9), CHUNK),
    "private_chunk.webp": (lambda: webp(riff_chunk(b"PRVT", CARD)), PICTURE_IN_CHUNK),
    "second_picture.webp": (lambda: webp(encoded(card(), "WEBP")[12:]), CHUNK),
    "picture_behind_simple_one.webp": (lambda: riff(webp()[12:] + encoded(card(), "WEBP", lossless=True)[12:]), CHUNK),
    "alpha_without_flag.webp": (lambda: riff(extended_header(0) + alpha_chunk() + webp()[12:]), CHUNK),
    "alpha_behind_picture.webp": (lambda: riff(extended_header(0) + webp()[12:] + alpha_chunk()), CHUNK),
    "palette_of_true_colour.png": (lambda: with_chunks(chunk(b"PLTE", TEXT[:300]), before=b"IDAT"), CHUNK),
    "one_colour.png": (lambda: one_colour(card(), "PNG"), ("hidden_pixels",)),
    "one_colour.gif": (lambda: one_colour(card(), "GIF"), ("hidden_pixels",)),
    "one_colour.bmp": (lambda: one_colour(card(), "BMP"), ("hidden_pixels",)),
    "behind_pixels.gif": (lambda: gif()[:-2] + sub_blocks(CARD) + b";", PICTURE_BEHIND),
    "behind_lossy.webp": (lambda: behind_chunk(b"VP8 ", CARD, webp()), PICTURE),
    "behind_frame.webp": (
        lambda: behind_chunk(b"ANMF", riff_chunk(b"PRVT", TEXT), frames(2, "WEBP", lossless=True)),
        CHUNK,
    ),
    "runs.bmp": (bmp_of_runs, CHUNK),
    "last_bytes.bmp": (lambda: bmp_with_spare_bytes("BGRX", card()), CHUNK),
    "first_bytes.bmp": (lambda: bmp_with_spare_bytes("XBGR", card()), CHUNK),
    "third_bytes.bmp": (lambda: bmp_with_spare_bytes("BGXR", card()), CHUNK),
    "gap_behind_old_header.bmp": (lambda: bmp_with_old_header(TEXT), CHUNK),
    "top_bits.bmp": (lambda: bmp_with_spare_bits(card()), CHUNK),
    "gap.bmp": (lambda: bmp_with_gap(b"\0" * 2000 + CARD), PICTURE_IN_CHUNK),
    "sub_directory.tiff": (lambda: tiff_with_pointer(330, card().tobytes()), PICTURE),
    "sub_directory_in_xmp.tiff": (lambda: tiff_with_pointer(330, b"", card().tobytes()), PICTURE),
    "strips_in_xmp.tiff": (
        lambda: tiff_with_pointer(273, b"", card().tobytes()).replace(b"\x11\1\4\0", b"\x44\1\4\0", 1),
        PICTURE,
    ),
    "sub_directories.tiff": (lambda: tiff_with_tag(330, card().tobytes()), PICTURE),
    "gps_directory.tiff": (lambda: tiff_with_pointer(34853, struct.pack("<H", 216) + base64.b64encode(CARD)), PICTURE),
    "exif_pointer.tiff": (lambda: tiff_with_tag(34665, CARD), PICTURE_IN_CHUNK),
    "gps_pointer.tiff": (lambda: tiff_with_tag(34853, CARD), PICTURE_IN_CHUNK),
    "private_tag.tiff": (lambda: tiff(tiffinfo={65000: CARD}), PICTURE_IN_CHUNK),
    "named_as_old_jpeg.tiff": (lambda: tiff_with_old_jpeg_tags(CARD), PICTURE_BEHIND),
    "jpeg_tables.tiff": (lambda: tiff_with_tag(347, CARD + bytes(3000)), PICTURE_IN_CHUNK),
    "small_jpeg_tables.tiff": (lambda: tiff_with_tag(347, CARD), PICTURE),
    "transfer_function.tiff": (lambda: tiff_with_tag(301, CARD), PICTURE_IN_CHUNK),
    "huffman_tables.tiff": (lambda: tiff_with_tag(520, CARD), PICTURE_IN_CHUNK),
    "small_known_tag.tiff": (lambda: tiff_with_tag(291, SMALL_CARD), PICTURE),
    "behind_deflated_strip.tiff": (
        lambda: tiff_of_one_strip(zlib.compress(scene().tobytes()) + card_file("WEBP")),
        PICTURE_IN_CHUNK,
    ),
    "more_rows_deflated.tiff": (lambda: tiff_of_one_strip(zlib.compress(scene().tobytes() + card().tobytes())), CHUNK),
    "two_strips.tiff": (lambda: tiff_with_larger_strip(CARD), PICTURE_BEHIND),
    "item.avif": (lambda: avif_with_item(b"av01", encoded(card(), "AVIF")[275:]), PICTURE),
    "free_box.avif": (lambda: avif() + box(b"free", CARD), PICTURE_IN_CHUNK),
    "second_picture.heic": (lambda: heif(scene(), card()), PICTURE),
    "free_box.heic": (lambda: heif() + box(b"free", CARD), PICTURE_IN_CHUNK),
    "unused_data.heic": (lambda: heif() + box(b"mdat", CARD), PICTURE_IN_CHUNK),
    "exif_thumbnail.heic": (lambda: heif(exif=b"Exif\0\0" + exif(CARD)), PICTURE),
    "uuid.jp2": (lambda: encoded(scene(), "JPEG2000") + box(b"uuid", TEXT), CHUNK),
    "zeros_and_text.jp2": (lambda: encoded(scene(), "JPEG2000") + box(b"xml ", bytes(16) + TEXT), CHUNK),
    "rights.jp2": (lambda: encoded(scene(), "JPEG2000") + box(b"jp2i", TEXT), CHUNK),
    "lengths.j2k": (lambda: codestream(scene()).replace(b"\xff\x52", segment(0x57, TEXT * 4) + b"\xff\x52", 1), CHUNK),
    "directory.ico": (lambda: icon_with_directory(TEXT), CHUNK),
    "box.jp2": (lambda: encoded(scene(), "JPEG2000") + box(b"priv", CARD), PICTURE_IN_CHUNK),
    "second_codestream.jp2": (lambda: encoded(scene(), "JPEG2000") + box(b"jp2c", codestream(card())), PICTURE),
    "behind_codestream.j2k": (lambda: codestream(scene()) + CARD, PICTURE_BEHIND),
    "comment.j2k": (
        lambda: codestream(scene()).replace(b"\xff\x90", segment(0x64, b"\0\1" + CARD) + b"\xff\x90", 1),
        PICTURE,
    ),
    "smaller_picture.ico": (lambda: joined_icon(icon(scene(), 96), icon(card(), 48)), PICTURE),
    "behind.ico": (lambda: icon(scene(), 96) + CARD, PICTURE_BEHIND),
    "behind_pixels.ico": (lambda: joined_icon(icon(scene(), 64, bitmap_format="bmp") + CARD), PICTURE_IN_CHUNK),
    "chunk.ico": (lambda: joined_icon(icon(scene(), 64)[:22] + with_chunks(chunk(b"prVt", CARD))), PICTURE_IN_CHUNK),
    "animation_not_played.avif": (lambda: frames(3, "AVIF").replace(b"ftypavis", b"ftypavif", 1), ("frames",)),
    "top_level_tables.avif": (lambda: avif() + box(b"trak", TEXT) + box(b"grpl", TEXT), CHUNK),
    "unused_data.avif": (lambda: avif() + box(b"mdat", CARD), PICTURE_IN_CHUNK),
}

SHOWING: dict[str, Callable[[], bytes]] = {
    "plain.jpg": jpeg,
    "progressive.jpg": lambda: jpeg(progressive=True),
    "restarts.jpg": lambda: jpeg(restart_marker_blocks=4),
    "grey.jpg": lambda: encoded(scene().convert("L"), "JPEG"),
    "grey_with_tables_of_colour.jpg": lambda: with_segments(
        (colour := jpeg())[colour.index(b"\xff\xc4") : colour.index(b"\xff\xda")],
        whole=encoded(scene().convert("L"), "JPEG"),
    ),
    "cmyk.jpg": lambda: encoded(scene().convert("CMYK"), "JPEG"),
    "two_frames.jpg": lambda: mpo(scene(), scene(9)),
    "padded.jpg": lambda: jpeg() + b"\0" * 5000,
    "few_bytes_more.jpg": lambda: jpeg() + b"\r\n" + bytes(range(50)),
    "with_profile.jpg": lambda: jpeg(icc_profile=profile(), comment=b"made here"),
    "words_in_comment.jpg": lambda: with_segments(segment(0xFE, "Café, ".encode("latin-1") * 40 + b"\r\n\0")),
    "like_a_picture_in_comment.jpg": lambda: with_segments(segment(0xFE, b"GIF89a and P6 10 20 30 are formats. " * 9)),
    "thumbnail.jpg": lambda: jpeg(exif=b"Exif\0\0" + exif(thumbnail())),
    "bare_thumbnail.jpg": lambda: jpeg(
        exif=b"Exif\0\0" + exif_of_bare_pixels(Image.open(io.BytesIO(thumbnail("PNG"))))
    ),
    "letterboxed_thumbnail.jpg": lambda: encoded(wide(), "JPEG", exif=b"Exif\0\0" + exif(letterboxed(wide()))),
    "unturned_thumbnail.jpg": lambda: encoded(scene().rotate(90, expand=True), "JPEG", exif=turned_exif(thumbnail())),
    "preview_behind.jpg": lambda: jpeg() + thumbnail(side_px=200) + b"\0" * 300,
    "preview_segment.jpg": lambda: with_segments(segment(0xE4, thumbnail())),
    "thumbnail.png": lambda: with_chunks(chunk(b"eXIf", exif(thumbnail()))),
    "plain.png": png,
    "with_profile.png": lambda: png(icc_profile=profile()),
    "palette.png": lambda: encoded(scene().convert("P"), "PNG", transparency=3),
    "chunks.png": lambda: with_chunks(
        chunk(b"iDOT", b"\0" * 28), chunk(b"caBX", b"jumb" * 99), chunk(b"tEXt", b"Title\0words"), before=b"IDAT"
    ),
    "animated.png": lambda: frames(NUM_SCANNED, "PNG"),
    "default_image.png": lambda: frames(5, "PNG", default_image=True),
    "animated.gif": lambda: frames(NUM_SCANNED, "GIF", loop=0, comment=b"words"),
    "xmp.gif": lambda: gif(b"!\xff\x0bXMP DataXMP<rdf:RDF></rdf:RDF>\1" + bytes(range(255, -1, -1)) + b"\0"),
    "lossy.webp": webp,
    "lossless.webp": lambda: webp(lossless=True, exif=exif(thumbnail()), icc_profile=b"profile" * 90),
    "transparent.webp": lambda: encoded(half_transparent(), "WEBP"),
    "animated.webp": lambda: frames(NUM_SCANNED, "WEBP", lossless=True),
    "plain.bmp": bmp,
    "spare_bytes.bmp": lambda: bmp_with_spare_bytes("XBGR"),
    "spare_bits.bmp": bmp_with_spare_bits,
    "interlaced.png": lambda: png_with_more_rows(b"", True),
    "palette.bmp": lambda: encoded(scene().convert("P"), "BMP"),
    "one_bit.bmp": lambda: encoded(scene().convert("1"), "BMP"),
    "plain.tiff": tiff,
    "packed.tiff": lambda: tiff(compression="tiff_lzw", description="words", exif=Image.Exif()),
    "deflated.tiff": lambda: tiff(compression="tiff_adobe_deflate"),
    "palette.tiff": lambda: encoded(scene().convert("P"), "TIFF"),
    "jpeg.tiff": lambda: tiff(compression="jpeg"),
    "big.tiff": lambda: tiff(big_tiff=True),
    "pages.tiff": lambda: frames(NUM_SCANNED, "TIFF"),
    "grey16.tiff": lambda: encoded(Image.fromarray(np.asarray(scene().convert("L")).astype(np.uint16) * 257), "TIFF"),
    "colour.ppm": lambda: encoded(scene(), "PPM"),
    "grey.pgm": lambda: encoded(scene().convert("L"), "PPM"),
    "bitmap.pbm": lambda: encoded(scene().convert("1"), "PPM"),
    "plain.heic": heif,
    "thumbnail.heic": lambda: heif(thumbnails=[64], exif=b"Exif\0\0" + exif(thumbnail())),
    "odd_sides.heic": lambda: heif(scene().crop((0, 0, 251, 187))),
    "transparent.heic": lambda: heif(half_transparent()),
    "plain.jp2": lambda: encoded(scene(), "JPEG2000"),
    "plain.j2k": lambda: codestream(scene(), tile_size=(64, 64)),
    "transparent.jp2": lambda: encoded(half_transparent(), "JPEG2000"),
    "one_size.ico": lambda: icon(scene(), 64),
    "bitmap.ico": lambda: icon(half_transparent(), 64, bitmap_format="bmp"),
    "sizes.ico": lambda: icon(scene(), 128, 64),
    "plain.avif": avif,
    "transparent.avif": lambda: encoded(half_transparent(), "AVIF"),
    "exif.avif": lambda: avif(exif=exif(thumbnail())),
}
