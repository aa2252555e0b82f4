"""Calibration of probabilities: of the pictures that were given 0.8, are 80 % positive? A map makes it so.

The map is Platt's: expit(a logit(p) + b), the most likely a ≥ 0 and b, so it never falls. It assumes that the truth
rises with the probability as such a curve does. How good it is, is measured on pictures that it was not fitted on.

Sources: Platt, "Probabilistic Outputs for Support Vector Machines", 1999; Brier, "Verification of forecasts expressed
in terms of probability", 1950; Guo et al., "On Calibration of Modern Neural Networks", 2017 (expected calibration error
over bins of equal width).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.statistics.binary import Flags, Numbers
from reports.statistics.shares import kish_size

EDGE = 1e-6
"""Probabilities nearer to 0 or 1 than this count as this near: single precision cannot hold them more exactly."""

Groups = npt.NDArray[np.int64]

MIN_TO_FIT = 20
"""Number of pictures that show it, and of pictures that do not; with fewer there is no map."""

NUM_FOLDS = 5


@dataclass(frozen=True)
class Platt:
    """A logistic curve over the logit of the probability given."""

    slope: float
    """0 or more; 0 if the truth does not rise with the probabilities."""

    intercept: float

    def apply(self, probabilities: Numbers) -> Numbers:
        from scipy.special import expit  # takes a tenth of a second to load

        return np.asarray(expit(self.slope * logits(probabilities) + self.intercept), dtype=np.float64)

    def reaching(self, share: float) -> float | None:
        """Return the smallest probability given that means at least `share`, 0–1; None if none does."""
        lowest, highest = self.apply(np.array([0.0, 1.0]))
        if not lowest < share <= highest:
            return None if highest < share else 0.0
        from scipy.special import expit, logit  # as above

        return float(expit((logit(share) - self.intercept) / self.slope))


def platt(truth: Flags, probabilities: Numbers, weights: Numbers) -> Platt:
    """Return the most likely curve, with Platt's targets, which keep it finite where labels are separated; n > 0."""
    present, absent = float(weights[truth].sum()), float(weights[~truth].sum())
    # In units of pictures at hand, so that large weights do not count as more labels.
    scale = len(truth) / (present + absent)
    weights, present, absent = weights * scale, present * scale, absent * scale
    targets = np.where(truth, (present + 1) / (present + 2), 1 / (absent + 2))
    given = logits(probabilities)
    from scipy.optimize import minimize  # takes half a second to load
    from scipy.special import expit

    def loss(curve: Numbers) -> tuple[float, Numbers]:
        values = curve[0] * given + curve[1]
        slopes = weights * (expit(values) - targets)
        return float(weights @ (np.logaddexp(0, values) - targets * values)), np.array([slopes @ given, slopes.sum()])

    slope, intercept = minimize(loss, np.zeros(2), jac=True, options={"gtol": 1e-9 * weights.sum()}).x
    if slope < 0:
        return Platt(0.0, float(logits(np.average(targets, weights=weights))))
    return Platt(float(slope), float(intercept))


def logits(probabilities: Numbers) -> Numbers:
    """Return the logits, all finite. Shape (n,) -> (n,)."""
    inside = np.clip(probabilities, EDGE, 1 - EDGE)
    return np.asarray(np.log(inside / (1 - inside)), dtype=np.float64)


@dataclass(frozen=True)
class Points:
    """Labelled pictures with a probability of one or several attributes; all of shape (n,)."""

    truth: Flags
    probabilities: Numbers
    weights: Numbers
    """How many pictures of the run each one represents."""

    groups: Groups
    """Copies and near duplicates have the same number; they are never on both sides of a fold."""

    def __len__(self) -> int:
        return len(self.truth)

    def at(self, members: Flags) -> "Points":
        return Points(self.truth[members], self.probabilities[members], self.weights[members], self.groups[members])


def is_enough(points: Points) -> bool:
    """Return whether there are enough pictures that show it, and that do not, for a map."""
    sides = (kish_size(points.weights[points.truth]), kish_size(points.weights[~points.truth]))
    return min(sides) >= MIN_TO_FIT - 1e-9


def cross_fitted(points: Points, share: float) -> tuple[Numbers, Flags] | None:
    """Return for each point the probability by the map of the other folds, and whether that map calls it present, both
    of shape (n,); None if nearly all points are copies of each other. share: a point is present from this mapped
    probability on."""
    probabilities, is_present = np.zeros(len(points)), np.zeros(len(points), dtype=np.bool_)
    folds = folds_of(points, seed=0)
    if folds.max() < NUM_FOLDS - 1:
        return None
    for fold in range(NUM_FOLDS):
        held = folds == fold
        rest = points.at(~held)
        others = platt(rest.truth, rest.probabilities, rest.weights)
        probabilities[held] = others.apply(points.probabilities[held])
        start = others.reaching(share)
        is_present[held] = False if start is None else points.probabilities[held] >= start
    return probabilities, is_present


def folds_of(points: Points, seed: int) -> Groups:
    """Return the fold of each point, 0 … NUM_FOLDS − 1; a group is in one fold. Shape (n,)."""
    numbers, members = np.unique(points.groups, return_inverse=True)
    shows = np.bincount(members, points.truth, len(numbers)) > 0
    order = np.random.default_rng(seed).permutation(len(numbers))
    order = order[np.argsort(~shows[order], kind="stable")]
    folds = np.empty(len(numbers), dtype=np.int64)
    folds[order] = np.arange(len(numbers)) % NUM_FOLDS
    return np.asarray(folds[members], dtype=np.int64)


NUM_BINS = 10


@dataclass(frozen=True)
class Calibration:
    """Calibration of pictures with a label and a probability."""

    num_pictures: int
    brier: float
    """Mean squared error of the probability, 0 (best) to 1."""

    ece: float
    """Expected calibration error: mean distance of probability and share over ten bins, weighted by pictures, 0–1."""

    ece_by_chance: float
    """The same error to expect of probabilities that are right, from as few pictures: an error as small shows nothing.
    By the normal approximation, √(2/π) √(Σ w² p (1 − p)) in each bin."""


def calibration(truth: Flags, probabilities: Numbers, weights: Numbers | None = None) -> Calibration | None:
    """Return the calibration of probabilities; None without a picture.

    All of shape (n,), probabilities in [0, 1] without NaN. weights: how many pictures each one represents; None: only
    itself. Counts remain those of the pictures at hand.
    """
    if not len(truth):
        return None
    weights = np.ones(len(truth)) if weights is None else weights
    edges = np.arange(NUM_BINS + 1) / NUM_BINS
    index = np.clip(np.digitize(probabilities, edges) - 1, 0, NUM_BINS - 1)
    errors = np.bincount(index, weights * (probabilities - truth))
    noise = np.bincount(index, weights**2 * probabilities * (1 - probabilities))
    return Calibration(
        num_pictures=len(truth),
        brier=float((weights * (probabilities - truth) ** 2).sum() / weights.sum()),
        ece=float(np.abs(errors).sum() / weights.sum()),
        ece_by_chance=float(np.sqrt(2 / np.pi * noise).sum() / weights.sum()),
    )
