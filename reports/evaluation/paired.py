"""Whether one run answers better than another on the same pictures.

Source of the test: McNemar, "Note on the sampling error of the difference between correlated proportions", 1947, in its
exact form: of the pictures that one run has right and the other wrong, each side has half by chance.
"""

import math
from dataclasses import dataclass

import numpy as np

from reports.evaluation.binary import Flags, Numbers, cells, known, rates
from reports.evaluation.bootstrap import Interval, Resampling, interval


@dataclass(frozen=True)
class McNemar:
    """The exact two-sided test."""

    num_only_first_right: int
    """Pictures that only the first run has right."""

    num_only_second_right: int
    """Pictures that only the second run has right."""

    p_value: float
    """Probability of a split at least as uneven if both runs were equally good; 1 without a difference."""


@dataclass(frozen=True)
class Difference:
    """Of one metric: second run − first run."""

    first: float | None
    """Of the first run, on the pictures of both."""

    second: float | None
    """Of the second run, on the same pictures."""

    difference: float | None
    """second − first; None if one of them is not defined."""

    interval: Interval | None
    """Paired bootstrap interval of the difference."""


def mcnemar(first_is_right: Flags, second_is_right: Flags) -> McNemar:
    """Both of shape (n,), of the same pictures."""
    only_first = int((first_is_right & ~second_is_right).sum())
    only_second = int((~first_is_right & second_is_right).sum())
    return McNemar(only_first, only_second, mcnemar_p(only_first, only_second))


def mcnemar_p(one: int, other: int) -> float:
    """2 P(X ≤ min) for X ~ Binomial(one + other, ½), at most 1; summed from the largest term, whose logarithm fits."""
    n, least = one + other, min(one, other)
    if one == other:
        return 1.0
    term = math.exp(math.lgamma(n + 1) - math.lgamma(least + 1) - math.lgamma(n - least + 1) - n * math.log(2))
    total = 0.0
    for k in range(least, -1, -1):
        total += term
        if term < total * 1e-17:
            break
        term *= k / (n - k + 1)
    return min(1.0, 2 * total)


def difference(
    metric: str, truth: Flags, first: Flags, second: Flags, resampling: Resampling | None = None
) -> Difference:
    """metric: one of `binary.METRICS`. Arrays of shape (n,) of the same pictures."""
    both = np.concatenate([cells(truth, first), cells(truth, second)], axis=1)

    def of_sums(sums: Numbers) -> tuple[Numbers, Numbers]:
        return rates(sums[..., :4])[metric], rates(sums[..., 4:])[metric]

    one, other = of_sums(both.sum(axis=0))
    drawn = None
    if resampling is not None:
        ones, others = of_sums(resampling.sums(both))
        drawn = interval(others - ones)
    return Difference(known(one), known(other), known(other - one), drawn)
