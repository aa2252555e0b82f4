"""How far two orders agree: correlations, weighted so that resamples need no second pass over the values, and the share
of pairs in order.

Pairwise accuracy: Tsaprazlis et al., "Rethinking Visual Privacy", section 6. It is over all pairs, since the paper does
not say which it chose. A pair whose truths are equal is left out; a pair whose predictions are equal is wrong.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.statistics.binary import Numbers, known, ratio


def weighted_pearson(x: Numbers, y: Numbers, weights: Numbers) -> Numbers:
    """Return Pearson's r if picture i occurs weights[d, i] times; NaN if one side is constant up to rounding.

    weights: shape (draws, n). x, y: shape (n,), or (draws, n). -> shape (draws,).
    """
    num = weights.sum(axis=1, keepdims=True)
    x, y = (side - ratio((weights * side).sum(axis=1, keepdims=True), num) for side in (x, y))
    var_x, var_y, cov = ((weights * first * second).sum(axis=1) for first, second in ((x, x), (y, y), (x, y)))
    is_constant = np.minimum(var_x, var_y) <= 1e-12 * num[:, 0]
    r = ratio(cov, np.sqrt(np.where(is_constant, 0.0, var_x) * np.where(is_constant, 0.0, var_y)))
    return np.asarray(np.clip(r, -1, 1), dtype=np.float64)


def weighted_spearman(truth: Numbers, predicted: Numbers, weights: Numbers) -> Numbers:
    """Return Spearman's ρ if picture i occurs weights[d, i] times; weights of shape (draws, n) -> shape (draws,)."""
    return weighted_pearson(_weighted_ranks(truth, weights), _weighted_ranks(predicted, weights), weights)


def _weighted_ranks(values: Numbers, weights: Numbers) -> Numbers:
    """Return the mean ranks, from 1, of values that occur as often as their weights say. Shape (draws, n)."""
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


@dataclass(frozen=True)
class PairwiseAccuracy:
    """Share of the ordered pairs that the predictions order as the truth does."""

    num_pairs: int
    """Pairs with different truths."""

    num_right: int
    accuracy: float | None
    """None without a pair."""


def pairwise_by_level(
    truth: Numbers, predicted: Numbers, levels: npt.NDArray[np.int64]
) -> tuple[PairwiseAccuracy, PairwiseAccuracy]:
    """Return the accuracy of pairs across levels, and of pairs inside one level. levels: the true ones, shape (n,)."""
    ordered, right = num_ordered(truth), num_concordant(truth, predicted)
    of_levels = [(truth[levels == level], predicted[levels == level]) for level in np.unique(levels)]
    intra_ordered = sum(num_ordered(inside) for inside, _ in of_levels)
    intra_right = sum(num_concordant(*inside) for inside in of_levels)
    return _accuracy(ordered - intra_ordered, right - intra_right), _accuracy(intra_ordered, intra_right)


def num_ordered(values: npt.NDArray[np.number]) -> int:
    """Count the pairs whose values differ."""
    _, counts = np.unique(values, return_counts=True)
    return (len(values) ** 2 - int((counts**2).sum())) // 2


def num_concordant(truth: Numbers, predicted: Numbers) -> int:
    """Count the pairs for which truth and prediction differ in the same direction."""
    from scipy.stats import kendalltau

    num_values = min(len(np.unique(truth)), len(np.unique(predicted)))
    if num_values < 2:
        return 0
    # τ-c = 2 (concordant − discordant) / n² · k / (k − 1), where k is the smaller number of different values.
    tau_c = float(kendalltau(truth, predicted, variant="c").statistic)
    difference = round(tau_c * len(truth) ** 2 * (num_values - 1) / (2 * num_values))
    num_both_differ = num_ordered(truth) + num_ordered(predicted) - num_ordered(truth + 1j * predicted)
    return (num_both_differ + difference) // 2


def _accuracy(num_pairs: int, num_right: int) -> PairwiseAccuracy:
    return PairwiseAccuracy(num_pairs, num_right, known(num_right / num_pairs) if num_pairs else None)
