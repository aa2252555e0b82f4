"""Text with PP-OCR (through rapidocr): positions and content of lines; the content never leaves this package."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingest.images.pixels import Pixels
from scoring.engines.detectors.findings import Area, fractions
from scoring.engines.detectors.models import TEXT_DETECTOR, TEXT_RECOGNIZER, checked_path
from scoring.engines.detectors.writing import SEARCH_SIDE_PX, Quad, WritingFinder

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
    """A line of text."""

    text: str
    """Text of the line, which must not leave this package; empty if unreadable."""

    confidence: float
    """Confidence of the reading, 0–1."""

    x: float
    """Centre, in pixels, after the page was turned upright."""

    y: float
    """As for x."""

    width: float
    """Size along the writing, in pixels."""

    height: float
    """Size across the writing, in pixels."""

    area: Area
    """Area of the line in the view."""

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
        self.writing = WritingFinder(self._model)
        self._cut = get_rotate_crop_image
        self._input = TextRecInput
        self._known: dict[bytes, tuple[str, float]] = {}

    def read(self, pixels: Pixels) -> list[TextLine]:
        """Read lines from top to bottom; the text of unreadable ones may be nonsense, or empty."""
        height, width = pixels.shape[:2]
        if min(height, width) < 8:
            return []
        image = np.ascontiguousarray(pixels[:, :, ::-1])
        return self._lines(image, self.writing.quads(image))

    def read_close_up(self, pixels: Pixels, rows: slice, columns: slice) -> list[TextLine]:
        """Read the lines of a part of a view, searched at its own size. rows, columns: pixels of the view."""
        image = np.ascontiguousarray(pixels[:, :, ::-1])
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
        "Det.model_path": str(checked_path(TEXT_DETECTOR)),
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
    angles = [_angle(quad) for text, _, quad in read if len(text) >= 4]
    angle = float(np.median(angles)) if angles else 0.0
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    lines = [_line(text, confidence, quad, turn, size) for text, confidence, quad in read]
    return sorted(lines, key=lambda line: (line.y, line.x))


def _angle(quad: Any) -> float:
    along = quad[1] - quad[0]
    return math.atan2(along[1], along[0])


def _line(text: str, confidence: float, quad: Any, turn: Any, size: tuple[int, int]) -> TextLine:
    x, y = turn @ quad.mean(axis=0)
    width, height = _sides(quad)
    (x_min, y_min), (x_max, y_max) = quad.min(axis=0), quad.max(axis=0)
    return TextLine(text, confidence, float(x), float(y), width, height, fractions(x_min, y_min, x_max, y_max, *size))
