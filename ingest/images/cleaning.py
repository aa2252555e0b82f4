"""A picture's file without what decoding does not need: metadata, comments, thumbnails, unknown parts, data after the
end, and frames that were not scanned.

The file is written again from the parts that are needed, so nothing unknown can stay. Compressed pixels are copied, not
encoded again. Two facts about the picture are kept: how it is turned (EXIF orientation), and its colour profile if that
is a valid one. A still picture whose parts are in the usual order has the same pixels by construction. Of every other
file, both versions are decoded as in a scan and compared.
"""

import io
from contextlib import suppress

import numpy as np
from PIL import Image, ImageCms, ImageFile

from ingest.images.decode import DecodedImage, decode
from ingest.images.files import gif, jpeg, png, webp
from ingest.images.files.metadata import PNG_MAGIC, Cleaned, KeptFacts, frame_metadata, png_metadata
from ingest.images.pixels import ImageLimits

FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
"""Pillow's names of the formats that can be cleaned."""

MAX_PROFILE_BYTES = 2**20
"""Larger colour profiles are removed. Usual ones have 0.5 to 600 kB."""


def cleaned(encoded: bytes, num_frames: int) -> bytes | None:
    """Return a file with the pixels of the first `num_frames` frames of another one, and little else. Of a JPEG that
    holds several pictures (MPO), the first one stays.

    None if the format is not one of `FORMATS`, if the file is damaged, or if its pixels would change. encoded: a file
    that a scan has decoded.

    >>> cleaned(b"P6 1 1 255 abc", 1) is None
    True
    """
    try:
        made = _cleaned(encoded, num_frames)
        is_same = made is not None and (made.is_usual or _has_same_views(encoded, made.content, num_frames))
    except Exception:  # the edge: hostile bytes make the parsers raise anything, as in `decode`
        return None
    return made.content if made is not None and is_same else None


def opened(encoded: bytes) -> ImageFile.ImageFile:
    """Open a file that a scan has decoded. Errors are those of Pillow."""
    readable = png_metadata(encoded)[1] if encoded.startswith(PNG_MAGIC) else encoded
    return Image.open(io.BytesIO(readable), formats=FORMATS)


def _cleaned(encoded: bytes, num_frames: int) -> Cleaned | None:
    stream = jpeg.streams(encoded, [0])[0] if encoded.startswith(jpeg.START) else None
    if stream is not None and not stream.may_have_facts:
        # Most JPEGs. Pillow, which takes longer than all else here, would read the same segments and find no facts.
        return jpeg.cleaned(encoded, stream, KeptFacts(profile=None, orientation=1))
    image = opened(encoded)
    facts = KeptFacts(_profile(image), frame_metadata(image)[1])
    match image.format:
        case "JPEG" | "MPO" if stream is not None:
            made = jpeg.cleaned(encoded, stream, facts)
            return made if image.format == "JPEG" else made._replace(is_usual=False)
        case "PNG":
            return png.cleaned(encoded, num_frames, facts)
        case "GIF":
            return gif.cleaned(encoded, num_frames)
        case "WEBP":
            return webp.cleaned(encoded, num_frames, facts)
        case _:
            return None


def _profile(image: Image.Image) -> bytes | None:
    profile = image.info.get("icc_profile")
    if not isinstance(profile, bytes) or len(profile) > MAX_PROFILE_BYTES:
        return None
    with suppress(OSError, ImageCms.PyCMSError):
        ImageCms.ImageCmsProfile(io.BytesIO(profile))
        return profile if int.from_bytes(profile[:4]) == len(profile) else None
    return None


def _has_same_views(encoded: bytes, content: bytes, num_frames: int) -> bool:
    """Return whether a scan sees the same in both files, and nothing else in the second one. Errors are Pillow's."""
    width, height = opened(encoded).size
    limits = ImageLimits(max_frames=num_frames, max_pixels=max(ImageLimits().max_pixels, width * height))
    before, after = decode(encoded, limits), decode(content, limits)
    if not isinstance(before, DecodedImage) or not isinstance(after, DecodedImage):
        return False
    if after.unseen or after.metadata:
        return False
    views = before.views[: after.num_frames_decoded] if before.format == "jpeg" else before.views
    return len(views) == len(after.views) and all(
        np.array_equal(here, there) for here, there in zip(views, after.views, strict=True)
    )
