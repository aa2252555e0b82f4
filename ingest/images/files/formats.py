"""The picture formats that are read, and what else is done with each: one table for all who need one."""

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Format:
    """A format of picture files."""

    name: str
    """Pillow's."""

    extensions: tuple[str, ...]
    """Of file names, in lower case."""

    media_type: str

    is_cleaned: bool = False
    """Whether files can be written again without what decoding does not need."""

    is_covered: bool = False
    """Whether areas can be covered, if it holds one frame."""


HEIF = "HEIF"
TABLE = (
    Format("JPEG", ("jpg", "jpeg", "jpe", "jfif", "mpo"), "image/jpeg", is_cleaned=True, is_covered=True),
    Format("PNG", ("png", "apng"), "image/png", is_cleaned=True, is_covered=True),
    Format("WEBP", ("webp",), "image/webp", is_cleaned=True, is_covered=True),
    Format("GIF", ("gif",), "image/gif", is_cleaned=True),
    Format("BMP", ("bmp", "dib"), "image/bmp"),
    Format("TIFF", ("tif", "tiff"), "image/tiff"),
    Format("AVIF", ("avif",), "image/avif"),
    Format("PPM", ("ppm", "pgm", "pbm", "pnm", "pfm"), "image/x-portable-anymap"),
    Format(HEIF, ("heic", "heif", "hif"), "image/heic"),
    Format("JPEG2000", ("jp2", "j2k", "j2c", "jpx"), "image/jp2"),
    Format("ICO", ("ico",), "image/vnd.microsoft.icon"),
)
HAS_HEIF = find_spec("pi_heif") is not None
"""Whether the extra `heic` is installed, without which HEIF is not read."""

READ = tuple(form.name for form in TABLE if form.name != HEIF or HAS_HEIF)
CLEANED = tuple(form.name for form in TABLE if form.is_cleaned)
COVERED = tuple(form.name for form in TABLE if form.is_covered)
EXTENSIONS = frozenset(extension for form in TABLE for extension in form.extensions)
