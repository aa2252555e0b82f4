"""Whether two orders agree: Spearman's ρ and Kendall's τ, and how much one item decides about them."""

from dataclasses import dataclass

import numpy as np

from reports.statistics.binary import Numbers, known


@dataclass(frozen=True)
class RankCorrelation:
    """Two orders of the same items."""

    num_items: int

    spearman: float | None
    """ρ, −1 to 1; None with fewer than three items, or if all values of one side are equal."""

    kendall: float | None
    """τ-b, −1 to 1; None like `spearman`."""

    kendall_low: float | None
    """The lowest τ if any one of the items is left out; None with fewer than four items."""

    kendall_high: float | None
    """The highest."""


def rank_correlation(x: Numbers, y: Numbers) -> RankCorrelation:
    """x, y: shape (n,)."""
    left_out = [_kendall(np.delete(x, n), np.delete(y, n)) for n in range(len(x))] if len(x) > 3 else []
    taus = [tau for tau in left_out if tau is not None]
    return RankCorrelation(len(x), _spearman(x, y), _kendall(x, y), min(taus, default=None), max(taus, default=None))


def _spearman(x: Numbers, y: Numbers) -> float | None:
    from scipy.stats import spearmanr

    return known(float(spearmanr(x, y).statistic)) if _have_orders(x, y) else None


def _kendall(x: Numbers, y: Numbers) -> float | None:
    from scipy.stats import kendalltau

    return known(float(kendalltau(x, y).statistic)) if _have_orders(x, y) else None


def _have_orders(x: Numbers, y: Numbers) -> bool:
    return len(x) >= 3 and len(np.unique(x)) > 1 and len(np.unique(y)) > 1


def area_under_curve(positive: Numbers, negative: Numbers) -> float | None:
    """Return the share of pairs of a positive and a negative item in which the positive one has the higher value, ties
    counting half: the area under the ROC curve, 0 to 1. None if one side is empty.
    """
    from scipy.stats import rankdata

    if not len(positive) or not len(negative):
        return None
    ranks = rankdata(np.concatenate([positive, negative]))[: len(positive)].sum()
    num_above = ranks - len(positive) * (len(positive) + 1) / 2
    return float(num_above / (len(positive) * len(negative)))
