"""Which groups are higher than which, with joint 95 % confidence over all of them.

Each of K groups gets a Wilson interval of confidence 0.95 ** (1 / K), so that all K hold together in 95 of 100 corpora
(Šidák). Where two of them do not overlap, the order of the groups is sure; a rank can be anything that this order
allows. Source of the construction: Klein, Wright and Wieczorek, "A joint confidence region for an overall ranking of
populations", Journal of the Royal Statistical Society C 69 (2020). It takes no assumption beyond the intervals, and is
wider than methods for normally distributed means.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.report.intervals import CONFIDENCE, sampled, z_of


@dataclass(frozen=True)
class Counted:
    """One group."""

    num_private: int
    num_judged: int
    """At least 1."""

    fraction: float = 0.0
    """The share of the group's images in the source that was drawn, 0–1."""


@dataclass(frozen=True)
class Standing:
    """One group among all."""

    rank_low: int
    """The highest place that it can have, 1 to K."""

    rank_high: int
    """The lowest."""

    tier: int
    """From 1 for the highest; groups of a tier cannot be told apart from its first one."""


def standings(groups: Sequence[Counted]) -> list[Standing]:
    """Of groups in the order in which they are shown, the highest first; as long as `groups`."""
    if not groups:
        return []
    z = z_of(CONFIDENCE ** (1 / len(groups)))
    ends = np.array([sampled(one.num_private, one.num_judged, min(one.fraction, 1.0), z) for one in groups])
    low, high = ends[:, 0], ends[:, 1]
    # Surely higher: its low end lies above the other's high end. Both counts by binary search among sorted ends.
    num_higher = len(groups) - np.searchsorted(np.sort(low), high, side="right")
    num_lower = np.searchsorted(np.sort(high), low, side="left")
    found = []
    tier, first = 1, 0
    for place in range(len(groups)):
        if high[place] < low[first]:
            tier, first = tier + 1, place
        found.append(Standing(1 + int(num_higher[place]), len(groups) - int(num_lower[place]), tier))
    return found
