"""Calibration of probabilities: of the pictures that were given 0.8, are 80 % positive?

Sources: Brier, "Verification of forecasts expressed in terms of probability", 1950; Guo et al., "On Calibration of
Modern Neural Networks", 2017 (expected calibration error over bins of equal width).
"""

from dataclasses import dataclass

import numpy as np

from reports.statistics.binary import Flags, Numbers

NUM_BINS = 10


@dataclass(frozen=True)
class ReliabilityBin:
    """The pictures whose probability is in one tenth of [0, 1]."""

    low: float
    """Lower edge, included."""

    high: float
    """Upper edge, included in the last bin only."""

    num_pictures: int
    """In this bin; the other fields are None without any."""

    mean_probability: float | None
    """Mean of the predictions, 0–1."""

    share: float | None
    """Share of the pictures for which it is true, 0–1."""


@dataclass(frozen=True)
class Calibration:
    """Calibration of pictures with a label and a probability."""

    num_pictures: int
    """Number of these pictures."""

    brier: float
    """Mean squared error of the probability, 0 (best) to 1."""

    ece: float
    """Expected calibration error: mean distance of probability and share over ten bins, weighted by pictures, 0–1."""

    bins: tuple[ReliabilityBin, ...]
    """Ten, from 0 to 1."""


def calibration(truth: Flags, probabilities: Numbers, weights: Numbers | None = None) -> Calibration | None:
    """Return the calibration of probabilities; None without a picture.

    All of shape (n,), probabilities in [0, 1] without NaN. weights: how many pictures each one represents; None: only
    itself. Counts remain those of the pictures at hand.
    """
    if not len(truth):
        return None
    weights = np.ones(len(truth)) if weights is None else weights
    actual = truth.astype(np.float64)
    edges = np.arange(NUM_BINS + 1) / NUM_BINS
    index = np.clip(np.digitize(probabilities, edges) - 1, 0, NUM_BINS - 1)
    nums = np.bincount(index, minlength=NUM_BINS)
    masses = np.bincount(index, weights=weights, minlength=NUM_BINS)
    given = np.bincount(index, weights=weights * probabilities, minlength=NUM_BINS)
    real = np.bincount(index, weights=weights * actual, minlength=NUM_BINS)
    return Calibration(
        num_pictures=len(truth),
        brier=float((weights * (probabilities - actual) ** 2).sum() / weights.sum()),
        ece=float(np.abs(given - real).sum() / weights.sum()),
        bins=tuple(
            ReliabilityBin(
                low=float(edges[bin_]),
                high=float(edges[bin_ + 1]),
                num_pictures=int(num),
                mean_probability=float(given[bin_] / masses[bin_]) if num else None,
                share=float(real[bin_] / masses[bin_]) if num else None,
            )
            for bin_, num in enumerate(nums)
        ),
    )
