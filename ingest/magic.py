"""Recognises picture files by their first bytes, without decoding them; the one place that does.

Formats that a scan cannot decode count too, so that a second picture is found whatever its name. Formats without a mark
at their beginning (TGA, raw pixels) are not recognised.
"""

import codecs
import re

HEAD_BYTES = 8192
"""What `picture_format` wants to see of a file: drawing programs put long comments before the root of an SVG."""

_SPACE = rb"(?:\s|#[^\n]*\n)"
_FORMATS: tuple[tuple[str, bytes], ...] = (
    ("JPEG", rb"\xff\xd8\xff"),
    ("PNG", rb"\x89PNG|\x8a[MJ]NG|\x8bJNG"),
    ("GIF", rb"GIF8[79]a"),
    ("WEBP", rb"RIFF....WEBP"),
    # Two letters or a small number alone are found in captions and tables too: more of the header must fit.
    ("BMP", rb"BM.{4}.{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0"),
    ("TIFF", rb"II[*+]\0|MM\0[*+]|II\0\*|MM\*\0"),
    ("AVIF", rb"....ftypavi[fs]"),
    ("PPM", rb"P[1-6]" + _SPACE + rb"++\d+" + _SPACE + rb"++\d+\s|P7\n(?:#[^\n]*\n|WIDTH )|P[fF]\n\d+ \d+\n"),
    ("HEIC", rb"....ftyp(?:hei[cxms]|hev[cxms]|mif[12]|msf1|crx )"),
    ("JPEG XL", rb"\xff\x0a|\0\0\0\x0cJXL "),
    ("JPEG 2000", rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51"),
    ("JPEG XR", rb"II\xbc[\0\1]"),
    ("PDF", rb"%PDF-"),
    ("PostScript", rb"%!PS|\xc5\xd0\xd3\xc6"),
    ("Photoshop", rb"8BPS"),
    ("GIMP", rb"gimp xcf "),
    ("icon", rb"\0\0[\1\2]\0[^\0]\0...\0|icns"),
    ("DIB", rb"[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0.{8}\x01\0[\1\4\x08\x10\x18\x20]\0"),
    ("PCX", rb"\x0a[\0\2\3\5]\x01[\1\2\4\x08]|\xb1\x68\xde\x3a"),
    ("SGI", rb"\x01\xda[\0\1][\1\2]"),
    ("DDS", rb"DDS |BLP[12]|FTEX"),
    ("QOI", rb"qoif"),
    ("OpenEXR", rb"\x76\x2f\x31\x01"),
    ("Radiance", rb"#\?(?:RADIANCE|RGBE)\n"),
    ("FITS", rb"SIMPLE  ="),
    ("DICOM", rb".{128}DICM"),
    ("DjVu", rb"AT&TFORM"),
    ("BPG or FLIF", rb"BPG\xfb|FLIF"),
    ("X bitmap", rb"\s*+#define[ \t]++\S*?_width\s|/\* XPM \*/"),
    ("IM, MSP or Sun raster", rb"Image type: |DanM|LinS|\x59\xa6\x6a\x95"),
    ("Windows metafile", rb"\xd7\xcd\xc6\x9a|\x01\0\0\0.{36} EMF"),
    ("camera raw", rb"FUJIFILMCCD-RAW|IIR[OS]|MMOR|IIU\0|FOVb"),
)
_MARKS = tuple((name, re.compile(pattern, re.DOTALL)) for name, pattern in _FORMATS)
_ANY_MARK = re.compile(b"|".join(pattern for _, pattern in _FORMATS), re.DOTALL)

# Possessive (`*+`): else a file of nothing but comments would be tried in exponentially many ways.
_SVG = re.compile(
    r"\s*+(?:<\?.*?\?>\s*+|<!--.*?-->\s*+)*+(?:<!DOCTYPE\s+(?:[\w.-]+:)?svg\b|<(?:[\w.-]+:)?svg[\s/>])",
    re.DOTALL | re.IGNORECASE,
)


def picture_format(head: bytes) -> str | None:
    """The format of a picture by the first `HEAD_BYTES` of its file (fewer where it is shorter); None for the rest.

    >>> picture_format(b"GIF89a..."), picture_format(b"a caption")
    ('GIF', None)
    """
    if _ANY_MARK.match(head):  # most files of a corpus that are looked at are captions
        return next(name for name, mark in _MARKS if mark.match(head))
    return "SVG" if b"<" in head and _SVG.match(_xml_text(head[:HEAD_BYTES])) else None


def _xml_text(head: bytes) -> str:
    """The beginning of an XML file: UTF-16 by its byte order mark or its zero bytes, else what ASCII extends to."""
    if head.startswith(codecs.BOM_UTF16_LE) or head[1:2] == b"\0":
        encoding = "utf-16-le"
    elif head.startswith(codecs.BOM_UTF16_BE) or head[:1] == b"\0":
        encoding = "utf-16-be"
    else:
        encoding = "utf-8"
    return head.decode(encoding, "replace").removeprefix("\ufeff")
