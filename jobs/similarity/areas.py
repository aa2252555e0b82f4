"""Where two versions of a picture differ: the covered faces of a release, say.

Of a picture that is the same everywhere else, a comparison of the whole would say "very much alike", whatever was done
to the face.
"""

import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Pixels

CELL_PX = 16
"""Pictures are compared in squares of this size, the blocks of a JPEG."""

MIN_STEPS = 32
"""A square differs if one of its pixels differs by this many of the 255 steps in a channel: more than what changes next
to a covered area when a JPEG is written again."""

MOST = 0.5
"""If the areas are more than this share of the picture, it counts as changed as a whole."""

PixelBox = tuple[int, int, int, int]
"""Left, upper, right, lower, in pixels; the last two are outside."""


def changed_areas(a: Pixels, b: Pixels) -> list[PixelBox]:
    """Rectangles around what differs; the whole picture if it differs nearly everywhere, or only a little anywhere.

    a, b: of the same shape. Empty if they are equal.
    """
    from scipy.ndimage import find_objects, label

    if np.array_equal(a, b):
        return []
    height, width = a.shape[:2]
    whole = [(0, 0, width, height)]
    differs = _cells(np.abs(a.astype(np.int16) - b).max(axis=2) >= MIN_STEPS)
    numbered, num_areas = label(differs, structure=np.ones((3, 3)))
    if num_areas == 0:
        return whole
    boxes = [
        (
            across.start * CELL_PX,
            down.start * CELL_PX,
            min(width, across.stop * CELL_PX),
            min(height, down.stop * CELL_PX),
        )
        for down, across in find_objects(numbered)
    ]
    covered = sum((right - left) * (lower - upper) for left, upper, right, lower in boxes)
    return whole if covered > MOST * width * height else boxes


def cropped(pixels: Pixels, box: PixelBox) -> Pixels:
    left, upper, right, lower = box
    return pixels[upper:lower, left:right]


def _cells(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether any pixel of each cell is set."""
    height, width = mask.shape
    padded = np.pad(mask, ((0, -height % CELL_PX), (0, -width % CELL_PX)))
    cells = padded.reshape(-(-height // CELL_PX), CELL_PX, -(-width // CELL_PX), CELL_PX)
    return np.asarray(cells.any(axis=(1, 3)), dtype=np.bool_)
