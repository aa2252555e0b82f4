"""Pages of text: as pictures, and as OCR reads them."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ingest.images.pixels import Pixels
from scoring.assessment import Assessment
from scoring.engines.detectors.ocr import TextLine
from scoring.engines.detectors.page import Page
from scoring.taxonomy import KEYS

CORPUS = Path(__file__).parents[2] / "jobs" / "demo" / "corpus" / "tree"

WIDTH, HEIGHT = 1000, 800
"""Side of a page as OCR reads it, px."""


def drawn(texts: list[str], size: tuple[int, int] = (700, 460), angle: float = 0) -> Pixels:
    """A page that a printer might have made, turned by `angle` degrees."""
    picture = Image.new("RGB", size, "#f4f1e6")
    draw = ImageDraw.Draw(picture)
    for index, text in enumerate(texts):
        draw.text((40, 30 + 55 * index), text, font=ImageFont.load_default(26), fill="#202030")
    return np.asarray(picture.rotate(angle, fillcolor="#555555"))


def picture(path: Path) -> Pixels:
    return np.asarray(Image.open(path).convert("RGB"))


def line(text: str, x: float, y: float, confidence: float = 0.98, height: float = 24) -> TextLine:
    """A line whose top left is at x, y pixels, in letters half as wide as high."""
    width = len(text) * height / 2
    area = (x / WIDTH, y / HEIGHT, (x + width) / WIDTH, (y + height) / HEIGHT)
    return TextLine(text, confidence, x + width / 2, y + height / 2, width, height, area)


def page(*texts: str) -> Page:
    """One line under the other, well apart."""
    return Page(tuple(line(text, 50, 40 + 60 * i) for i, text in enumerate(texts)), WIDTH, HEIGHT)


def value(assessment: Assessment, key: str) -> float:
    return float(assessment.values[KEYS.index(key)])
