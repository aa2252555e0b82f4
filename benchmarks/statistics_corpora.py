"""Corpora whose truth is known, for `python -m benchmarks.statistics`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reports.audit.drawing import PRIVATE_SHARE, densities
from reports.statistics.estimates import ABSENT, EDGES, NUM_BINS, PRESENT, Counts, Estimate, Flags, Numbers
from scoring.runs.audit_files import NUM_CELLS, PRIVATE


@dataclass(frozen=True)
class Corpus:
    """Truth of the images, and the cell of the engine's answer. Both of shape (n,)."""

    truth: Flags
    cells: Counts

    @property
    def num_images(self) -> Numbers:
        return np.bincount(self.cells, minlength=NUM_CELLS).astype(np.float64)


Random = np.random.Generator
Make = Callable[[Random], Corpus]


def yes_or_no(num: int, rate: float, right: float, right_of_others: float) -> Make:
    def make(random: Random) -> Corpus:
        truth = random.random(num) < rate
        is_yes = np.where(truth, random.random(num) < right, random.random(num) >= right_of_others)
        return Corpus(truth, np.where(is_yes, PRESENT, ABSENT))

    return make


def with_probabilities(num: int, rate: float, separation: float) -> Make:
    """Probabilities that are too sure of themselves."""

    def make(random: Random) -> Corpus:
        truth = random.random(num) < rate
        signal = random.normal(size=num) + separation * truth
        log_odds = separation * (signal - separation / 2) + np.log(rate / (1 - rate))
        return Corpus(truth, binned(1 / (1 + np.exp(0.3 - 1.3 * log_odds))))

    return make


def binned(probability: Numbers) -> Counts:
    return np.asarray(np.searchsorted(EDGES, probability, side="right") + NUM_BINS * (probability >= 0.5))


def probabilities_of(cells: Counts, num_images: Numbers, num_labels: int, guard_mass: float = 1.0) -> Numbers:
    """That each image is drawn, shape (n,). cells: of the images. num_images: that these represent, in each cell."""
    of_cells = densities({PRIVATE: num_images}, "private", guard_mass)[PRIVATE]
    density = of_cells[cells] + 1 - PRIVATE_SHARE["private"]
    return np.asarray(np.minimum(1, num_labels / len(density) * density / density.mean()), dtype=np.float64)


def holds(estimate: Estimate, truth: float) -> float:
    """NaN without an interval."""
    if estimate.low is None or estimate.high is None:
        return np.nan
    return float(estimate.low - 1e-9 <= truth <= estimate.high + 1e-9)
