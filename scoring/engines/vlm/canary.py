"""One made picture, the same everywhere: actors of one run must agree on it, or one of them is set up wrongly."""

import hashlib
import json

import numpy as np

from scoring.assessment import Outcome, Unscored, View

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


def record(outcome: Outcome) -> bytes:
    """JSON of an actor's answer, to be kept for the actors after it. Holds numbers and a reason only."""
    if isinstance(outcome, Unscored):
        return json.dumps({"reason": outcome.reason}).encode()
    answer = {
        "values": [None if np.isnan(value) else float(value) for value in outcome.values],
        "probabilities": None if outcome.probabilities is None else outcome.probabilities.astype(float).tolist(),
        "holistic_score": outcome.holistic_score,
        "private": outcome.private,
    }
    return json.dumps(answer).encode()


def difference(first: bytes, other: Outcome) -> str | None:
    """Why two answers to the canary cannot come from actors that are set up alike; None where they can.

    first: the `record` of the first actor.
    """
    before, now = json.loads(first), json.loads(record(other))
    if before.get("probabilities") and now.get("probabilities"):
        apart = float(np.nanmax(np.abs(np.array(before["probabilities"]) - np.array(now["probabilities"]))))
        return f"probabilities of the canary picture differ by {apart:.3f}" if apart > TOLERANCE else None
    different = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return f"{', '.join(different)} of the canary picture differ" if different else None
