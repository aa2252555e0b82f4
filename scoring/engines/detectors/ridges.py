"""Fingerprints: parallel ridges at one spacing over most of the print, their direction turning."""

import cv2
import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Pixels
from scoring.engines.detectors.findings import Finding

SIDE_PX = 384
"""Prints are scaled to this size."""
BLOCK_PX = 24
"""Tiles in which direction and spacing are measured; ridges are 4-14 px apart."""


def ridge_share(pixels: Pixels) -> tuple[float, float]:
    """Return (share of tiles with ridges, spread of their directions 0-1).

    A tile has ridges if its gradients share one direction and its spectrum has one strong wavelength.
    """
    grey = _grey(pixels)
    tiles = _tiles(grey)
    if len(tiles) < 40:
        return 0.0, 0.0
    inked = tiles.std(axis=(1, 2)) > 18
    coherence, direction = _directions(tiles)
    ridged = inked & (coherence > 0.45) & (_dominance(tiles) > 0.3)
    if not ridged.any():
        return 0.0, 0.0
    spread = 1 - abs(np.exp(2j * direction[ridged]).mean())
    return float(ridged.sum() / max(inked.sum(), 0.4 * len(tiles))), float(spread)


Floats = npt.NDArray[np.float64]


def _grey(pixels: Pixels) -> Floats:
    height, width = pixels.shape[:2]
    scale = SIDE_PX / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    grey = cv2.resize(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), size, interpolation=method)
    return np.asarray(grey, dtype=np.float64)


def _tiles(grey: Floats) -> Floats:
    rows, columns = grey.shape[0] // BLOCK_PX, grey.shape[1] // BLOCK_PX
    cut = grey[: rows * BLOCK_PX, : columns * BLOCK_PX]
    return cut.reshape(rows, BLOCK_PX, columns, BLOCK_PX).swapaxes(1, 2).reshape(-1, BLOCK_PX, BLOCK_PX)


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
    strongest = np.where(band, power, 0).reshape(len(tiles), -1).max(axis=1)
    # A windowed wave spreads over about 3x3 bins at two mirrored positions.
    share: Floats = np.minimum(1.0, 6 * strongest / np.maximum(power.sum((1, 2)), 1e-6))
    return share


def ridge_findings(pixels: Pixels) -> list[Finding]:
    share, spread = ridge_share(pixels)
    if share < 0.75 or spread < 0.4:
        return []
    return [Finding("biometrics", 1.0, "ridge pattern of a fingerprint")]
