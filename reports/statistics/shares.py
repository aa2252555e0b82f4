"""Intervals of shares: exact ones; of a rate in the source, by how its images were chosen; ranks of groups; and
thresholds with a promise. 95 % unless another confidence is given.

- A simple random sample: Wilson's interval at the effective size n / (1 - f), where f is the sampled share of the
  source (finite population correction; Cochran, "Sampling Techniques", 3rd ed. 1977, section 2.6). f = 0 for a source
  of unknown size is never too narrow, f = 1 gives the rate itself, and f < 0 stands for the variance between drawn
  shards (`reports.run.drawn_shards`).
- A sample of each category: each category is weighted by its size in the source. How many images of it can be judged is
  estimated too, so the rate is a ratio of two estimated totals (Cochran chapter 5A; Särndal, Swensson and Wretman,
  "Model Assisted Survey Sampling", 1992, section 5.8), with Wilson's interval at the effective size of its variance.
- Ranks hold jointly: each of K groups gets an exact interval of confidence 0.95 ** (1 / K), so that all hold in at
  least 95 of 100 corpora (Šidák; Klein, Wright and Wieczorek, "A joint confidence region for an overall ranking of
  populations", JRSS C 69, 2020). Where two do not overlap, the order of their groups is sure. Wilson's fails at such a
  confidence: for 300 groups of 20 images with 0.4 % private, all held together in 43 % of draws.
- A threshold with a promise (`Bound`): at least a given share of the private pictures is at or above it. It is the (m +
  1)-th smallest score of n private pictures, drawn at random with one probability. It breaks the promise only if m or
  fewer of them are among the 1 − recall lowest: with probability P(X ≤ m), X ~ Binomial(n, 1 − recall). m is the
  largest number for which this is at most 1 − confidence (Wilks, "Determination of sample sizes for setting tolerance
  limits", 1941). Nothing is assumed of the scores; equal ones, and drawing without replacement, make it safer.

An audit draws rows with unequal probabilities, and a picture can have several rows. So a picture is taken by its first
row alone (if any row counted, those with many copies would be taken more often), and thinned to one probability.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95

SMALL_GROUP = 20
"""A group with fewer judged images is marked: its rate says little."""

Interval = tuple[float, float]
Numbers = npt.NDArray[np.float64]
AnyNumbers = npt.NDArray[np.number]


def clopper_pearson(num: npt.ArrayLike, total: npt.ArrayLike, level: float = CONFIDENCE) -> tuple[Numbers, Numbers]:
    """Return the ends of the exact interval of the share num / total, which holds with the probability `level` or more.

    num, total: any shapes that fit each other, 0 ≤ num ≤ total; 0 to 1 without anything counted. Neither must be whole,
    so that both can be scaled to an effective size.
    Sources: Clopper and Pearson, "The use of confidence or fiducial limits", 1934; for effective sizes Korn and
    Graubard, "Confidence intervals for proportions with small expected number of positive counts", 1998.
    """
    from scipy.special import betaincinv

    hits, misses = np.broadcast_arrays(np.asarray(num, np.float64), np.subtract(total, num, dtype=np.float64))
    tail = (1 - level) / 2
    # SciPy gives NaN, not the end of the range, for a beta distribution with a parameter of 0.
    low = np.where(hits > 0, betaincinv(np.where(hits > 0, hits, 1.0), misses + 1, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, np.where(misses > 0, misses, 1.0), 1 - tail), 1.0)
    return low, high


def binomial_cdf(num: npt.ArrayLike, total: int | Numbers, share: float) -> Numbers:
    """Return P(X ≤ num), X ~ Binomial(total, share); any shapes that fit each other."""
    from scipy.special import bdtr

    return np.asarray(bdtr(np.asarray(num, np.float64), total, share), dtype=np.float64)


def kish_size(weights: npt.ArrayLike) -> float:
    """Return Kish's effective size (Σ w)² / Σ w²; 0 without weights.

    weights: shape (n,), not negative: of pictures, or the sizes of groups whose pictures all answer alike.
    """
    array = np.asarray(weights, dtype=np.float64)
    squares = float((array**2).sum())
    return float(array.sum()) ** 2 / squares if squares else 0.0


def z_of(confidence: float) -> float:
    """Return the two-sided point of the normal distribution: 1.96 for 0.95."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def wilson(num_private: float, num_judged: float) -> Interval:
    """Return Wilson's score interval of num_private / num_judged. Both may be effective, not whole; num_judged > 0."""
    share, z = num_private / num_judged, z_of(CONFIDENCE)
    centre = share + z * z / (2 * num_judged)
    width = z * (share * (1 - share) / num_judged + (z / (2 * num_judged)) ** 2) ** 0.5
    scale = 1 + z * z / num_judged
    low = 0.0 if num_private <= 0 else (centre - width) / scale
    high = 1.0 if num_private >= num_judged else (centre + width) / scale
    return max(0.0, low), min(1.0, high)


def sampled(num_private: float, num_judged: float, fraction: float = 0.0) -> Interval:
    """Return the interval of the share in the source, from a simple random sample; counts may be estimates.

    fraction: the sampled share of the source, at most 1, where there is nothing left to draw; below 0 if the sample
    says less than a simple random one.
    """
    if fraction >= 1:
        return num_private / num_judged, num_private / num_judged
    effective = 1 / (1 - fraction)
    return wilson(num_private * effective, num_judged * effective)


def with_both_errors(rate: float, interval: Interval, other: Interval) -> Interval:
    """Return the interval of a rate with two independent errors, from the interval that each of them alone would give.

    The distances of the ends add up as squares. Source: G. Zou and A. Donner, "Construction of confidence limits about
    effect measures: a general approach", Statistics in Medicine 27 (2008).
    """
    low = rate - float(np.hypot(rate - interval[0], rate - other[0]))
    high = rate + float(np.hypot(interval[1] - rate, other[1] - rate))
    return max(0.0, low), min(1.0, high)


def post_stratified(
    num_in_source: AnyNumbers, num_images: AnyNumbers, num_judged: AnyNumbers, num_private: AnyNumbers
) -> tuple[float, float, float] | None:
    """Return the rate over all images of the source, and its 95 % interval; None if a category has no judged image.

    All of shape (K,), of categories of which images were drawn at random. num_images: drawn, quarantined and unknown
    ones included. num_private: whole numbers, or estimates.

    A category counts with the images of it that could be judged, which its sample estimates. The variance of a category
    is that of its rate with one private and one other image added, so that a rate of 0 is not taken as certain.
    """
    if not len(num_judged) or not np.all(num_judged):
        return None
    judged = num_judged / num_images
    weights = num_in_source * judged
    total, smoothed = weights.sum(), (num_private + 1) / (num_judged + 2)
    rate, expected = float(weights @ (num_private / num_judged) / total), float(weights @ smoothed / total)
    unseen = 1 - np.minimum(1, num_images / num_in_source)
    of_rates = (weights / total) ** 2 * smoothed * (1 - smoothed) / num_judged
    # How many can be judged is estimated too, and moves the rate towards that of the category.
    of_judged = (num_in_source / total * (smoothed - expected)) ** 2 * judged * (1 - judged) / num_images
    variance = float(unseen @ (of_rates + of_judged))
    if variance <= 0:
        return rate, rate, rate
    effective = expected * (1 - expected) / variance  # smoothed as the variance is: a rate near 0 would leave nothing
    return rate, *wilson(rate * effective, effective)


def standings(groups: Sequence[tuple[int, int, float]]) -> list[tuple[int, int]]:
    """Return the highest and the lowest place that each group can have among all, 1 to K, in their order.

    groups: number of private and of judged images, at least 1, and the share of the group's images in the source that
    was drawn, as in `sampled`.
    """
    if not groups:
        return []
    num_private, num_judged, fraction = np.array(groups, dtype=np.float64).T
    rest, rate = np.where(fraction < 1, 1 - fraction, 1.0), num_private / num_judged
    ends = clopper_pearson(num_private / rest, num_judged / rest, CONFIDENCE ** (1 / len(groups)))
    low, high = (np.where(fraction < 1, end, rate) for end in ends)
    # Surely higher: its low end is above the other's high end. Both counts by binary search among sorted ends.
    num_higher = len(groups) - np.searchsorted(np.sort(low), high, side="right")
    num_lower = np.searchsorted(np.sort(high), low, side="left")
    counted = zip(num_higher.tolist(), num_lower.tolist(), strict=True)
    return [(1 + above, len(groups) - below) for above, below in counted]


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
    threshold is the lowest that follows if any of them are private. With k private ones it follows from the k lowest
    scores, since more private pictures below a score only lower the threshold.
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
    return [
        sha256
        for sha256, row in first_rows.items()
        if row in probabilities and lot_of(seed, *row) * probabilities[row] < least
    ]


def lot_of(seed: int, shard: str, index: int) -> float:
    """Return a number for a row, uniform in [0, 1), that follows from these alone: no one can choose a lucky one by
    leaving out labels of others. seed: of the audit sample; samples of other seeds have other numbers, so that a run is
    not unlucky in every audit."""
    return lot(f"guarantee/{seed}/{index}/{shard}")


def lot(name: str) -> float:
    """Return a number that follows from the name, uniform in [0, 1)."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
