"""Exact intervals and tests of shares, by the binomial distribution. SciPy is imported where it is used."""

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

LEVEL = 0.95


def clopper_pearson(num: npt.ArrayLike, total: npt.ArrayLike, level: float = LEVEL) -> tuple[Numbers, Numbers]:
    """The ends of the exact interval of the share num / total; it holds the true share with at least this probability.

    num, total: any shapes that fit each other, 0 ≤ num ≤ total. Neither must be whole, so that both can be scaled to an
    effective size. Without anything counted the interval is 0 to 1.
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
    """P(X ≤ num), X ~ Binomial(total, share); any shapes that fit each other."""
    from scipy.special import bdtr

    return np.asarray(bdtr(np.asarray(num, np.float64), total, share), dtype=np.float64)


def mcnemar_p(only_first: npt.ArrayLike, only_second: npt.ArrayLike) -> Any:
    """Two-sided p of McNemar's exact test; arrays of one shape give an array, two numbers give a number.

    Of the pictures that only one of two runs has right each side has half by chance: 2 P(X ≤ the smaller number),
    X ~ Binomial(their sum, ½), at most 1. It is 1 without such a picture, where nothing is tested.
    Source: McNemar, "Note on the sampling error of the difference between correlated proportions", 1947.
    """
    first, second = np.asarray(only_first), np.asarray(only_second)
    p_values = np.minimum(1.0, 2 * binomial_cdf(np.minimum(first, second), first + second, 0.5))
    return p_values if p_values.ndim else float(p_values)
