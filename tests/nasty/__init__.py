"""Makers of hostile and unusual image files, in memory and deterministic.

`NASTY`: file name -> (maker, reason that `ingest.images.decode.decode` gives, None where the image must be scored).
All drawings show DRAWN: four corner colours on grey, so that orientation and brightness show.
"""

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
from PIL import ExifTags, Image, ImageDraw, PngImagePlugin

WIDTH, HEIGHT = 96, 64
CORNER_PX = 16
TOP_LEFT, TOP_RIGHT = (220, 30, 30), (30, 200, 30)
BOTTOM_LEFT, BOTTOM_RIGHT = (30, 30, 220), (230, 220, 40)
GREY = (120, 120, 120)
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


def drawn(text: str = "") -> Image.Image:
    image = Image.new("RGB", (WIDTH, HEIGHT), GREY)
    draw = ImageDraw.Draw(image)
    right, bottom = WIDTH - CORNER_PX, HEIGHT - CORNER_PX
    corners = ((0, 0, TOP_LEFT), (right, 0, TOP_RIGHT), (0, bottom, BOTTOM_LEFT), (right, bottom, BOTTOM_RIGHT))
    for x, y, colour in corners:
        draw.rectangle((x, y, x + CORNER_PX - 1, y + CORNER_PX - 1), fill=colour)
    if text:
        draw.text((20, 26), text, fill="black")
    return image


def encoded(image: Image.Image, format_name: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, format_name, **options)
    return out.getvalue()


def jpeg(**options: object) -> bytes:
    return encoded(drawn("sample"), "JPEG", quality=92, **options)


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, bit_depth: int, colour_type: int, pixels: bytes) -> bytes:
    """A PNG of filtered scanlines; colour_type: 0 grey, 2 RGB."""
    header = struct.pack(">IIBBBBB", width, height, bit_depth, colour_type, 0, 0, 0)
    return PNG_MAGIC + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels, 9)) + chunk(b"IEND", b"")


def gray16() -> bytes:
    values = np.asarray(drawn().convert("L")).astype(np.uint16) * 257
    return encoded(Image.fromarray(values), "PNG")


def rgb16() -> bytes:
    values = (np.asarray(drawn()).astype(np.uint16) * 257).astype(">u2")
    rows = b"".join(b"\0" + row.tobytes() for row in values)
    return png(WIDTH, HEIGHT, 16, 2, rows)


def animated(format_name: str) -> bytes:
    frames = [drawn(text) for text in ("", "one", "555-0100")]
    return encoded(frames[0], format_name, save_all=True, append_images=frames[1:], duration=100)


def exif_rotated_gps() -> bytes:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    exif[ExifTags.Base.Artist] = "A. Example"
    exif[ExifTags.Base.Model] = "Camera"
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.BodySerialNumber] = "12345"
    gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
    gps[ExifTags.GPS.GPSLatitudeRef], gps[ExifTags.GPS.GPSLatitude] = "N", (48.0, 12.0, 30.0)
    gps[ExifTags.GPS.GPSLongitudeRef], gps[ExifTags.GPS.GPSLongitude] = "E", (16.0, 22.0, 0.5)
    return jpeg(exif=exif.tobytes())


def exif_thumbnail_leak() -> bytes:
    """IFD1 of the EXIF block holds a JPEG thumbnail of what the picture shows no longer."""
    thumbnail = encoded(drawn("555-0100"), "JPEG", quality=60)
    ifd0 = struct.pack("<HI", 0, 14)
    entries = ((0x0103, 3, 6), (0x0201, 4, 14 + 2 + 3 * 12 + 4), (0x0202, 4, len(thumbnail)))
    ifd1 = struct.pack("<H", 3) + b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries)
    block = b"Exif\0\0II*\0" + struct.pack("<I", 8) + ifd0 + ifd1 + struct.pack("<I", 0) + thumbnail
    return encoded(drawn(), "JPEG", quality=92, exif=block)


def png_text_chunks() -> bytes:
    info = PngImagePlugin.PngInfo()
    info.add_text("Author", "A. Example")
    info.add_text("GPS", "48.2083, 16.3667")
    xmp = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><dc:creator>A. Example</dc:creator></x:xmpmeta>'
    info.add_itxt("XML:com.adobe.xmp", xmp)
    return encoded(drawn(), "PNG", pnginfo=info)


def bomb_header() -> bytes:
    return png(60_000, 60_000, 8, 2, b"\0\0\0\0")


def bomb_real_400mp() -> bytes:
    """20000 x 20000 pixels of one bit, complete: 50 MB of zeros packed into some kB."""
    side = 20_000
    packer = zlib.compressobj(1)
    row = b"\0" * (1 + side // 8)
    pixels = b"".join(packer.compress(row * 100) for _ in range(side // 100)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return PNG_MAGIC + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def bad_crc() -> bytes:
    """The checksum of the header chunk is wrong."""
    whole = bytearray(encoded(drawn(), "PNG"))
    whole[29] ^= 0xFF
    return bytes(whole)


def palette_transparent() -> bytes:
    """The colour of the writing is the transparent one."""
    image = Image.new("P", (WIDTH, HEIGHT), 0)
    image.putpalette([230, 230, 230, 10, 10, 10])
    ImageDraw.Draw(image).text((10, 26), "555-0100", fill=1)
    return encoded(image, "PNG", transparency=1)


def rgba_hidden_text() -> bytes:
    image = drawn("555-0100").convert("RGBA")
    alpha = Image.new("L", image.size, 255)
    ImageDraw.Draw(alpha).rectangle((18, 20, 78, 44), fill=0)
    image.putalpha(alpha)
    return encoded(image, "PNG")


def float_rgb() -> bytes:
    """A TIFF of three floats per pixel, as programs for photography write it."""
    pixels = (np.asarray(drawn()) / np.float32(255)).astype("<f4").tobytes()
    tags = ((256, 3, 1, WIDTH), (257, 3, 1, HEIGHT), (258, 3, 3, 122), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 1, 134))
    more = ((277, 3, 1, 3), (279, 4, 1, len(pixels)), (339, 3, 3, 128))
    entries = b"".join(struct.pack("<HHII", *tag) for tag in (*tags, *more))
    values = struct.pack("<6H", 32, 32, 32, 3, 3, 3)
    return b"II*\0" + struct.pack("<IH", 8, len(tags) + len(more)) + entries + bytes(4) + values + pixels


def bmp_of_16_bits(masks: tuple[int, int, int]) -> bytes:
    """A BMP of grey whose header says which bits are red, green and blue."""
    pixels = struct.pack("<H", 0x8410) * (WIDTH * HEIGHT)
    info = struct.pack("<IiiHHIIiiII3I", 40, WIDTH, HEIGHT, 1, 16, 3, len(pixels), 0, 0, 0, 0, *masks)
    return b"BM" + struct.pack("<IHHI", 66 + len(pixels), 0, 0, 66) + info + pixels


def pam() -> bytes:
    header = f"P7\nWIDTH {WIDTH}\nHEIGHT {HEIGHT}\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n"
    return header.encode() + drawn().convert("RGBA").tobytes()


def jpeg_of_12_bits() -> bytes:
    """Only its header: nothing here can write the pixels."""
    whole = jpeg()
    start = whole.index(b"\xff\xc0")
    return whole[: start + 4] + b"\x0c" + whole[start + 5 :]


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="200" height="50"><text x="5" y="30">555-0100</text></svg>'
NASTY: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "truncated.jpg": (lambda: (whole := jpeg())[: len(whole) * 60 // 100], "truncated"),
    "zero_byte.jpg": (lambda: b"", "empty"),
    "not_an_image.jpg": (lambda: b"Only words, many of them. " * 48, "not_an_image"),
    "html_error_page.jpg": (lambda: b"<!DOCTYPE html><html><head><title>404</title></head></html>\n", "not_an_image"),
    "png_content.jpg": (lambda: encoded(drawn(), "PNG"), None),
    "cmyk.jpg": (lambda: encoded(drawn().convert("CMYK"), "JPEG", quality=95), None),
    "gray16.png": (gray16, None),
    "rgb16.png": (rgb16, None),
    "animated.gif": (lambda: animated("GIF"), None),
    "animated.webp": (lambda: animated("WEBP"), None),
    "lossy.webp": (lambda: encoded(drawn(), "WEBP", quality=80), None),
    "exif_rotated_gps.jpg": (exif_rotated_gps, None),
    "exif_thumbnail_leak.jpg": (exif_thumbnail_leak, None),
    "png_text_chunks.png": (png_text_chunks, None),
    "jpeg_trailing_data.jpg": (lambda: jpeg() + b"appended " * 20, None),
    "bomb_header.png": (bomb_header, "too_many_pixels"),
    "bomb_real_400mp.png": (bomb_real_400mp, "too_many_pixels"),
    "extreme_aspect.png": (lambda: encoded(Image.new("L", (30_000, 4), 255), "PNG"), None),
    "one_pixel.png": (lambda: encoded(Image.new("RGB", (1, 1), (85, 85, 85)), "PNG"), None),
    "bad_crc.png": (bad_crc, "corrupt"),
    "palette_transparent.png": (palette_transparent, None),
    "rgba_hidden_text.png": (rgba_hidden_text, None),
    "multipage.tiff": (lambda: encoded(drawn(), "TIFF", save_all=True, append_images=[drawn("555-0100")]), None),
    "drawing.svg": (lambda: SVG, "unsupported_format"),
    "float_rgb.tiff": (float_rgb, "unsupported_format"),
    "cut_float_rgb.tiff": (lambda: float_rgb()[:9000], "corrupt"),
    "rgba.pam": (pam, "unsupported_format"),
    "unusual_bits.bmp": (lambda: bmp_of_16_bits((0xF00, 0xF0, 0xF)), "unsupported_format"),
    "usual_bits.bmp": (lambda: bmp_of_16_bits((0xF800, 0x7E0, 0x1F)), None),
    "twelve_bits.jpg": (jpeg_of_12_bits, "unsupported_format"),
    "broken_icc.jpg": (lambda: jpeg(icc_profile=b"no colour profile " * 8), None),
}
