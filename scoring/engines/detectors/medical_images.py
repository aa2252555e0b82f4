"""Medical images, recognised without a trained model: fundus photographs, radiographs with patient data."""

import cv2
import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Pixels
from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.page import Page
from scoring.text_rules.patterns import has_date, tells_birth

SIDE_PX = 256
"""Pictures are scaled to this size."""


Indices = npt.NDArray[np.intp]


def _small(pixels: Pixels) -> Pixels:
    scale = SIDE_PX / max(pixels.shape[:2])
    size = (max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def is_fundus(pixels: Pixels) -> bool:
    """Return whether it shows the back of an eye: a red disc on black that fills the picture, with fine dark
    vessels."""
    small = _small(pixels)
    height, width = small.shape[:2]
    bright = (small.max(axis=2) > 30).astype(np.uint8)
    opened = cv2.morphologyEx(bright, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
    lit: Pixels = np.asarray(opened, dtype=np.uint8)
    columns, rows = np.flatnonzero(lit.any(axis=0)), np.flatnonzero(lit.any(axis=1))
    if len(columns) < 0.55 * width or len(rows) < 0.85 * height or lit.all():
        return False
    return _is_disc(lit, columns, rows) and _is_reddish(small, lit) and _has_vessels(small, lit)


def _is_disc(lit: Pixels, columns: Indices, rows: Indices) -> bool:
    """Compare the lit part with the disc over its width; top and bottom may be cut off."""
    radius = (columns[-1] - columns[0] + 1) / 2
    centre_x, centre_y = (columns[0] + columns[-1]) / 2, (rows[0] + rows[-1]) / 2
    y, x = np.ogrid[: lit.shape[0], : lit.shape[1]]
    disc = (x - centre_x) ** 2 + (y - centre_y) ** 2 <= radius**2
    disc &= (y >= rows[0]) & (y <= rows[-1])
    shared = (disc & (lit > 0)).sum() / max(1, (disc | (lit > 0)).sum())
    return bool(shared > 0.95 and disc.mean() < 0.97)


def _is_reddish(small: Pixels, lit: Pixels) -> bool:
    red, green, blue = (float(np.median(small[lit > 0][:, channel])) for channel in range(3))
    return red > 1.3 * green and green >= blue


def _has_vessels(small: Pixels, lit: Pixels) -> bool:
    """Return whether green shows dark lines a few pixels wide: some, but not a texture all over."""
    green = np.ascontiguousarray(small[:, :, 1])
    lines = cv2.morphologyEx(green, cv2.MORPH_BLACKHAT, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (9, 9)))
    inner = cv2.erode(lit, np.ones((15, 15), np.uint8)) > 0
    return bool(inner.any() and 0.02 < (lines[inner] > 8).mean() < 0.35)


def is_grey_on_black(pixels: Pixels) -> bool:
    small = _small(pixels).astype(np.int16)
    spread = (small.max(axis=2) - small.min(axis=2)).mean()
    return bool(spread < 4 and np.median(small) < 90 and (small.max(axis=2) < 25).mean() > 0.15)


def _names_patient(page: Page) -> bool:
    return bool(page.valued("birth_date", has_date)) or any(tells_birth(line.text) for line in page.readable)


def scan_findings(pixels: Pixels, page: Page) -> list[Finding]:
    if page.num_chars < 200 and _names_patient(page) and is_grey_on_black(pixels):
        return [Finding("medical_data", 1.0, "radiograph with patient data")]
    if page.num_chars < 20 and is_fundus(pixels):
        return [Finding("medical_data", 1.0, "fundus photograph"), Finding("biometrics", 0.5, "retina")]
    return []
