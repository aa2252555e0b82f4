"""Lines in scripts that the recogniser does not know, as the program Tesseract reads them.

It takes digits for letters of some scripts, and the recogniser knows them in all: its numbers are added.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np

from ingest.images.pixels import Pixels
from scoring import tesseract
from scoring.engines.detectors.ocr import TextLine
from scoring.engines.detectors.page import Page, is_latin

MAX_LINES = 60
SAMPLE_LINES = 3
"""Lines by which the language is chosen: those of which the recogniser is least sure, since it reads addresses on the
web and numbers in any script."""
LINE_PX, GAP_PX, MAX_WIDTH_PX = 40, 12, 1600
"""Height of a line as Tesseract sees it, the margin around it, and the longest line."""
SURE = 0.8
"""Thai takes writing of any script for Thai, with a confidence up to 0.78."""
UNSPACED = ("khm", "kor", "lao", "mya", "tha")
"""Languages whose words Tesseract divides into signs."""

_NUMBERS = re.compile(r"\S+@\S+|[+(]?\d(?:[\d\s./:()-]*\d)?")


def with_other_scripts(page: Page, pixels: Pixels) -> Page:
    """Return the page with what Tesseract reads, in that of its languages of which it is surest."""
    languages = tesseract.languages() if page.is_partly_unread else []
    if not languages:
        return page
    sample = sorted(page.unread, key=lambda line: line.confidence)[:SAMPLE_LINES]
    deadline_s = time.monotonic() + tesseract.LIMIT_S
    readings = {language: _read(sample, pixels, language, deadline_s) for language in languages}
    surest = max(languages, key=lambda language: sum(line.confidence for line in readings[language] if line))
    lines = page.lines[:MAX_LINES]
    others = _read(lines, pixels, surest, deadline_s)
    read = [replace(line, in_other_script=other) for line, other in zip(lines, others, strict=True)]
    return replace(page, lines=(*read, *page.lines[MAX_LINES:]))


def _read(lines: Sequence[TextLine], pixels: Pixels, language: str, deadline_s: float) -> list[TextLine | None]:
    """Return each line as read in a language; None where that is unsure, or Latin."""
    row_px = LINE_PX + 2 * GAP_PX
    words: list[list[tuple[str, float]]] = [[] for _ in lines]
    picture = np.concatenate([_row(line, pixels) for line in lines])
    for middle, word, confidence in tesseract.read(picture, language, deadline_s):
        words[int(middle // row_px)].append((word, confidence))
    gap = "" if language in UNSPACED else " "
    return [_joined(line, read, gap) for line, read in zip(lines, words, strict=True)]


def _row(line: TextLine, pixels: Pixels) -> Pixels:
    """Return a line in grey, shape (LINE_PX + 2 * GAP_PX, MAX_WIDTH_PX + 2 * GAP_PX), on the colour of its border."""
    width = min(MAX_WIDTH_PX, max(1, round(line.length * LINE_PX)))
    corners = np.array([[0, 0], [width, 0], [width, LINE_PX], [0, LINE_PX]], np.float32)
    upright = cv2.warpPerspective(pixels, cv2.getPerspectiveTransform(line.quad, corners), (width, LINE_PX))
    grey = cv2.cvtColor(upright, cv2.COLOR_RGB2GRAY)
    ground = np.median(np.concatenate([grey[0], grey[-1]]))
    around = ((GAP_PX, GAP_PX), (GAP_PX, MAX_WIDTH_PX + GAP_PX - width))
    return np.pad(grey, around, constant_values=int(ground))


def _joined(line: TextLine, words: Sequence[tuple[str, float]], gap: str) -> TextLine | None:
    letters = [(word, confidence) for word, confidence in words if not any(map(str.isdigit, word))]
    confidence = sum(confidence for _, confidence in letters) / max(1, len(letters))
    if confidence < SURE or is_latin("".join(word for word, _ in letters)):
        return None
    text = gap.join(word for word, _ in words)
    return replace(line, text=" | ".join([text, *_NUMBERS.findall(line.text)]), confidence=confidence)
