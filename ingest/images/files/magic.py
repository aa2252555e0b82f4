"""Recognises picture files by their first bytes, without decoding them. No other module does this.

Formats that a scan cannot decode count too, so that a second picture is found whatever its name. Formats without a mark
at their beginning (TGA, raw pixels) are not recognised.
"""

import codecs
import re

HEAD_BYTES = 8192
"""Number of bytes that `picture_format` needs: drawing programs put long comments before the root of an SVG."""

_SPACE = rb"(?:\s|#[^\n]*\n)"
_SIDES = _SPACE + rb"++\d++" + _SPACE + rb"++\d++"

_BMP = rb"BM.{4}.{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0"
BMP_HEADER = re.compile(_BMP, re.DOTALL)

# Two letters or a word alone are found in captions and tables too: more of the header must fit.
_FORMATS: tuple[tuple[str, bytes], ...] = (
    ("JPEG", rb"\xff\xd8\xff"),
    ("PNG", rb"\x89PNG|\x8a[MJ]NG|\x8bJNG"),
    ("GIF", rb"GIF8[79]a"),
    ("WEBP", rb"RIFF....WEBP"),
    ("BMP", _BMP),
    ("TIFF", rb"II[*+]\0|MM\0[*+]|II\0\*|MM\*\0"),
    ("AVIF", rb"....ftypavi[fs]"),
    ("PPM", rb"P4" + _SIDES + rb"\s|P[56]" + _SIDES + _SPACE + rb"++\d++\s"),
    ("PPM", rb"P[fF]" + _SIDES + _SPACE + rb"++-?\d[\d.]*+\s"),
    ("HEIF", rb"....ftyp(?:hei[cxms]|hev[cxms]|mif[12]|msf1)"),
    ("JPEG XL", rb"\xff\x0a|\0\0\0\x0cJXL "),
    ("JPEG2000", rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51"),
    ("JPEG XR", rb"II\xbc[\0\1]"),
    ("PDF", rb"%PDF-\d"),
    ("PostScript", rb"%!PS[-\s]|\xc5\xd0\xd3\xc6"),
    ("Photoshop", rb"8BPS\0[\1\2]"),
    ("GIMP", rb"gimp xcf (?:file|v\d{3})\0"),
    ("ICO", rb"\0\0\x01\0[^\0]\0...\0"),
    ("icon", rb"\0\0\x02\0[^\0]\0...\0|icns[\0-\x07].{3}"),
    ("DIB", rb"[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0.{8}\x01\0[\1\4\x08\x10\x18\x20]\0"),
    ("PCX", rb"\x0a[\0\2\3\5]\x01[\1\2\4\x08]|\xb1\x68\xde\x3a"),
    ("SGI", rb"\x01\xda[\0\1][\1\2]"),
    ("DDS", rb"DDS \x7c\0\0\0|BLP[12][\0\1]\0\0\0|FTEX.{6}\0\0..\0\0"),
    ("QOI", rb"qoif.{8}[\3\4][\0\1]"),
    ("OpenEXR", rb"\x76\x2f\x31\x01"),
    ("Radiance", rb"#\?(?:RADIANCE|RGBE)\n"),
    ("FITS", rb"SIMPLE  =\s+T\b"),
    ("DICOM", rb".{128}DICM"),
    ("DjVu", rb"AT&TFORM.{4}(?:DJV|[PB]M44)"),
    ("BPG or FLIF", rb"BPG\xfb|FLIF[134ACDQSTacd][012]"),
    ("IM, MSP or Sun raster", rb"Image type: [^\0\x1a]++[\0\x1a]|(?:DanM|LinS).{22}\0{6}|\x59\xa6\x6a\x95"),
    ("Windows metafile", rb"\xd7\xcd\xc6\x9a|\x01\0\0\0.{36} EMF"),
    ("camera raw", rb"....ftypcrx |FUJIFILMCCD-RAW \d{4}|IIR[OS]\x08\0|MMOR\0\x08|IIU\0|FOVb..[\1-\x0f]\0"),
)
_TEXT_FORMATS: tuple[tuple[str, bytes], ...] = (
    # Formats with pixels as text must show the first ones; in the others the header must end with a line.
    ("PPM", rb"P1" + _SIDES + rb"\s++(?:(?:[01]\s*+){4}|[01\s]*+\Z)"),
    ("PPM", rb"P[23]" + _SIDES + _SPACE + rb"++\d++\s++(?:(?:\d++\s++){3}|[\d\s]*+\Z)"),
    ("PPM", rb"P4" + _SIDES + rb"[\r\n]|P[56]" + _SIDES + _SPACE + rb"++\d++[\r\n]"),
    ("PAM", rb"P7\n(?:#[^\n]*\n)*+(?:WIDTH|HEIGHT|DEPTH|MAXVAL|TUPLTYPE) "),
    ("X bitmap", rb"\s*+#define[ \t]++\S*?_width[ \t]++\d++\s++#define[ \t]++\S*?_height\s|/\* XPM \*/[ \t]*+[\r\n]"),
    ("PDF", rb"%PDF-\d\.\d[ \t]*+[\r\n]"),
    ("PostScript", rb"%!PS(?:-Adobe-\d|[ \t]*+[\r\n])"),
)
"""Marks of pictures that may be text from beginning to end; captions do not begin like this."""

_MARKS = tuple((name, re.compile(pattern, re.DOTALL)) for name, pattern in (*_FORMATS, *_TEXT_FORMATS))
_TEXT_MARKS = _MARKS[len(_FORMATS) :]
_ANY_MARK = re.compile(b"|".join(pattern for _, pattern in (*_FORMATS, *_TEXT_FORMATS)), re.DOTALL)
_NO_TEXT = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f\x7f]")
"""Tabulators, ends of lines and pages, and ESC, which switches between old Japanese character sets, are text."""

# Possessive (`*+`): else a file of nothing but comments would be tried in exponentially many ways.
_SVG = re.compile(
    r"\s*+(?:<\?.*?\?>\s*+|<!--.*?-->\s*+)*+"
    r"(?:<!DOCTYPE\s+(?:[\w.-]+:)?svg\s*(?:PUBLIC|SYSTEM|[\[>])|<(?:[\w.-]+:)?svg\s+[\w:.-]+\s*=\s*[\"'])",
    re.DOTALL | re.IGNORECASE,
)
"""The root must have an attribute: without its namespace nothing shows it as a picture, and people write about tags."""


def picture_format(head: bytes) -> str | None:
    """Return the format of a picture by the first `HEAD_BYTES` of its file, or None if it is not a picture.

    >>> picture_format(b"GIF89a..."), picture_format(b"a caption")
    ('GIF', None)
    """
    if _ANY_MARK.match(head):  # most files checked are captions, so one pattern rules them out fast
        return next(name for name, mark in _MARKS if mark.match(head))
    return "SVG" if _is_svg(head) else None


def picture_in_place_of_text(head: bytes) -> str | None:
    """Return the same as `picture_format` for files that should be text: words that begin like a picture do not count.

    >>> picture_in_place_of_text(b"GIF89a is from 1989"), picture_in_place_of_text(b"GIF89a\\1\\0\\1\\0")
    (None, 'GIF')
    """
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
    except UnicodeDecodeError:
        return picture_format(head)
    if _NO_TEXT.search(head):
        return picture_format(head)
    format_name = next((name for name, mark in _TEXT_MARKS if mark.match(head)), None)
    return "SVG" if format_name is None and _is_svg(head) else format_name


def is_text(content: bytes) -> bool:
    """Return whether the content may be text in an encoding that extends ASCII, perhaps padded with zeros."""
    return _NO_TEXT.search(content.rstrip(b"\0")) is None


def _is_svg(head: bytes) -> bool:
    if b"<" not in head:
        return False
    # XML is in UTF-16 by its byte order mark or its zero bytes, else in UTF-8.
    if head.startswith(codecs.BOM_UTF16_LE) or head[1:2] == b"\0":
        encoding = "utf-16-le"
    elif head.startswith(codecs.BOM_UTF16_BE) or head[:1] == b"\0":
        encoding = "utf-16-be"
    else:
        encoding = "utf-8"
    return _SVG.match(head[:HEAD_BYTES].decode(encoding, "replace").removeprefix("\ufeff")) is not None
