"""A picture's file without what decoding does not need: metadata, comments, thumbnails, unknown parts, data after the
end, and frames that were not scanned.

The file is written again from the parts that are needed, so nothing unknown can stay. Compressed pixels are copied, not
encoded again. Two facts about the picture are kept: how it is turned (EXIF orientation), and its colour profile if that
is a valid one. Where the parts of a file are in an unusual order, both files are decoded and compared.
"""

import io
from collections.abc import Iterator
from contextlib import suppress

from PIL import Image, ImageCms

from ingest.images.files import gif, jpeg, png, webp
from ingest.images.files.kept import Cleaned, KeptFacts
from ingest.images.files.metadata import PNG_MAGIC, frame_metadata, png_metadata

FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
"""Pillow's names of the formats that can be cleaned."""

MAX_PROFILE_BYTES = 2**20
"""Larger colour profiles are removed. Usual ones have 0.5 to 600 kB."""


def cleaned(encoded: bytes, num_frames: int) -> bytes | None:
    """Return a file with the pixels of the first `num_frames` frames of another one, and little else. Of a JPEG that
    holds several pictures (MPO), the first one stays.

    None if the format is not one of `FORMATS`, or if the pixels would change. encoded: a file that a scan has decoded.

    >>> cleaned(b"P6 1 1 255 abc", 1) is None
    True
    """
    image = Image.open(io.BytesIO(png_metadata(encoded)[1] if encoded.startswith(PNG_MAGIC) else encoded))
    facts = KeptFacts(_profile(image), frame_metadata(image)[1])
    match image.format:
        case "JPEG" | "MPO":
            num_frames = 1
            made = jpeg.cleaned(encoded, facts)
        case "PNG":
            made = png.cleaned(encoded, num_frames, facts)
        case "GIF":
            made = gif.cleaned(encoded, num_frames)
        case "WEBP":
            made = webp.cleaned(encoded, num_frames, facts)
        case _:
            return None
    return made.content if made.is_usual or _has_same_pixels(encoded, made, num_frames) else None


def _profile(image: Image.Image) -> bytes | None:
    profile = image.info.get("icc_profile")
    if not isinstance(profile, bytes) or len(profile) > MAX_PROFILE_BYTES:
        return None
    with suppress(OSError, ImageCms.PyCMSError):
        ImageCms.ImageCmsProfile(io.BytesIO(profile))
        return profile if int.from_bytes(profile[:4]) == len(profile) else None
    return None


def _has_same_pixels(encoded: bytes, made: Cleaned, num_frames: int) -> bool:
    try:
        return all(
            before == after
            for before, after in zip(_frames(encoded, num_frames), _frames(made.content, num_frames), strict=True)
        )
    except (OSError, SyntaxError, ValueError):  # damaged, or another number of frames
        return False


def _frames(encoded: bytes, num_frames: int) -> Iterator[tuple[str, tuple[int, int], bytes]]:
    image = Image.open(io.BytesIO(encoded), formats=(*FORMATS, "MPO"))
    for index in range(min(num_frames, getattr(image, "n_frames", 1))):
        image.seek(index)
        shown = image.convert("RGBA")
        yield image.mode, shown.size, shown.tobytes()
