"""A threshold with a promise: at least a given share of the private pictures is at or above it.

The scores of n private pictures, drawn at random, are put in order. The threshold is the (m + 1)-th smallest. It misses
more than 1 − recall of all private pictures only if m or fewer of the n are among the 1 − recall lowest. This happens
with probability P(X ≤ m) at most, X ~ Binomial(n, 1 − recall). m is the largest number for which this is at most 1 −
confidence. Nothing is assumed of how scores are distributed. Equal scores only make the promise safer, and so does
drawing without replacement.
Source: Wilks, "Determination of sample sizes for setting tolerance limits", 1941.

The pictures come from an audit sample, thinned so that each picture of the run had the same probability. The audit
draws rows, each with a probability of its own, and a picture can have several rows: its copies. If a picture were taken
because any of them is drawn, pictures with many copies would be taken more often, and the promise would hold for rows
only. So a picture is taken by its first row alone.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.statistics.shares import binomial_cdf

Numbers = npt.NDArray[np.float64]

NONE: Numbers = np.empty(0)

MAX_NEEDED = 10**9
"""Number of labels: a promise that needs more cannot be proven."""

Row = tuple[str, int]
"""Shard and index."""


@dataclass(frozen=True)
class Bound:
    """What n labelled private pictures prove."""

    threshold: float
    """Pictures from this score on are dropped; +inf if what is dropped anyway is enough, −inf if nothing is."""

    num_private: int
    """Labelled private pictures, with the undecided ones that count as private here."""

    num_missed_allowed: int
    """How many of these may be below the threshold."""

    num_missed: int
    """How many are; fewer than allowed if several have the score of the threshold."""

    failure_probability: float
    """Largest probability, 0–1, with which such a threshold breaks the promise."""


def num_missed_allowed(num: int, recall: float, confidence: float) -> int | None:
    """Return how many of `num` private pictures may be missed; None if there are too few to promise anything."""
    probabilities = binomial_cdf(np.arange(num + 1), num, 1 - recall)
    allowed = int(np.searchsorted(probabilities, 1 - confidence, side="right")) - 1
    return allowed if allowed >= 0 else None


def num_needed(recall: float, confidence: float) -> int | None:
    """Return the smallest number of private pictures that can prove it, with none missed; None above `MAX_NEEDED`."""
    logarithm = math.log1p(-confidence) / math.log(recall)
    if logarithm > MAX_NEEDED:
        return None
    num = max(1, math.ceil(logarithm) - 1)
    return num if recall**num <= 1 - confidence else num + 1


def bound_of(scores: Numbers, recall: float, confidence: float, undecided: Numbers = NONE) -> Bound | None:
    """Return the threshold and what proves it; None if n is below `num_needed`.

    scores: of the labelled private pictures, shape (n,), no NaN; +inf for one that is dropped anyway, −inf for one that
    no threshold can drop.
    undecided: of the pictures that may be private or not, shape (u,). The promise holds whatever they are: the
    threshold is the lowest of all those that follow if some of them are private and the others are not. With k of them
    private, the lowest follows if these have the k lowest scores: more private pictures below a score only lower the
    threshold.
    """
    ascending = np.sort(undecided)
    if _bound_of(scores, recall, confidence) is None:
        return None
    bounds = (
        _bound_of(np.concatenate([scores, ascending[:num]]), recall, confidence) for num in range(len(undecided) + 1)
    )
    return min((bound for bound in bounds if bound is not None), key=lambda bound: bound.threshold)


def _bound_of(scores: Numbers, recall: float, confidence: float) -> Bound | None:
    allowed = num_missed_allowed(len(scores), recall, confidence)
    if allowed is None:
        return None
    threshold = float(np.sort(scores)[allowed])
    return Bound(
        threshold=threshold,
        num_private=len(scores),
        num_missed_allowed=allowed,
        num_missed=int((scores < threshold).sum()),
        failure_probability=float(binomial_cdf(allowed, len(scores), 1 - recall)),
    )


def evenly_thinned(probabilities: Numbers, least: float, lots: Numbers) -> npt.NDArray[np.bool_]:
    """Return which pictures of an unequal-probability sample to take, so that each of the run has the same probability.

    probabilities: of being drawn, shape (n,), each at least `least`, the smallest in the design. A picture that was
    drawn with probability p is taken with probability least / p, so that any picture is taken with probability `least`.
    lots: a number of each picture, uniform in [0, 1), shape (n,).
    """
    return np.asarray(lots * probabilities < least, dtype=np.bool_)


def evenly_taken(
    rows_of: Mapping[str, Sequence[Row]], probabilities: Mapping[Row, float], least: float, seed: int
) -> list[str]:
    """Return the pictures that remain, in the order of `rows_of`.

    rows_of: sha256 -> all rows of the run that could be drawn and have these bytes. probabilities: of the drawn rows.
    least: the smallest probability of any row of the run, drawn or not. seed: of the sample.

    Each picture of the run remains with probability `least`, independently of the others: its first row is drawn with
    probability p, and stays with probability least / p.
    """
    first_rows = {sha256: min(rows) for sha256, rows in rows_of.items()}
    drawn = {sha256: row for sha256, row in first_rows.items() if row in probabilities}
    drawn_with = np.array([probabilities[row] for row in drawn.values()], dtype=np.float64)
    lots = np.array([lot_of(seed, *row) for row in drawn.values()], dtype=np.float64)
    is_left = evenly_thinned(drawn_with, least, lots)
    return [sha256 for sha256, is_taken in zip(drawn, is_left.tolist(), strict=True) if is_taken]


def lot_of(seed: int, shard: str, index: int) -> float:
    """Return a number for a row, uniform in [0, 1).

    seed: of the audit sample. The number depends on these alone, so no one can choose a lucky one by leaving out labels
    of others. Samples of other seeds have other numbers: otherwise a run with unlucky numbers would have them in every
    audit.
    """
    return lot(f"guarantee/{seed}/{index}/{shard}")


def lot(name: str) -> float:
    """Return a number that follows from the name, uniform in [0, 1)."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
