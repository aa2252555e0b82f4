"""What is recognised without a trained model: fundus photographs, radiographs of patients, fingerprints, barcodes.

Ridges of a fingerprint are parallel at one spacing over most of the print, their direction turning. The content of a
barcode, read by ZXing, is recognised by its form (a contact card, a licence) and then dropped.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
import zxingcpp

from ingest.images.pixels import Area, Pixels
from scoring.engines.detectors.findings import Finding, fractions
from scoring.engines.detectors.page import Page

SIDE_PX = 256
"""Pictures are scaled to this size."""

Indices = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]


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


def scan_findings(pixels: Pixels, page: Page) -> list[Finding]:
    if page.num_chars < 200 and page.tells_birth and is_grey_on_black(pixels):
        return [Finding("medical_data", 1.0, "radiograph with patient data")]
    if page.num_chars < 20 and is_fundus(pixels):
        return [Finding("medical_data", 1.0, "fundus photograph"), Finding("biometrics", 0.5, "retina")]
    return []


PRINT_SIDE_PX = 384
"""Prints are scaled to this size."""
BLOCK_PX = 24
"""Tiles in which direction and spacing are measured; ridges are 4-14 px apart."""


def ridge_share(pixels: Pixels) -> tuple[float, float]:
    """Return (share of tiles with ridges, spread of their directions 0-1).

    A tile has ridges if its gradients share one direction and its spectrum has one strong wavelength.
    """
    grey = _grey(pixels)
    rows, columns = grey.shape[0] // BLOCK_PX, grey.shape[1] // BLOCK_PX
    cut = grey[: rows * BLOCK_PX, : columns * BLOCK_PX].reshape(rows, BLOCK_PX, columns, BLOCK_PX)
    tiles = cut.swapaxes(1, 2).reshape(-1, BLOCK_PX, BLOCK_PX)
    if len(tiles) < 40:
        return 0.0, 0.0
    inked = tiles.std(axis=(1, 2)) > 18
    coherence, direction = _directions(tiles)
    ridged = inked & (coherence > 0.45)
    ridged[ridged] = _dominance(tiles[ridged]) > 0.3
    if not ridged.any():
        return 0.0, 0.0
    spread = 1 - abs(np.exp(2j * direction[ridged]).mean())
    return float(ridged.sum() / max(inked.sum(), 0.4 * len(tiles))), float(spread)


def _grey(pixels: Pixels) -> Floats:
    height, width = pixels.shape[:2]
    scale = PRINT_SIDE_PX / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    grey = cv2.resize(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), size, interpolation=method)
    return np.asarray(grey, dtype=np.float64)


def _directions(tiles: Floats) -> tuple[Floats, Floats]:
    """Return coherence, 0-1, and direction in radians of each tile, from its structure tensor."""
    dy, dx = np.gradient(tiles, axis=(1, 2))
    xx, yy, xy = (dx * dx).sum((1, 2)), (dy * dy).sum((1, 2)), (dx * dy).sum((1, 2))
    coherence = np.hypot(xx - yy, 2 * xy) / np.maximum(xx + yy, 1e-6)
    return coherence, 0.5 * np.arctan2(2 * xy, xx - yy)


def _dominance(tiles: Floats) -> Floats:
    """Return the share of a tile's power around its strongest wavelength, if that is 4-14 px; else 0."""
    window = np.hanning(BLOCK_PX)[:, None] * np.hanning(BLOCK_PX)[None]
    centred = (tiles - tiles.mean((1, 2), keepdims=True)) * window
    power = np.abs(np.fft.fft2(centred)) ** 2
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(BLOCK_PX), np.fft.fftfreq(BLOCK_PX)))
    band = (frequency > 1 / 14) & (frequency < 1 / 4)
    strongest = np.where(band, power, 0).max(axis=(1, 2))
    # A windowed wave spreads over about 3x3 bins at two mirrored positions.
    share: Floats = np.minimum(1.0, 6 * strongest / np.maximum(power.sum((1, 2)), 1e-6))
    return share


def ridge_findings(pixels: Pixels) -> list[Finding]:
    share, spread = ridge_share(pixels)
    is_print = share >= 0.75 and spread >= 0.4
    return [Finding("biometrics", 1.0, "ridge pattern of a fingerprint")] if is_print else []


_LICENCE = re.compile(r"\A@\s*(\x1e\s*)?(ANSI |AAMVA)")
"""Start of a North American licence's PDF417 (AAMVA DL/ID Card Design Standard)."""
_CONTACT = re.compile(r"\A(BEGIN:VCARD|MECARD:|BIZCARD:|MAILTO:|TEL:|SMSTO:|MATMSG:)", re.IGNORECASE)
_BOARDING_PASS = re.compile(r"\AM[1-4][A-Z/ ]{20}[E ]")
"""Start of an IATA bar coded boarding pass: passenger's name in 20 characters."""
_WIFI = re.compile(r"\AWIFI:", re.IGNORECASE)
_PAYMENT = re.compile(r"\A(BCD\r?\n|SPC\r?\n|bitcoin:|upi:)", re.IGNORECASE)


@dataclass(frozen=True)
class Barcode:
    content: str
    """Encoded text; must not leave this package."""

    area: Area


def read_barcodes(pixels: Pixels) -> list[Barcode]:
    height, width = pixels.shape[:2]
    if min(height, width) < 8:
        return []
    barcodes = []
    for code in zxingcpp.read_barcodes(np.ascontiguousarray(pixels[:, :, 1])):
        at = code.position
        corners = (at.top_left, at.top_right, at.bottom_left, at.bottom_right)
        xs, ys = [corner.x for corner in corners], [corner.y for corner in corners]
        barcodes.append(Barcode(code.text, fractions(min(xs), min(ys), max(xs), max(ys), width, height)))
    return barcodes


def barcode_findings(barcodes: Sequence[Barcode]) -> list[Finding]:
    findings: list[Finding] = []
    for barcode in barcodes:
        kind, value, attributes = "barcode", 0.5, ["documents"]
        if _LICENCE.match(barcode.content):
            kind, value = "driving licence barcode", 1.0
            attributes = ["gov_ids", "full_legal_name", "non_unique_id", "contact_details", "age", "gender"]
        elif _CONTACT.match(barcode.content):
            kind, value, attributes = "contact card barcode", 1.0, ["contact_details", "non_unique_id"]
        elif _BOARDING_PASS.match(barcode.content):
            kind, value, attributes = "boarding pass barcode", 1.0, ["full_legal_name", "non_unique_id", "documents"]
        elif _PAYMENT.match(barcode.content):
            kind, value, attributes = "payment barcode", 1.0, ["financial_data"]
        elif _WIFI.match(barcode.content):
            kind, attributes = "network access barcode", ["non_unique_id"]
        findings += [Finding(attribute, value, kind, barcode.area) for attribute in attributes]
    return findings
