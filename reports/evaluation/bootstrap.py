"""Intervals by the bootstrap over pictures: groups of near duplicates are drawn whole, since they are one picture.

Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13 (percentile interval).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.evaluation.binary import Numbers

LEVEL = 0.95
MIN_DEFINED = 0.5
"""If fewer of the draws define the metric, it has no interval."""

_CELLS_AT_ONCE = 4_000_000
"""Bounds the memory: draws × pictures that are held at a time."""


@dataclass(frozen=True)
class Interval:
    """The middle 95 % of the bootstrap draws."""

    low: float
    """The 2.5 % point."""

    high: float
    """The 97.5 % point."""


@dataclass(frozen=True)
class Resampling:
    """Draws of as many groups as there are, with replacement. The same object always makes the same draws, so that
    metrics and runs that are compared are compared on the same pictures.
    """

    groups: npt.NDArray[np.int64]
    """Shape (n,): number of the group of each picture, from 0."""

    num_draws: int
    """How often is drawn."""

    seed: int
    """Of the draws."""

    def sums(self, contributions: Numbers) -> Numbers:
        """What pictures add, shape (n, k) -> its sums in each draw, shape (draws, k)."""
        num_groups = self._num_groups()
        per_group = np.zeros((num_groups, contributions.shape[1]))
        np.add.at(per_group, self.groups, contributions)
        found = [counts @ per_group for counts in self._group_counts(num_groups, 1)]
        return np.concatenate(found) if found else np.zeros((0, contributions.shape[1]))

    def of_weights(self, metric: Callable[[Numbers], Numbers]) -> Numbers:
        """For metrics that are no function of sums: how often each picture occurs, shape (some draws, n) -> values."""
        num_groups = self._num_groups()
        counts = self._group_counts(num_groups, max(1, -(-len(self.groups) // max(1, num_groups))))
        found = [metric(some[:, self.groups]) for some in counts]
        return np.concatenate(found) if found else np.zeros(0)

    def _num_groups(self) -> int:
        return int(self.groups.max()) + 1 if len(self.groups) else 0

    def _group_counts(self, num_groups: int, cells_per_group: int) -> Iterator[Numbers]:
        """How often each group was drawn, shape (some draws, groups); the same numbers however many at once."""
        if not num_groups:
            return
        generator = np.random.default_rng(self.seed)
        at_once = max(1, _CELLS_AT_ONCE // (num_groups * cells_per_group))
        for start in range(0, self.num_draws, at_once):
            num = min(at_once, self.num_draws - start)
            drawn = generator.integers(num_groups, size=(num, num_groups))
            drawn += np.arange(num)[:, None] * num_groups
            counts = np.bincount(drawn.ravel(), minlength=num * num_groups)
            yield counts.reshape(num, num_groups).astype(np.float64)


def interval(draws: Numbers) -> Interval | None:
    """Of the draws, shape (draws,), in which the metric is defined; None if these are too few."""
    defined = draws[~np.isnan(draws)]
    if not len(defined) or len(defined) < MIN_DEFINED * len(draws):
        return None
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))
