"""Random weights of pictures, for the intervals of figures that are not shares.

Each group of near duplicates gets one weight from the exponential distribution, where an ordinary bootstrap draws it a
whole number of times. An ordinary bootstrap of 38 pictures with one error draws no error in a third of its draws, and
its intervals of rare errors are far too narrow. Therefore each end of an interval also has one more picture: at the
lower end one that makes the figure as low as it can be, at the upper end one that makes it as high. For a share these
are the ends of the exact interval of Clopper and Pearson; for other figures the coverage was simulated
(`tests/benchmarks/statistics_evaluation.py`).

Sources: Rubin, "The Bayesian bootstrap", 1981; for means Gaffke, "Three test statistics for a nonparametric one-sided
hypothesis on the mean of a nonnegative variable", 2005, and Learned-Miller and Thomas, "A new confidence interval for
the mean of a bounded random variable", 2019.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reports.statistics.shares import kish_size

Numbers = npt.NDArray[np.float64]

LEVEL = 0.95

_CELLS_AT_ONCE = 4_000_000
"""Limit on the draws × pictures that are in memory at a time."""


@dataclass(frozen=True)
class Draws:
    """Weights of pictures. The same object always draws the same weights."""

    groups: npt.NDArray[np.int64]
    """Shape (n,): number of the group of each picture, from 0 and without gaps. Pictures of a group share a weight."""

    num_draws: int
    seed: int

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

    def ends_of_sums(
        self, metric: Callable[[Numbers], Numbers], pictures: Numbers, lowest: Numbers, highest: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Return the ends of the intervals of figures that follow from sums over pictures. Shape (…) each.

        metric: sums, shape (draws, t, k) -> figures, shape (draws, …). pictures: what each picture adds to t tables of
        k numbers, shape (n, t, k). lowest, highest: what one more picture adds to each of the tables at the lower and
        at the upper end, shape (m, k); each of m kinds of pictures gets a part of the weight of one picture.
        """
        _, num_tables, num_columns = pictures.shape
        per_group = np.zeros((len(self.sizes), num_tables * num_columns))
        np.add.at(per_group, self.groups, pictures.reshape(len(pictures), -1))
        generator = np.random.default_rng(self.seed)
        # The weights of equal rows add up to a gamma distribution, so each distinct row is drawn once. To compare a
        # random mixture of the columns is much faster than to compare rows.
        mixed = (per_group * generator.random(per_group.shape[1])).sum(axis=1)
        _, first, counts = np.unique(mixed, return_index=True, return_counts=True)
        rows = per_group[first]
        at_once = max(1, _CELLS_AT_ONCE // max(1, len(rows)))
        parts = [
            generator.standard_gamma(counts, size=(min(at_once, self.num_draws - start), len(rows))) @ rows
            for start in range(0, self.num_draws, at_once)
        ]
        sums = np.concatenate(parts).reshape(self.num_draws, num_tables, num_columns)
        low = metric(sums + self._one_more(len(lowest), num_tables) @ lowest)
        high = metric(sums + self._one_more(len(highest), num_tables) @ highest)
        return _quantiles(low, high)

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
        more_low, more_high = self._one_more(len(lowest))[:, 0], self._one_more(len(highest))[:, 0]
        for start in range(0, self.num_draws, at_once):
            part = slice(start, min(start + at_once, self.num_draws))
            weights = generator.standard_exponential((part.stop - start, len(self.sizes)))[:, self.groups]
            low.append(metric(lowest, np.concatenate([weights, more_low[part]], axis=1)))
            high.append(metric(highest, np.concatenate([weights, more_high[part]], axis=1)))
        ends = _quantiles(np.concatenate(low), np.concatenate(high))
        return float(ends[0]), float(ends[1])

    def _one_more(self, num_kinds: int, num_tables: int = 1) -> Numbers:
        """Return the weight of one independent picture, dealt to the kinds at random. Shape (draws, tables, kinds).

        If pictures come in groups, it is the weight of a group of their mean size, by pictures.
        """
        generator = np.random.default_rng([self.seed, 1])
        weights = generator.standard_gamma(1 / num_kinds, size=(self.num_draws, num_tables, num_kinds))
        return np.asarray(weights * len(self.groups) / max(1.0, self.num_effective), dtype=np.float64)


def _quantiles(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    tail = (1 - LEVEL) / 2
    return np.nanquantile(low, tail, axis=0), np.nanquantile(high, 1 - tail, axis=0)
