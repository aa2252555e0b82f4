"""95 % intervals of the figures of an evaluation. All of them have a width above 0.

Shares (recall, precision, specificity, accuracy, level accuracy) have the exact interval of Clopper and Pearson. So has
F1 = 2 q / (1 + q), by the share q of the true positives among the pictures that are labelled or answered private. Near
duplicates count as one picture (Kish's effective size; Korn and Graubard, 1998). All other figures have a Bayesian
bootstrap (Rubin, 1981): each group of near duplicates gets one weight from the exponential distribution. Each end also
has one more picture: at the lower end one that makes the figure as low as it can be, at the upper end one that makes it
as high. Without it intervals of rare errors are far too narrow: an ordinary bootstrap of 38 pictures with one error
draws no error in a third of its draws. For a share these are the ends of the exact interval (for means: Gaffke, "Three
test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable", 2005; Learned-Miller
and Thomas, 2019); for other figures the coverage was simulated (`benchmarks/statistics_evaluation.py`). Assumes that
pictures, near duplicates apart, are independent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reports.statistics.binary import FN, FP, TN, TP, Flags, Numbers, rates
from reports.statistics.correlation import weighted_pearson, weighted_spearman
from reports.statistics.shares import clopper_pearson, kish_size

_CELLS_AT_ONCE = 4_000_000
"""Limit on the draws × pictures that are in memory at a time."""


@dataclass(frozen=True)
class Draws:
    """Weights of pictures. The same object always draws the same weights."""

    groups: npt.NDArray[np.int64]
    """Shape (n,): number of the group of each picture, from 0 and without gaps. Pictures of a group share a weight."""

    num_draws: int = 1000
    seed: int = 0

    @cached_property
    def sizes(self) -> Numbers:
        """Return the number of pictures in each group. Shape (groups,)."""
        return np.bincount(self.groups).astype(np.float64)

    @cached_property
    def num_effective(self) -> float:
        """Return how many independent pictures say as much, if the pictures of a group answer alike."""
        return kish_size(self.sizes)

    def of(self, members: npt.NDArray[np.bool_]) -> "Draws":
        """Return the draws over some of the pictures only. members: shape (n,)."""
        _, groups = np.unique(self.groups[members], return_inverse=True)
        return Draws(groups.astype(np.int64), self.num_draws, self.seed)

    def ends_of_weights(
        self, metric: Callable[[Numbers, Numbers], Numbers], lowest: Numbers, highest: Numbers
    ) -> tuple[float, float]:
        """Return the ends of the interval of a figure that does not follow from sums.

        metric: takes further pictures, as `lowest` and `highest` are, and the weights of all pictures, shape (some
        draws, n + m), with the further ones last; returns figures, shape (some draws,).
        """
        generator = np.random.default_rng(self.seed)
        at_once = max(1, _CELLS_AT_ONCE // max(1, len(self.groups)))
        low, high = [], []
        more_low, more_high = self.one_more(len(lowest))[:, 0], self.one_more(len(highest))[:, 0]
        for start in range(0, self.num_draws, at_once):
            part = slice(start, min(start + at_once, self.num_draws))
            weights = generator.standard_exponential((part.stop - start, len(self.sizes)))[:, self.groups]
            low.append(metric(lowest, np.concatenate([weights, more_low[part]], axis=1)))
            high.append(metric(highest, np.concatenate([weights, more_high[part]], axis=1)))
        return float(np.nanquantile(np.concatenate(low), 0.025)), float(np.nanquantile(np.concatenate(high), 0.975))

    def one_more(self, num_kinds: int, num_tables: int = 1) -> Numbers:
        """Return the weight of one independent picture, dealt to the kinds at random. Shape (draws, tables, kinds).

        If pictures come in groups, it is the weight of a group of their mean size, by pictures.
        """
        generator = np.random.default_rng([self.seed, 1])
        weights = generator.standard_gamma(1 / num_kinds, size=(self.num_draws, num_tables, num_kinds))
        return np.asarray(weights * len(self.groups) / max(1.0, self.num_effective), dtype=np.float64)


NUM_FEW = 50
"""With fewer pictures the intervals of some figures hold the true value in more than 99 of 100 simulated samples, so
they are wider than necessary (`benchmarks/statistics_evaluation.py`)."""

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
    if not private.any() or not public.any():
        return intervals

    def drawn(sums: Numbers) -> Numbers:
        values = rates(sums[:, 0])
        return np.stack([values[name] for name in _DRAWN], axis=1)

    drawn_ = of_sums(drawn, counted[:, None], _WRONG, _RIGHT, draws, _is_few(draws, private, public))
    return intervals | dict(zip(_DRAWN, drawn_, strict=True))


def of_sums(
    figures: Callable[[Numbers], Numbers],
    pictures: Numbers,
    lowest: Numbers,
    highest: Numbers,
    draws: Draws,
    is_few: bool,
) -> list[Interval]:
    """Return the intervals of figures that follow from sums over pictures, each holding the figure itself.

    figures: sums, shape (draws, t, k) -> shape (draws, figures). pictures: what each picture adds to t tables of k
    numbers, shape (n, t, k). lowest, highest: what one more picture adds to each of the tables at the lower and at the
    upper end, shape (m, k); each of m kinds of pictures gets a part of the weight of one picture.
    """
    _, num_tables, num_columns = pictures.shape
    per_group = np.zeros((len(draws.sizes), num_tables * num_columns))
    np.add.at(per_group, draws.groups, pictures.reshape(len(pictures), -1))
    generator = np.random.default_rng(draws.seed)
    # The weights of equal rows add up to a gamma distribution, so each distinct row is drawn once. To compare a random
    # mixture of the columns is much faster than to compare rows.
    mixed = (per_group * generator.random(per_group.shape[1])).sum(axis=1)
    _, first, counts = np.unique(mixed, return_index=True, return_counts=True)
    rows = per_group[first]
    at_once = max(1, _CELLS_AT_ONCE // max(1, len(rows)))
    parts = [
        generator.standard_gamma(counts, size=(min(at_once, draws.num_draws - start), len(rows))) @ rows
        for start in range(0, draws.num_draws, at_once)
    ]
    sums = np.concatenate(parts).reshape(draws.num_draws, num_tables, num_columns)
    low = np.nanquantile(figures(sums + draws.one_more(len(lowest), num_tables) @ lowest), 0.025, axis=0)
    high = np.nanquantile(figures(sums + draws.one_more(len(highest), num_tables) @ highest), 0.975, axis=0)
    values = figures(pictures.sum(axis=0)[None])[0]
    return [_holding(*three, is_few) for three in zip(values, low, high, strict=True)]


def of_shares(counted: Numbers, draws: Draws) -> dict[str, Interval]:
    """Return the intervals of recall, precision, specificity, accuracy and F1, as far as they are defined.

    counted: cells of the pictures, shape (n, 4); all 0 for pictures that do not count.
    """
    intervals = {}
    for name, (right, wrong) in _RIGHT_AND_WRONG.items():
        is_right, is_counted = _in(counted, *right), _in(counted, *right, *wrong)
        if (interval := of_share(is_right[is_counted], draws.of(is_counted))) is not None:
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
    behind = _in(counted, TP, FP, FN)
    with_f1 = behind.any(axis=0)
    if not with_f1.any():
        return None

    def mean_f1(sums: Numbers) -> Numbers:
        return np.asarray(rates(sums)["f1"].mean(axis=-1, keepdims=True), dtype=np.float64)

    is_few = _is_few(draws, *behind[:, with_f1].T)
    return of_sums(mean_f1, counted[:, with_f1], np.eye(4)[[FN]], np.eye(4)[[TP]], draws, is_few)[0]


def of_scores(truth: Numbers, predicted: Numbers, is_level_right: Flags, draws: Draws) -> dict[str, Interval]:
    """Return the intervals of those metrics of severity that are defined. All of shape (n,), scores in [0, 1]."""
    level = of_share(is_level_right, draws)
    if level is None:
        return {}
    intervals = {"level_accuracy": level}
    errors = predicted - truth
    for name, values, least in (("mae", np.abs(errors), 0.0), ("bias", errors, -1.0)):
        pictures = np.stack([values, np.ones(len(values))], axis=1)[:, None]
        ends = np.array([[least, 1.0]]), np.array([[1.0, 1.0]])
        intervals[name] = of_sums(lambda sums: sums[..., 0] / sums[..., 1], pictures, *ends, draws, level.is_few)[0]
    if np.ptp(truth) == 0 or np.ptp(predicted) == 0:
        return intervals
    # One more picture, ordered against the truth or like the truth, at the ends of the scores.
    (low_truth, high_truth), (low, high) = ((scores.min(), scores.max()) for scores in (truth, predicted))
    against = np.array([[low_truth, high], [high_truth, low]])
    along = np.array([[low_truth, low], [high_truth, high]])
    scores = np.stack([truth, predicted], axis=1)
    for name, metric in (("spearman", weighted_spearman), ("pearson", weighted_pearson)):

        def correlation(more: Numbers, weights: Numbers, metric: Correlation = metric) -> Numbers:
            both = np.concatenate([scores, more])
            return metric(both[:, 0], both[:, 1], weights)

        value = metric(truth, predicted, np.ones((1, len(truth))))[0]
        intervals[name] = _holding(value, *draws.ends_of_weights(correlation, against, along), level.is_few)
    return intervals


def of_difference(metric: str, after: Numbers, before: Numbers, draws: Draws) -> Interval | None:
    """Return the interval of after − before for one of `binary.METRICS`.

    after, before: cells of the same pictures, shape (n, 4) each. None if one of the metrics is not defined.
    """

    def differences(sums: Numbers) -> Numbers:
        of_both = rates(sums.reshape(-1, 2, 4))[metric]
        return np.asarray(of_both[:, :1] - of_both[:, 1:], dtype=np.float64)

    both = np.concatenate([after, before], axis=1)
    if np.isnan(differences(both.sum(axis=0))).any():
        return None
    # One more picture that only the run before has right, or only the run after; public or private.
    worse, better = np.concatenate([_WRONG, _RIGHT], axis=1), np.concatenate([_RIGHT, _WRONG], axis=1)
    is_few = _is_few(draws, _in(after, TP, FN), _in(after, FP, TN))
    return of_sums(differences, both[:, None], worse, better, draws, is_few)[0]


def _in(counted: Numbers, *chosen: int) -> Flags:
    """Return which pictures are in one of the chosen cells. Shape (…, 4) -> (…,)."""
    return np.asarray(counted[..., list(chosen)].sum(axis=-1) > 0, dtype=np.bool_)


def _is_few(draws: Draws, *members: Flags) -> bool:
    """Return whether one of the sides has few pictures. members: shape (n,) each; a side without any does not count."""
    return min(draws.of(side).num_effective for side in members if side.any()) < NUM_FEW


def _holding(value: float | Numbers, low: float | Numbers, high: float | Numbers, is_few: bool) -> Interval:
    """Return the interval, extended to hold the figure itself."""
    return Interval(min(float(low), float(value)), max(float(high), float(value)), is_few)
