"""95 % intervals of the figures of an evaluation. All of them have a width above 0.

Shares (recall, precision, specificity, accuracy, level accuracy) have the exact interval of Clopper and Pearson. So has
F1, which follows from a share: with the share q of the true positives among the pictures that are labelled or answered
private, F1 = 2 q / (1 + q). Near duplicates count as one picture (Kish's effective size; Korn and Graubard, 1998). All
other figures have a Bayesian bootstrap with one more picture at each end (`reports.statistics.bayesian_bootstrap`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reports.statistics.bayesian_bootstrap import Draws
from reports.statistics.binary import FN, FP, TN, TP, Flags, Numbers, rates, ratio
from reports.statistics.correlation import moments, pearson_of_sums, weighted_spearman
from reports.statistics.shares import clopper_pearson

NUM_FEW = 50
"""With fewer pictures the intervals of some figures hold the true value in more than 99 of 100 simulated samples, so
they are wider than necessary (`tests/benchmarks/statistics_evaluation.py`)."""

_RIGHT_AND_WRONG = {
    "recall": ([TP], [FN]),
    "precision": ([TP], [FP]),
    "specificity": ([TN], [FP]),
    "accuracy": ([TP, TN], [FP, FN]),
    "f1": ([TP], [FP, FN]),
}
"""Metric -> cells of the pictures that count for its share, and against it. F1 follows from its share."""

_DRAWN = ("mcc", "balanced_accuracy")

_WRONG, _RIGHT = np.eye(4)[[FP, FN]], np.eye(4)[[TN, TP]]
"""Shape (2, 4): a public and a private picture, answered wrong and answered right."""

Correlation = Callable[[Numbers, Numbers, Numbers], Numbers]
"""Truth and prediction, shape (n,), and weights, shape (draws, n) -> shape (draws,)."""


@dataclass(frozen=True)
class Interval:
    """Interval that holds the true value in at least 95 of 100 samples."""

    low: float
    high: float

    is_few: bool
    """Whether fewer than `NUM_FEW` pictures are behind the figure, near duplicates counted as one."""


def of_private(counted: Numbers, draws: Draws) -> dict[str, Interval]:
    """Return the intervals of those `binary.METRICS` that are defined. counted: cells of the pictures, shape (n, 4)."""
    intervals = of_shares(counted, draws)
    private, public = _in(counted, TP, FN), _in(counted, FP, TN)
    if not draws.num_draws or not private.any() or not public.any():
        return intervals

    def drawn(sums: Numbers) -> Numbers:
        values = rates(sums[:, 0])
        return np.stack([values[name] for name in _DRAWN], axis=1)

    low, high = draws.ends_of_sums(drawn, counted[:, None], _WRONG, _RIGHT)
    values, is_few = rates(counted.sum(axis=0)), _is_few(draws, private, public)
    return intervals | {name: _holding(values[name], low[i], high[i], is_few) for i, name in enumerate(_DRAWN)}


def of_shares(counted: Numbers, draws: Draws) -> dict[str, Interval]:
    """Return the intervals of recall, precision, specificity, accuracy and F1, as far as they are defined.

    counted: cells of the pictures, shape (n, 4); all 0 for pictures that do not count.
    """
    intervals = {}
    for name, (right, wrong) in _RIGHT_AND_WRONG.items():
        is_right, is_counted = _in(counted, *right), _in(counted, *right, *wrong)
        interval = of_share(is_right[is_counted], draws.of(is_counted))
        if interval is not None:
            intervals[name] = interval
    if (share := intervals.get("f1")) is not None:
        intervals["f1"] = Interval(2 * share.low / (1 + share.low), 2 * share.high / (1 + share.high), share.is_few)
    return intervals


def of_share(is_right: Flags, draws: Draws) -> Interval | None:
    """Return the interval of the share of right pictures; None without any. is_right and `draws` are of n pictures."""
    if not len(is_right):
        return None
    low, high = clopper_pearson(draws.num_effective * is_right.mean(), draws.num_effective)
    return Interval(float(low), float(high), draws.num_effective < NUM_FEW)


def of_macro_f1(counted: Numbers, draws: Draws) -> Interval | None:
    """Return the interval of the mean F1 of the attributes that have one; None without an attribute.

    counted: shape (n, attributes, 4).
    """
    counts, behind = counted.sum(axis=0), _in(counted, TP, FP, FN)
    with_f1 = behind.any(axis=0)
    if not with_f1.any() or not draws.num_draws:
        return None

    def mean_f1(sums: Numbers) -> Numbers:
        return np.asarray(rates(sums)["f1"].mean(axis=-1), dtype=np.float64)

    ends = draws.ends_of_sums(mean_f1, counted[:, with_f1], np.eye(4)[[FN]], np.eye(4)[[TP]])
    return _holding(mean_f1(counts[with_f1]), *ends, _is_few(draws, *behind[:, with_f1].T))


def of_scores(truth: Numbers, predicted: Numbers, is_level_right: Flags, draws: Draws) -> dict[str, Interval]:
    """Return the intervals of those `severity.METRICS` that are defined. All of shape (n,), scores in [0, 1]."""
    level = of_share(is_level_right, draws)
    intervals = {} if level is None else {"level_accuracy": level}
    if level is None or not draws.num_draws:
        return intervals
    errors = predicted - truth
    for name, values, least in (("mae", np.abs(errors), 0.0), ("bias", errors, -1.0)):
        pictures = np.stack([values, np.ones(len(values))], axis=1)[:, None]
        ends = draws.ends_of_sums(_mean, pictures, np.array([[least, 1.0]]), np.array([[1.0, 1.0]]))
        intervals[name] = _holding(values.mean(), *ends, level.is_few)
    if np.ptp(truth) == 0 or np.ptp(predicted) == 0:
        return intervals
    # One more picture, ordered against the truth or like the truth, at the ends of the scores.
    (low_truth, high_truth), (low, high) = ((scores.min(), scores.max()) for scores in (truth, predicted))
    against = np.array([[low_truth, high], [high_truth, low]])
    along = np.array([[low_truth, low], [high_truth, high]])
    scores = np.stack([truth, predicted], axis=1)
    for name, metric in (("spearman", weighted_spearman), ("pearson", _weighted_pearson)):

        def correlation(more: Numbers, weights: Numbers, metric: Correlation = metric) -> Numbers:
            both = np.concatenate([scores, more])
            return metric(both[:, 0], both[:, 1], weights)

        value = metric(truth, predicted, np.ones((1, len(truth))))[0]
        intervals[name] = _holding(value, *draws.ends_of_weights(correlation, against, along), level.is_few)
    return intervals


def of_difference(metric: str, after: Numbers, before: Numbers, draws: Draws) -> Interval | None:
    """Return the interval of after − before for one of `binary.METRICS`.

    after, before: cells of the same pictures, shape (n, 4) each. None if one of the metrics is not defined, or without
    draws.
    """

    def differences(sums: Numbers) -> Numbers:
        of_both = rates(sums.reshape(-1, 2, 4))[metric]
        return np.asarray(of_both[:, 0] - of_both[:, 1], dtype=np.float64)

    both = np.concatenate([after, before], axis=1)
    (value,) = differences(both.sum(axis=0))
    if not draws.num_draws or np.isnan(value):
        return None
    # One more picture that only the run before has right, or only the run after; public or private.
    worse, better = np.concatenate([_WRONG, _RIGHT], axis=1), np.concatenate([_RIGHT, _WRONG], axis=1)
    ends = draws.ends_of_sums(differences, both[:, None], worse, better)
    return _holding(value, *ends, _is_few(draws, _in(after, TP, FN), _in(after, FP, TN)))


def _in(counted: Numbers, *chosen: int) -> Flags:
    """Return which pictures are in one of the chosen cells. Shape (…, 4) -> (…,)."""
    return np.asarray(counted[..., list(chosen)].sum(axis=-1) > 0, dtype=np.bool_)


def _mean(sums: Numbers) -> Numbers:
    return ratio(sums[:, 0, 0], sums[:, 0, 1])


def _weighted_pearson(truth: Numbers, predicted: Numbers, weights: Numbers) -> Numbers:
    return pearson_of_sums(weights @ moments(truth, predicted))


def _is_few(draws: Draws, *members: Flags) -> bool:
    """Return whether one of the sides has few pictures. members: shape (n,) each; a side without any does not count."""
    return min(draws.of(side).num_effective for side in members if side.any()) < NUM_FEW


def _holding(value: float | Numbers, low: float | Numbers, high: float | Numbers, is_few: bool) -> Interval:
    """Return the interval, extended to hold the figure itself."""
    return Interval(min(float(low), float(value)), max(float(high), float(value)), is_few)
