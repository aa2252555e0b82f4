"""Text with PP-OCR (through rapidocr): positions and content of lines; the content never leaves this package.

Positions come from a first look at a small size, then a search at a larger one where the look saw something. The cost
of the detection stage follows the area, so that a picture without writing takes a quarter of a full search, or less.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Area, Pixels
from scoring import openvino
from scoring.engines.detectors.findings import fractions
from scoring.engines.detectors.models import TEXT_RECOGNIZER, checked_path, open_network, text_detector

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
SIDES_PX = (128, 192, 256, 320, 416, 512, 640, 800, 960)
LENGTHS_PX = (48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 1024, 1536)
"""Sides of pictures, and of lines 48 px high, to which OpenVINO pads: 1.16 and 1.1 times the area on 133 pictures, in
45 and 17 shapes instead of 97 and 448."""
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
            return self._whole(image, image.shape)
        seen = self.probabilities(resized(image, look_side_px)) >= SEEN
        kept: list[Quad] = []
        for other, quads in self._earlier:
            if other.shape == image.shape:
                pixels = (image != other).any(axis=2).astype(np.float32)
                changed = _grown(cv2.resize(pixels, seen.shape[::-1], interpolation=cv2.INTER_AREA) > 0)
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
        return self._whole(np.asarray(enlarged, np.uint8), image.shape)

    def _whole(self, image: Image, shape: tuple[int, ...]) -> list[Quad]:
        """Search all of an image. shape: of the pixels to which the lines are mapped."""
        large = resized(image, SEARCH_SIDE_PX)
        return _enlarged(self._lines(self.probabilities(large)), (0, 0), large.shape, shape)

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


READABLE = 0.6
"""Below this confidence the recogniser saw another script or a texture."""
SURELY_READ = 0.7
"""Another script is sometimes read as Latin letters, with a confidence up to this."""
LINE_SHAPE = 2.6
"""A box at least this many times as long as high holds writing, even if the recogniser reads no sign in it: it knows
no Cyrillic, Arabic, Hebrew and others. On photographs and textures the detector draws boxes too, but short ones (0.7 to
2.5, most about 1); the shortest line of an unread script was 2.6, a single word. Rows of windows and keys are long, but
run from border to border and give no sign at all, not even a blank. Set on the demo pictures, 60 of other
collections and patterns, and 95 pages in 19 scripts; the box's own score did not separate the two better.
"""


@dataclass(frozen=True)
class TextLine:
    text: str
    """Text of the line, which must not leave this package; empty if unreadable."""

    confidence: float
    """Confidence of the reading, 0–1."""

    x: float
    y: float
    """Centre, in pixels, after the page was turned upright."""

    width: float
    height: float
    """Size along and across the writing, in pixels."""

    area: Area

    quad: Any = field(default=None, compare=False, repr=False)
    """Corners in pixels of the view: shape (4, 2), clockwise from the top left of the writing."""

    in_other_script: "TextLine | None" = None
    """The same line as Tesseract reads it, if it is of a script that the recogniser does not know."""

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def length(self) -> float:
        """Length in heights, upright or not; Latin writing has about two signs per height."""
        return _length(self.width, self.height)


class TextReader:
    """Finds lines and reads them; a line that another view of the same image showed is not read again."""

    def __init__(self) -> None:
        from rapidocr import RapidOCR
        from rapidocr.ch_ppocr_rec import TextRecInput
        from rapidocr.utils.process_img import get_rotate_crop_image

        self._model: Any = RapidOCR(params=_parameters())
        blank = np.zeros((48, 64, 3), np.uint8)  # the recogniser is loaded by its first use
        self._model(blank, use_det=False, use_cls=False, use_rec=True)
        self._model(blank, use_det=True, use_cls=False, use_rec=False)
        if openvino.in_use():
            find = open_network(text_detector(), SIDES_PX)
            recognise = open_network(TEXT_RECOGNIZER, LENGTHS_PX, "constant")  # as it was trained
            self._model.text_det.session = lambda inputs: find(inputs)[0][:, :, : inputs.shape[2], : inputs.shape[3]]
            self._model.text_rec.session = lambda inputs: recognise(inputs)[0]
        self.writing = WritingFinder(self._model)
        self._cut = get_rotate_crop_image
        self._input = TextRecInput
        self._known: dict[bytes, tuple[str, float]] = {}

    def read(self, pixels: Pixels) -> list[TextLine]:
        """Read lines from top to bottom; the text of unreadable ones may be nonsense, or empty."""
        height, width = pixels.shape[:2]
        if min(height, width) < 8:
            return []
        image = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), np.uint8)
        return self._lines(image, self.writing.quads(image))

    def read_close_up(self, pixels: Pixels, rows: slice, columns: slice) -> list[TextLine]:
        """Read the lines of a part of a view, searched at its own size. rows, columns: pixels of the view."""
        image = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), np.uint8)
        quads = self.writing.quads_close_up(np.ascontiguousarray(image[rows, columns]))
        corner = np.array([columns.start, rows.start], np.float32)
        return self._lines(image, [quad + corner for quad in quads])

    def _lines(self, image: Any, quads: Sequence[Quad]) -> list[TextLine]:
        height, width = image.shape[:2]
        quads = [quad for quad in quads if min(_sides(quad)) >= 4]
        texts = self._texts([self._cut(image, quad) for quad in quads])
        written = [
            ("" if _is_blank(text) else text, score, quad)
            for (text, score), quad in zip(texts, quads, strict=True)
            if not _is_blank(text) or _is_writing(quad, score, (width, height))
        ]
        return upright(written, (width, height))

    def forget(self) -> None:
        """Drop the lines read so far; they are kept no longer than their image."""
        self._known.clear()
        self.writing.forget()

    def _texts(self, crops: list[Any]) -> list[tuple[str, float]]:
        keys = [hashlib.sha256(crop.tobytes()).digest() + bytes(str(crop.shape), "ascii") for crop in crops]
        new = {key: crop for key, crop in zip(keys, crops, strict=True) if key not in self._known}
        if new:
            read = self._model.text_rec(self._input(img=list(new.values())))
            self._known |= zip(new, zip(read.txts, map(float, read.scores), strict=True), strict=True)
        return [self._known[key] for key in keys]


def _sides(quad: Any) -> tuple[float, float]:
    """Return width along and height across the writing, in pixels."""
    return float(np.linalg.norm(quad[1] - quad[0])), float(np.linalg.norm(quad[3] - quad[0]))


def _is_writing(quad: Any, score: float, size: tuple[int, int]) -> bool:
    """Return whether a box without readable text has the form of a line. score: 0 if there was no sign at all."""
    spans = float((np.ptp(quad, axis=0) / size).max())
    return _length(*_sides(quad)) >= LINE_SHAPE and (score > 0 or spans < 0.95)


def _length(width: float, height: float) -> float:
    return max(width, height) / max(1.0, min(width, height))


def _parameters() -> dict[str, Any]:
    return {
        "Global.log_level": "critical",
        "Global.use_cls": False,
        "Global.text_score": 0.0,
        "Det.limit_type": "max",
        "Det.limit_side_len": SEARCH_SIDE_PX,
        "Det.model_path": str(checked_path(text_detector())),
        "Rec.model_path": str(checked_path(TEXT_RECOGNIZER)),
        # One line at a time and no padding to a common width: 40 % faster on one thread, same text.
        "Rec.rec_batch_num": 1,
        "Rec.rec_img_shape": [3, 48, 64],
        # Keeping buffers between lines and views takes a sixth off the time, for about 80 MB.
        "EngineConfig.onnxruntime.enable_cpu_mem_arena": True,
        "EngineConfig.onnxruntime.intra_op_num_threads": 1,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    }


def _is_blank(text: str) -> bool:
    """Return whether it is nothing or a single sign, as which patterns and unknown scripts are read."""
    letters = text.strip()
    return not letters or (len(letters) == 1 and not letters.isdigit())


def upright(read: list[tuple[str, float, Any]], size: tuple[int, int]) -> list[TextLine]:
    """Turn (text, confidence, quad) to lines of an upright page. quad: (4, 2), pixels, clockwise from top left.

    size: (width, height) of the view. The page's angle is the median of its longer lines.
    """
    along = [quad[1] - quad[0] for text, _, quad in read if len(text) >= 4]
    angles = [math.atan2(y, x) for x, y in along]
    angle = float(np.median(angles)) if angles else 0.0
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    lines = []
    for text, confidence, quad in read:
        x, y = turn @ quad.mean(axis=0)
        (x_min, y_min), (x_max, y_max) = quad.min(axis=0), quad.max(axis=0)
        area = fractions(x_min, y_min, x_max, y_max, *size)
        lines.append(TextLine(text, confidence, float(x), float(y), *_sides(quad), area, quad))
    return sorted(lines, key=lambda line: (line.y, line.x))
