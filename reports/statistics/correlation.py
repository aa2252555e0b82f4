"""Pearson's and Spearman's correlation with weights, so that resamples need no second pass over the values."""

import numpy as np

from reports.statistics.binary import Numbers, ratio


def moments(x: Numbers, y: Numbers) -> Numbers:
    """Shape (n, 6): what sums to the moments that a correlation needs. Both are centred first, against rounding."""
    if len(x):
        x, y = x - x.mean(), y - y.mean()
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def pearson_of_sums(sums: Numbers) -> Numbers:
    """Sums of `moments`, shape (…, 6) -> Pearson's r, shape (…,); NaN if one side is constant."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    return correlation(n * xx - x * x, n * yy - y * y, n * xy - x * y, n * n)


def correlation(var_x: Numbers, var_y: Numbers, cov: Numbers, scale: Numbers) -> Numbers:
    """cov / √(var_x var_y); NaN if a variance is 0 but for rounding. scale: n² of sums that are not divided by n."""
    tiny = 1e-12 * scale
    constant = (var_x <= tiny) | (var_y <= tiny)
    r = ratio(cov, np.sqrt(np.where(constant, 0.0, var_x) * np.where(constant, 0.0, var_y)))
    return np.asarray(np.clip(r, -1, 1), dtype=np.float64)


def weighted_spearman(truth: Numbers, predicted: Numbers, weights: Numbers) -> Numbers:
    """Spearman's ρ if picture i occurs weights[d, i] times; weights of shape (draws, n) -> shape (draws,)."""
    x, y = _weighted_ranks(truth, weights), _weighted_ranks(predicted, weights)
    n = weights.sum(axis=1)
    middle = ((n + 1) / 2)[:, None]  # the mean rank, ties or not
    x, y = x - middle, y - middle
    sums = ((weights * x * x).sum(axis=1), (weights * y * y).sum(axis=1), (weights * x * y).sum(axis=1))
    return correlation(*sums, scale=n)


def _weighted_ranks(values: Numbers, weights: Numbers) -> Numbers:
    """Mean ranks from 1, shape (draws, n), of values that occur so often."""
    if not len(values):
        return np.zeros_like(weights)
    order = np.argsort(values, kind="stable")
    sorted_values = values[order]
    is_first = np.r_[True, sorted_values[1:] != sorted_values[:-1]]
    of_ties = np.add.reduceat(weights[:, order], np.flatnonzero(is_first), axis=1)
    ranks_of_ties = of_ties.cumsum(axis=1) - (of_ties - 1) / 2
    ranks = np.empty_like(weights)
    ranks[:, order] = ranks_of_ties[:, np.cumsum(is_first) - 1]
    return ranks
