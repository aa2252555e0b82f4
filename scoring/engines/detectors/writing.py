"""Positions of writing: a first look at a small size, then a search at a larger one where the look saw something.

Model: the detection stage of PP-OCR (through rapidocr). Its cost follows the area, so that a picture without writing
takes a quarter of a full search, or less.
"""

import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
"""Shape (height, width, 3), BGR."""

SEARCH_SIDE_PX = 960
"""Longer side of the picture in the search."""
LOOK_SCALE = 0.5
"""Scale of the first look relative to the search. At 0.4 two of the demo pictures lost their small writing."""
MIN_LOOK_SIDE_PX = 320
"""Minimum length of the longer side of the first look."""
WORTH_A_LOOK = 1.4
"""A picture less than this much longer than its look is searched at once."""
SEEN = 0.15
"""Probability of writing from which a pixel of the look is searched. Lines are made from 0.3 on."""
MARGIN_PX = 32
"""Margin around writing, in pixels of the look."""
CLOSE_UP_SIDE_PX = 640
"""Longer side to which a close-up is enlarged, so that small plates are found."""
MAX_ENLARGED = 2.5
"""Maximum enlargement; more shows nothing new."""
CELL_PX = 32
"""The network needs sides that are multiples of this."""
NEAR_PX = 6
"""Distance from a change between two views, in pixels of the look, within which writing is searched again."""
MAX_SHAPE = 8
"""Ratio of sides above which rapidocr pads pictures: they are searched by its own method."""

Mask = npt.NDArray[np.bool_]
Quad = npt.NDArray[np.float32]
"""Shape (4, 2): pixels of the picture, clockwise from the top left of a line."""


class WritingFinder:
    """Finds the positions of lines in a picture."""

    def __init__(self, model: Any) -> None:
        """Take a model: a RapidOCR whose detection stage is loaded."""
        self._model = model
        self._earlier: list[tuple[Image, list[Quad]]] = []

    def forget(self) -> None:
        """Drop the views so far. Until then, equal parts of two views of a picture are searched once."""
        self._earlier.clear()

    def quads(self, image: Image) -> list[Quad]:
        height, width = image.shape[:2]
        if max(height, width) > MAX_SHAPE * min(height, width):
            boxes = self._model(image, use_det=True, use_cls=False, use_rec=False).boxes
            return [] if boxes is None else [np.asarray(quad, np.float32) for quad in boxes]
        look_side_px = max(MIN_LOOK_SIDE_PX, round(LOOK_SCALE * min(SEARCH_SIDE_PX, max(height, width))))
        if max(height, width) <= WORTH_A_LOOK * look_side_px:
            return self._whole(image)
        seen = self.probabilities(resized(image, look_side_px)) >= SEEN
        kept: list[Quad] = []
        for other, quads in self._earlier:
            if other.shape == image.shape:
                changed = _shrunk((image != other).any(axis=2), seen.shape)
                for quad in quads:  # a line that changed, or vanished
                    rows, columns = _around(quad, seen.shape[0] / height)
                    seen[rows, columns] |= changed[rows, columns].any()
                seen = _connected(seen, changed)
                kept = [quad for quad in quads if not seen[_around(quad, seen.shape[0] / height)].any()]
                break
        new = self._search(image, seen) if seen.any() else []
        all_quads = [*kept, *(quad for quad in new if not any(_is_in(quad, other) for other in kept))]
        self._earlier.append((image, all_quads))
        return all_quads

    def quads_close_up(self, image: Image) -> list[Quad]:
        """Search without a look: image is a small part of a picture in which writing is likely."""
        enlarged_by = max(1.0, min(MAX_ENLARGED, CLOSE_UP_SIDE_PX / max(image.shape[:2])))
        enlarged = cv2.resize(image, None, fx=enlarged_by, fy=enlarged_by, interpolation=cv2.INTER_CUBIC)
        large = resized(np.asarray(enlarged, np.uint8), SEARCH_SIDE_PX)
        return _enlarged(self._lines(self.probabilities(large)), (0, 0), large.shape, image.shape)

    def _whole(self, image: Image) -> list[Quad]:
        large = resized(image, SEARCH_SIDE_PX)
        return _enlarged(self._lines(self.probabilities(large)), (0, 0), large.shape, image.shape)

    def _search(self, image: Image, seen: Mask) -> list[Quad]:
        """Search a part of the picture. seen: pixels of the look that may show writing."""
        large = resized(image, SEARCH_SIDE_PX)
        rows = _cells(np.flatnonzero(seen.any(axis=1)), seen.shape[0], large.shape[0])
        columns = _cells(np.flatnonzero(seen.any(axis=0)), seen.shape[1], large.shape[1])
        quads = self._lines(self.probabilities(large[rows, columns]))
        return _enlarged(quads, (columns.start, rows.start), large.shape, image.shape)

    def probabilities(self, image: Image) -> npt.NDArray[np.float32]:
        """Return the probability of writing of each pixel; the sides of the image are multiples of `CELL_PX`."""
        answer = self._model.text_det.session(normalized(image))
        return np.asarray(answer, np.float32).reshape(image.shape[:2])

    def _lines(self, probabilities: npt.NDArray[np.float32]) -> list[Quad]:
        """Return lines in pixels of the probabilities, from top to bottom."""
        detector = self._model.text_det
        quads, _ = detector.postprocess_op(probabilities[None, None], probabilities.shape)
        return [np.asarray(quad, np.float32) for quad in detector.sorted_boxes(np.asarray(quads))]


def _around(quad: Quad, scale: float) -> tuple[slice, slice]:
    """Return rows and columns of the look. scale: of the picture to the look."""
    (left, top), (right, bottom) = np.maximum(quad.min(axis=0), 0) * scale, quad.max(axis=0) * scale
    return slice(int(top), int(bottom) + 1), slice(int(left), int(right) + 1)


def _is_in(quad: Quad, other: Quad) -> bool:
    """Return whether the middle of a line is in the box around another."""
    return bool((other.min(axis=0) <= quad.mean(axis=0)).all() and (quad.mean(axis=0) <= other.max(axis=0)).all())


def _shrunk(changed: Mask, shape: tuple[int, ...]) -> Mask:
    """Return the pixels of the look with a change in or near them."""
    small = cv2.resize(changed.astype(np.float32), (shape[1], shape[0]), interpolation=cv2.INTER_AREA) > 0
    return _grown(small)


def _connected(seen: Mask, changed: Mask) -> Mask:
    """Return changed writing and all that is connected to it: a whole line, not only its new part."""
    _, parts = cv2.connectedComponents(_grown(seen).astype(np.uint8))
    return seen & np.isin(parts, np.unique(parts[seen & changed]))


def _grown(mask: Mask) -> Mask:
    around = np.ones((2 * NEAR_PX + 1, 2 * NEAR_PX + 1), np.uint8)
    return np.asarray(cv2.dilate(mask.astype(np.uint8), around), np.bool_)


def resized(image: Image, side_px: int) -> Image:
    """Resize to at most `side_px` on the longer side, both sides multiples of `CELL_PX`."""
    height, width = image.shape[:2]
    scale = min(1.0, side_px / max(height, width))
    rows, columns = (max(CELL_PX, round(int(side * scale) / CELL_PX) * CELL_PX) for side in (height, width))
    interpolation = cv2.INTER_LINEAR if side_px >= SEARCH_SIDE_PX else cv2.INTER_AREA
    return np.asarray(cv2.resize(image, (columns, rows), interpolation=interpolation), np.uint8)


def normalized(image: Image) -> npt.NDArray[np.float32]:
    """Return the input of the network: shape (1, 3, height, width), BGR, -1 to 1."""
    normal = (image.astype(np.float32) / 255 - 0.5) / 0.5
    return np.asarray(normal.transpose(2, 0, 1)[None], np.float32)


def _enlarged(
    quads: Sequence[Quad], corner: tuple[int, int], searched: tuple[int, ...], picture: tuple[int, ...]
) -> list[Quad]:
    """Map pixels of a searched part to pixels of the picture. corner: x and y of the part."""
    scale = np.array([picture[1] / searched[1], picture[0] / searched[0]], np.float32)
    return [np.round((quad + np.array(corner, np.float32)) * scale) for quad in quads]


def _cells(seen: npt.NDArray[np.intp], length_of_look: int, length: int) -> slice:
    """Map one side of the seen area, with the margin, to whole cells along the same side of the search.

    seen: rows or columns of the look, ascending. Both lengths are in pixels.
    """
    scale = length / length_of_look / CELL_PX
    first = math.floor((int(seen[0]) - MARGIN_PX) * scale)
    last = math.ceil((int(seen[-1]) + 1 + MARGIN_PX) * scale)
    return slice(max(0, first) * CELL_PX, min(length, last * CELL_PX))
