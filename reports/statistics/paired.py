"""Two runs on the same pictures: whether one answers better, and which changes between them are more than chance.

McNemar's exact test (1947): of the pictures that only one run has right, each has half by chance. Assumes independent
pictures, and that a run answers whatever a picture shows. A run that leaves open what it does not find answers only
where it found something, and plain noise looks like a change. So:

- A run that leaves more pictures open than it denies is not compared by a test or by κ.
- Otherwise the test is made in nine ways: what each run leaves open is left out, or not found, or found, as with a
  model that refuses. p is the largest of the nine, and 1 if two of them point in opposite directions. With noise alone
  it was below 0.05 in at most 5 % of simulated runs (tests/reports/diff/test_testing.py). What both runs leave open is
  left out, so noise can still look like a change if one leaves open what it does not find and the other what it finds.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reports.statistics.binary import Flags, cells, known, rates
from reports.statistics.intervals import Draws, Interval, of_difference
from reports.statistics.shares import binomial_cdf

SIGNIFICANCE = 0.05
"""p-values below it are called significant."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class McNemar:
    """The exact two-sided test of the evaluated run against the one before."""

    num_only_after_right: int
    num_only_before_right: int
    p_value: float | None
    """Probability of a split at least as uneven if both runs were equally good; None without such a picture, where
    there is nothing to test."""


@dataclass(frozen=True)
class Difference:
    """One metric of two runs on the same pictures, and after − before: positive if the evaluated run is better."""

    after: float | None
    before: float | None
    difference: float | None
    interval: Interval | None
    """Paired 95 % interval of the difference."""


def mcnemar(after_is_right: Flags, before_is_right: Flags) -> McNemar:
    """Test whether one run is right more often. Both arguments have shape (n,) and are of the same pictures."""
    only_after = int((after_is_right & ~before_is_right).sum())
    only_before = int((~after_is_right & before_is_right).sum())
    p_value = mcnemar_p(only_after, only_before) if only_after + only_before else None
    return McNemar(only_after, only_before, p_value)


def difference(metric: str, truth: Flags, after: Flags, before: Flags, draws: Draws) -> Difference:
    """Return the difference of a metric. metric: one of `binary.METRICS`. Arrays of shape (n,) of the same pictures."""
    counted_after, counted_before = cells(truth, after), cells(truth, before)
    value_after, value_before = (rates(counted.sum(axis=0))[metric] for counted in (counted_after, counted_before))
    return Difference(
        known(value_after),
        known(value_before),
        known(value_after - value_before),
        of_difference(metric, counted_after, counted_before, draws),
    )


def interval_of_mean(num: int, mean: float, deviation: float) -> tuple[float, float]:
    """Return Student's 95 % interval with one more pair at each end: of the lowest difference, and of the highest.

    Without that pair the interval is far too short if few pairs differ. If 1 picture of 200 has another score, it holds
    the true mean in 70 of 100 samples of 400 pictures. If no pair of n differs, the ends are near ± 3 / n.
    num: independent pairs, 1 or more. mean, deviation (of the sample, n − 1): of differences in [-1, 1].
    """
    from scipy.special import stdtrit

    def reach(further: float) -> tuple[float, float]:
        """Return the mean with a further difference, and half of the width."""
        squares = (num - 1) * deviation**2 + (further - mean) ** 2 * num / (num + 1)
        half = float(stdtrit(num, 0.975)) * math.sqrt(squares / num / (num + 1))
        return mean + (further - mean) / (num + 1), half

    (low, half_low), (high, half_high) = reach(-1.0), reach(1.0)
    return max(-1.0, low - half_low), min(1.0, high + half_high)


def holm(p_values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the p-values adjusted by Holm's method, in the same order; NaN, where nothing is tested, stays so.

    If those below `SIGNIFICANCE` are called changed, the probability that any of these calls is wrong is at most 5 %.
    """
    unadjusted = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(unadjusted)[: np.count_nonzero(~np.isnan(unadjusted))]  # NaN is sorted last
    adjusted = np.full(len(unadjusted), np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(unadjusted[order] * np.arange(len(order), 0, -1)), 1.0)
    return adjusted


def seldom_denies(
    num_affirmed: npt.ArrayLike, num_denied: npt.ArrayLike, num_open: npt.ArrayLike
) -> npt.NDArray[np.bool_]:
    """Return whether a run has answers, but leaves more pictures open than it denies. All of one shape."""
    has_answers = np.add(num_affirmed, num_denied) > 0
    return np.asarray(has_answers & (np.asarray(num_open) > np.asarray(num_denied)), dtype=np.bool_)


def p_values(changes: Counts) -> npt.NDArray[np.float64]:
    """Return the p-value of each change, shape (n,); NaN where no picture changed, so that there is nothing to test.

    changes: shape (n, 6), pictures that the first run finds and the second denies, and the reverse; that the first
    finds and the second leaves open, and the reverse; that the first denies and the second leaves open, and the
    reverse.
    """
    only_a, only_b, found_by_a, found_by_b, denied_by_a, denied_by_b = changes.T
    # What B leaves open counts as left out, not found, or found; each with the same of A.
    of_b = ((0, 0), (found_by_a, 0), (0, denied_by_a))
    of_a = ((0, 0), (0, found_by_b), (denied_by_b, 0))
    ways = [(only_a + b_1 + a_1, only_b + b_2 + a_2) for b_1, b_2 in of_b for a_1, a_2 in of_a]
    largest = np.max([mcnemar_p(first, second) for first, second in ways], axis=0)
    signs = np.sign([first - second for first, second in ways])
    is_opposite = (signs.min(axis=0) < 0) & (signs.max(axis=0) > 0)
    return np.where(only_a + only_b == 0, np.nan, np.where(is_opposite, 1.0, largest))


def adjusted_p_values(changes: Counts, is_tested: npt.NDArray[np.bool_]) -> list[tuple[float | None, float | None]]:
    """Return p, and p adjusted for all tests; None where nothing is tested.

    changes: as in `p_values`. A row in which no picture changed takes no part, since its p could not be small.
    """
    unadjusted = np.where(is_tested, p_values(changes), np.nan)
    return [(known(p), known(adjusted)) for p, adjusted in zip(unadjusted, holm(unadjusted), strict=True)]


def mcnemar_p(only_first: npt.ArrayLike, only_second: npt.ArrayLike) -> Any:
    """Return the two-sided p of McNemar's exact test: an array for arrays of one shape, a number for two numbers.

    It is 2 P(X ≤ the smaller number), at most 1, with X ~ Binomial(their sum, ½); 1 without such a picture.
    """
    first, second = np.asarray(only_first), np.asarray(only_second)
    p_values = np.minimum(1.0, 2 * binomial_cdf(np.minimum(first, second), first + second, 0.5))
    return p_values if p_values.ndim else float(p_values)
