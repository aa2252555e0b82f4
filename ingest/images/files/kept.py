"""What is kept of a file when it is cleaned, besides its pixels (`ingest.images.cleaning`)."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from PIL import ExifTags, Image


@dataclass(frozen=True)
class KeptFacts:
    """Facts that decide how the pixels are shown."""

    profile: bytes | None
    """ICC colour profile, a valid one."""

    orientation: int
    """EXIF orientation, 1…8; 1 is upright."""

    @cached_property
    def exif(self) -> bytes:
        """A TIFF structure with the orientation alone, without "Exif" before it; empty if the picture is upright."""
        if self.orientation == 1:
            return b""
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = self.orientation
        return exif.tobytes().removeprefix(b"Exif\0\0")


class Cleaned(NamedTuple):
    """A file that was written again."""

    content: bytes

    is_usual: bool
    """Whether it is a still picture whose parts came in the usual order. If not, decoders may read it in another way
    than privsieve does, so the pixels of both files have to be compared."""
