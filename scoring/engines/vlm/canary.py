"""One made picture, the same everywhere: actors of one run must agree on it, or one of them is set up wrongly."""

import hashlib

import numpy as np

from scoring.assessment import Assessment, Outcome, View

SIZE_PX = 224
TOLERANCE = 0.02
"""Largest difference of a probability between two sound actors: half precision on differing GPUs, batches of
differing size."""


def canary() -> View:
    """Bars, a disc and noise: every patch differs, so that a lost or shuffled patch shows."""
    down, across = np.mgrid[0:SIZE_PX, 0:SIZE_PX]
    noise = np.random.default_rng(20260101).integers(0, 64, (SIZE_PX, SIZE_PX, 3))
    bars = np.stack([across, down, (across // 16 % 2) * 160], axis=-1) * 191 // SIZE_PX
    disc = (((across - 140) ** 2 + (down - 90) ** 2) < 50**2)[:, :, None] * np.array([0, 60, 0])
    pixels = np.ascontiguousarray(np.clip(noise + bars + disc, 0, 255).astype(np.uint8))
    return View(pixels, frozenset(), hashlib.sha256(pixels.tobytes()).hexdigest())


def difference(first: Outcome, other: Outcome) -> str | None:
    """Why two answers to the canary cannot come from actors that are set up alike; None where they can."""
    if not isinstance(first, Assessment) or not isinstance(other, Assessment):
        return None if first == other else "one actor answers the canary picture and another does not"
    if first.probabilities is not None and other.probabilities is not None:
        apart = float(np.nanmax(np.abs(first.probabilities - other.probabilities), initial=0.0))
        return f"probabilities of the canary picture differ by {apart:.3f}" if apart > TOLERANCE else None
    same = np.array_equal(first.values, other.values, equal_nan=True) and first.private == other.private
    return None if same and first.holistic_score == other.holistic_score else "values of the canary picture differ"
