"""Which map a subject gets, and what it is worth on pictures that it was not fitted on."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from reports.statistics.binary import Flags, Numbers
from reports.statistics.effective_size import kish_size
from reports.statistics.probability_maps import ProbabilityMap, isotonic, platt

Method = Literal["isotonic", "platt"]
Groups = npt.NDArray[np.int64]

MIN_FOR_ISOTONIC = 200
"""Pictures that show it; with fewer, a free curve follows the noise."""

MIN_TO_FIT = 20
"""Pictures that show it, and pictures that do not; with fewer there is no curve of its own."""

NUM_FOLDS = 5


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


def joined(parts: list[Points]) -> Points:
    """All points of at least one part."""
    return Points(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("truth", "probabilities", "weights", "groups")
        )
    )


def method_of(points: Points) -> Method | None:
    """By the pictures of the rarer answer; None if there are too few to fit anything."""
    present, absent = kish_size(points.weights[points.truth]), kish_size(points.weights[~points.truth])
    if min(present, absent) < MIN_TO_FIT - 1e-9:
        return None
    return "isotonic" if present > MIN_FOR_ISOTONIC - 1e-9 else "platt"


def fitted(points: Points, method: Method) -> ProbabilityMap:
    fit = isotonic if method == "isotonic" else platt
    return fit(points.truth, points.probabilities, points.weights)


def cross_fitted(points: Points, method: Method, share: float, seed: int) -> tuple[Numbers, Flags] | None:
    """Return for each point the probability by the map of the other folds, and whether that map says present from
    `share` on.

    Both of shape (n,); None if nearly all points are copies of each other. Groups are dealt to the folds at random,
    those that show it first, so that each fold has some.
    """
    probabilities, is_present = np.zeros(len(points)), np.zeros(len(points), dtype=np.bool_)
    folds = folds_of(points, seed)
    if folds.max() < NUM_FOLDS - 1:
        return None
    for fold in range(NUM_FOLDS):
        held = folds == fold
        others = fitted(points.at(~held), method)
        probabilities[held] = others.apply(points.probabilities[held])
        start = others.reaching(share)
        is_present[held] = False if start is None else points.probabilities[held] >= start
    return probabilities, is_present


def folds_of(points: Points, seed: int) -> Groups:
    """Return the fold of each point, 0 … NUM_FOLDS − 1; a group is in one fold. Shape (n,)."""
    numbers, members = np.unique(points.groups, return_inverse=True)
    shows = np.zeros(len(numbers), dtype=np.bool_)
    np.logical_or.at(shows, members, points.truth)
    order = np.random.default_rng(seed).permutation(len(numbers))
    order = order[np.argsort(~shows[order], kind="stable")]
    folds = np.empty(len(numbers), dtype=np.int64)
    folds[order] = np.arange(len(numbers)) % NUM_FOLDS
    return np.asarray(folds[members], dtype=np.int64)
