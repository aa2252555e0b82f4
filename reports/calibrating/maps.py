"""Maps from the probability that was given to the share for which it is true. They never fall.

Sources: Platt, "Probabilistic Outputs for Support Vector Machines", 1999, with the Newton steps of Lin, Lin and Weng,
"A Note on Platt's Probabilistic Outputs", 2007; Zadrozny and Elkan, "Transforming Classifier Scores into Accurate
Multiclass Probability Estimates", 2002 (isotonic regression by pool-adjacent-violators).
"""

import math
from dataclasses import dataclass

import numpy as np

from reports.evaluation.binary import Flags, Numbers

EDGE = 1e-6
"""Probabilities nearer to 0 or 1 than this count as this near: single precision knows them no better."""

MAX_STEPS = 100


@dataclass(frozen=True)
class Isotonic:
    """Straight lines between knots, constant outside of them; free of any shape."""

    given: Numbers
    """Shape (k,), rising: probabilities that were given."""

    meant: Numbers
    """Shape (k,), never falling: the share for which they are true."""

    def apply(self, probabilities: Numbers) -> Numbers:
        return np.asarray(np.interp(probabilities, self.given, self.meant), dtype=np.float64)

    def reaching(self, share: float) -> float | None:
        """The smallest probability given that means at least `share`, 0–1; None if none does."""
        if self.meant[-1] < share:
            return None
        place = int(np.searchsorted(self.meant, share))
        if place == 0:
            return 0.0
        low, high = self.meant[place - 1], self.meant[place]
        before, after = self.given[place - 1], self.given[place]
        return float(before + (after - before) * (share - low) / (high - low))


@dataclass(frozen=True)
class Platt:
    """A logistic curve over the logit of the probability given: two numbers, for few labels."""

    slope: float
    """0 or more; 0 if the truth does not rise with the probabilities."""

    intercept: float

    def apply(self, probabilities: Numbers) -> Numbers:
        return _sigmoid(self.slope * logits(probabilities) + self.intercept)

    def reaching(self, share: float) -> float | None:
        """As `Isotonic.reaching`."""
        lowest, highest = self.apply(np.array([0.0, 1.0]))
        if highest < share:
            return None
        if lowest >= share:
            return 0.0
        return float(_sigmoid(np.array((math.log(share / (1 - share)) - self.intercept) / self.slope)))


ProbabilityMap = Isotonic | Platt


def isotonic(truth: Flags, probabilities: Numbers, weights: Numbers) -> Isotonic:
    """The never falling function of least weighted squared error; all of shape (n,), n > 0."""
    given, places = np.unique(probabilities, return_inverse=True)
    masses = np.bincount(places, weights=weights)
    shares = np.bincount(places, weights=weights * truth) / masses
    blocks: list[tuple[float, float, int]] = []  # share, mass, number of distinct probabilities
    for share, mass in zip(shares.tolist(), masses.tolist(), strict=True):
        num = 1
        while blocks and blocks[-1][0] >= share:
            before, its_mass, its_num = blocks.pop()
            share = (before * its_mass + share * mass) / (its_mass + mass)
            mass, num = mass + its_mass, num + its_num
        blocks.append((share, mass, num))
    meant = np.repeat([share for share, _, _ in blocks], [num for _, _, num in blocks])
    is_knot = np.ones(len(meant), dtype=np.bool_)
    is_knot[1:-1] = (meant[1:-1] != meant[:-2]) | (meant[1:-1] != meant[2:])
    return Isotonic(given[is_knot], np.clip(meant[is_knot], 0.0, 1.0))


def platt(truth: Flags, probabilities: Numbers, weights: Numbers) -> Platt:
    """The most likely curve, with Platt's targets, which keep it finite where labels are separated; n > 0."""
    present, absent = float(weights[truth].sum()), float(weights[~truth].sum())
    # In units of pictures at hand, so that large weights do not count as more labels.
    scale = len(truth) / (present + absent)
    weights, present, absent = weights * scale, present * scale, absent * scale
    targets = np.where(truth, (present + 1) / (present + 2), 1 / (absent + 2))
    columns = np.stack([logits(probabilities), np.ones(len(truth))], axis=1)
    slope, intercept = _logistic(columns, targets, weights)
    if slope < 0:
        (intercept,) = _logistic(columns[:, 1:], targets, weights)
        slope = 0.0
    return Platt(float(slope), float(intercept))


def logits(probabilities: Numbers) -> Numbers:
    """Shape (n,) -> (n,), finite."""
    inside = np.clip(probabilities, EDGE, 1 - EDGE)
    return np.asarray(np.log(inside) - np.log1p(-inside), dtype=np.float64)


def _logistic(columns: Numbers, targets: Numbers, weights: Numbers) -> Numbers:
    """Newton's method with halved steps; targets in (0, 1). Shape (columns,)."""
    found = np.zeros(columns.shape[1])
    loss = _loss(columns @ found, targets, weights)
    for _ in range(MAX_STEPS):
        share = _sigmoid(columns @ found)
        gradient = columns.T @ (weights * (share - targets))
        curvature = (columns * (weights * share * (1 - share))[:, None]).T @ columns
        step = np.linalg.solve(curvature + 1e-12 * np.eye(len(found)), gradient)
        size = 1.0
        while (now := _loss(columns @ (found - size * step), targets, weights)) > loss and size > 1e-10:
            size /= 2
        found, before, loss = found - size * step, loss, min(now, loss)
        if before - loss <= 1e-12 * max(1.0, abs(loss)):
            break
    return found


def _loss(values: Numbers, targets: Numbers, weights: Numbers) -> float:
    return float((weights * (np.logaddexp(0, values) - targets * values)).sum())


def _sigmoid(values: Numbers) -> Numbers:
    return np.asarray(np.exp(-np.logaddexp(0, -values)), dtype=np.float64)
