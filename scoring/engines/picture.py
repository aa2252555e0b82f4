"""Converts pixels to the picture that a model sees."""

import math

from PIL import Image

from ingest.images.pixels import Pixels

DEFAULT_MAX_PIXELS = 512 * 512
"""Width x height to which pictures are downscaled for a vision-language model."""


def prepared(pixels: Pixels, max_pixels: int) -> Image.Image:
    """Return an RGB picture of at most max_pixels (width x height), aspect kept, never enlarged."""
    image = Image.fromarray(pixels)
    scale = math.sqrt(max_pixels / (image.width * image.height))
    if scale >= 1:
        return image
    size = (max(1, math.floor(image.width * scale)), max(1, math.floor(image.height * scale)))
    return image.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0)


def max_side_px(max_pixels: int) -> int:
    """Return the longer side to which decoding may already shrink: twice that of a square of max_pixels."""
    return 2 * math.isqrt(max_pixels)


def seen_as_decoded(pixels: Pixels) -> str:
    """Describe a picture for `Preview.describe_picture` of engines that take decoded pictures as they are."""
    return f"seen at {pixels.shape[1]}x{pixels.shape[0]}"
