"""Channels of a BMP or TIFF that Pillow skips, such as the fourth byte of each pixel in 32 bits without alpha.

Pillow names the layout of pixels in a file, one letter per channel: X is skipped, A would be alpha.
"""

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile

_SINGLE = {"RGB": "RGBA", "L": "LA", "P": "PA"}
"""Pillow's mode of a picture with one more channel."""
_SPARE_BIT = "BGR;15"


def num_ignored(image: ImageFile.ImageFile) -> int:
    """Return the number of ignored channels of the frame that is about to be loaded."""
    if image.format not in ("BMP", "TIFF"):
        return 0
    names = set(_channel_names(image))
    return max((1 if name == _SPARE_BIT else name.count("X") for name in names), default=0)


def ignored_channel(encoded: bytes, index: int) -> npt.NDArray[np.uint8] | None:
    """Return the channel that is skipped in a frame, or None if it cannot be read."""
    image = Image.open(io.BytesIO(encoded), formats=("BMP", "TIFF"))
    image.seek(index)
    if num_ignored(image) != 1 or image.mode not in _SINGLE:
        return None
    image._mode = _SINGLE[image.mode]
    image.tile = [tile._replace(args=_with_alpha(tile.args)) for tile in image.tile]
    try:
        return np.asarray(image.getchannel("A"))
    except (OSError, ValueError):
        return None


def _channel_names(image: ImageFile.ImageFile) -> list[str]:
    return [str(tile.args[0] if isinstance(tile.args, tuple) else tile.args) for tile in image.tile]


def _with_alpha(arguments: tuple[Any, ...] | str | None) -> tuple[Any, ...] | str | None:
    if not isinstance(arguments, tuple):
        return arguments
    name = "BGRA;15" if arguments[0] == _SPARE_BIT else str(arguments[0]).replace("X", "A")
    return (name, *arguments[1:])
