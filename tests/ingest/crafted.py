"""Makers of picture files and of their parts (segments, chunks, boxes, directories), deterministic and in memory."""

import base64
import io
import struct
import zlib

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
        first, frame, huffman, scan = (
            grey.index(mark) for mark in (b"\xff\xdb", b"\xff\xc0", b"\xff\xc4", b"\xff\xda")
        )
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


def behind_lzw(content: bytes) -> bytes:
    return gif()[:-2] + sub_blocks(content) + b";"


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


def tiff_with_sub_directory(image: Image.Image) -> bytes:
    """The sub-directory is a page of its own that the first page points to."""
    out = io.BytesIO()
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[TiffImagePlugin.SUBIFD], tags.tagtype[TiffImagePlugin.SUBIFD] = 0xFFFFFFF, 4
    scene().save(out, "TIFF", tiffinfo=tags)
    first, second = bytearray(out.getvalue()), encoded(image, "TIFF")
    at = first.index(struct.pack("<I", 0xFFFFFFF))
    # Offsets in the second file count from where it begins, so it is written again at its place.
    base = len(first)
    moved = moved_tiff(second, base)
    first[at : at + 4] = struct.pack("<I", base + struct.unpack("<I", second[4:8])[0])
    return bytes(first) + moved


def moved_tiff(content: bytes, base: int) -> bytes:
    """A little-endian TIFF of one page whose places count from `base` bytes before it."""
    whole = bytearray(content)
    directory = struct.unpack("<I", whole[4:8])[0]
    sizes = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8}
    for number in range(struct.unpack("<H", whole[directory : directory + 2])[0]):
        at = directory + 2 + 12 * number
        tag, kind, count, value = struct.unpack("<HHII", whole[at : at + 12])
        if sizes[kind] * count > 4 or tag == 273:
            whole[at + 8 : at + 12] = struct.pack("<I", value + base)
    return bytes(whole)


def bmp() -> bytes:
    return encoded(scene(), "BMP")


def bmp_with_gap(content: bytes) -> bytes:
    """The pixels begin behind `content`."""
    whole = bmp()
    first = struct.unpack("<I", whole[10:14])[0]
    return whole[:10] + struct.pack("<I", first + len(content)) + whole[14:first] + content + whole[first:]


def plain_ppm(more: str = "") -> bytes:
    values = np.asarray(scene().resize((16, 12))).reshape(-1)
    return ("P3\n# made here\n16 12\n255\n" + " ".join(map(str, values)) + "\n" + more).encode()


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


def bmp_of_runs() -> bytes:
    indexes = np.asarray(scene().convert("L"))[::-1] // 8 * 8
    runs = b"".join(b"".join(bytes([1, value]) for value in row) + b"\0\0" for row in indexes) + b"\0\1"
    palette = b"".join(bytes([shade, shade, 255 - shade, 0]) for shade in range(256))
    info = struct.pack("<IiiHHIIiiII", 40, SIDE_PX, 192, 1, 8, 1, 0, 0, 0, 0, 0)
    first = 14 + len(info + palette)
    return b"BM" + struct.pack("<IHHI", first + len(runs), 0, 0, first) + info + palette + runs


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


def tiff_with_old_jpeg_tags(picture: bytes) -> bytes:
    whole = tiff(tiffinfo={513: 0xFFFFFFF, 514: len(picture)})
    return whole.replace(struct.pack("<I", 0xFFFFFFF), struct.pack("<I", len(whole))) + picture
