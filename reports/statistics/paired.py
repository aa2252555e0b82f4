"""Whether one run answers better than another on the same pictures."""

from dataclasses import dataclass

from reports.statistics.bayesian_bootstrap import Draws
from reports.statistics.binary import Flags, cells, known, rates
from reports.statistics.exact import mcnemar_p
from reports.statistics.intervals import Interval, of_difference


@dataclass(frozen=True)
class McNemar:
    """The exact two-sided test."""

    num_only_after_right: int
    """Pictures that only the evaluated run has right."""

    num_only_before_right: int
    """Pictures that only the run before has right."""

    p_value: float | None
    """Probability of a split at least as uneven if both runs were equally good; None without such a picture, where
    there is nothing to test."""


@dataclass(frozen=True)
class Difference:
    """Difference of one metric: after − before, positive if the evaluated run is better."""

    after: float | None
    """Value of the evaluated run, on the pictures of both."""

    before: float | None
    """Value of the run that it is compared with, on the same pictures."""

    difference: float | None
    """after − before; None if one of them is not defined."""

    interval: Interval | None
    """Paired 95 % interval of the difference."""


def mcnemar(after_is_right: Flags, before_is_right: Flags) -> McNemar:
    """Both of shape (n,), of the same pictures."""
    only_after = int((after_is_right & ~before_is_right).sum())
    only_before = int((~after_is_right & before_is_right).sum())
    p_value = mcnemar_p(only_after, only_before) if only_after + only_before else None
    return McNemar(only_after, only_before, p_value)


def difference(metric: str, truth: Flags, after: Flags, before: Flags, draws: Draws) -> Difference:
    """metric: one of `binary.METRICS`. Arrays of shape (n,) of the same pictures."""
    of_after, of_before = cells(truth, after), cells(truth, before)
    one, other = (rates(counted.sum(axis=0))[metric] for counted in (of_after, of_before))
    return Difference(known(one), known(other), known(one - other), of_difference(metric, of_after, of_before, draws))
