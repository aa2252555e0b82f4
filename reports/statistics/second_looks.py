"""Errors of the labels, by pictures that two people judged, and how these errors move the rates.

People err, and an error in a label moves a rate as an error of the engine does: 5 % wrong labels of one person turned a
rate of 10.3 % into 14.3 % (simulated). If two people judged a picture and differ, one of them is wrong. Which one is
not known, so the interval of a rate allows for as many errors in one direction as in the other. Errors that both make
alike cannot be seen.

If a label is wrong with probability e, two independent labels differ with probability 2 e (1 - e). So the share of
wrong labels is at least half of the share that differs. This holds for wrong "yes" and wrong "no" taken together, and
the rate moves most if all wrong labels are of one kind.
"""

from dataclasses import dataclass

from reports.statistics.estimates import Counts, Estimate, Numbers
from reports.statistics.shares import clopper_pearson, kish_size, with_both_errors

MIN_TWICE = 20
"""Number of pictures that two people judged; fewer say too little of the errors to widen an interval."""


@dataclass(frozen=True)
class SecondLooks:
    """Pictures with the answers of at least two people to one question."""

    num_pictures: int

    share_differing: float | None
    """Share of the pairs of answers to a picture that differ, weighted to all scored images; None without a pair."""

    kappa: float | None
    """Agreement beyond chance (Scott's π, for several people Fleiss' κ), −1…1; None if all answers are the same."""

    reach: float = 0.0
    """How far wrong labels can move the rate, up or down; 0 if too few pictures were judged twice."""

    reach_high: float = 0.0
    """The same with the upper end of the interval of the share that differs."""


NONE = SecondLooks(0, None, None)


def second_looks(num_yes: Counts, num_no: Counts, probabilities: Numbers, is_decided: Numbers) -> SecondLooks:
    """Measure how far people agree on pictures that several judged, and how far wrong labels can move the rate.

    All of shape (m,), one entry for each labelled picture. num_yes, num_no: people who say so. probabilities: that the
    picture was drawn. is_decided: whether it has an answer that the rate rests on. A wrong answer of a single person
    may not be noticed; one of several people is less likely.
    """
    num = num_yes + num_no
    is_twice = num >= 2
    if not is_twice.any():
        return NONE
    yes, no, weights = num_yes[is_twice], num_no[is_twice], 1 / probabilities[is_twice]
    differing = 2 * yes * no / (num[is_twice] * (num[is_twice] - 1))
    share = float(weights @ differing / weights.sum())
    by_chance = 2 * float(yes.sum()) * float(no.sum()) / float(num[is_twice].sum()) ** 2
    kappa = None if by_chance == 0 else 1 - float(differing.mean()) / by_chance
    num_pictures = int(is_twice.sum())
    if num_pictures < MIN_TWICE:
        return SecondLooks(num_pictures, share, kappa)
    size = kish_size(weights)
    _, high = clopper_pearson(share * size, size)
    of_all = 1 / probabilities * is_decided
    share_single = float(of_all[num == 1].sum() / max(1e-300, of_all.sum()))
    return SecondLooks(num_pictures, share, kappa, share_single * share / 2, share_single * float(high) / 2)


def allowing_for(looks: SecondLooks, rate: Estimate) -> Estimate:
    """Widen the interval of a rate by as many wrong labels as second looks make likely."""
    if rate.value is None or rate.low is None or rate.high is None or not looks.reach_high:
        return rate
    by_errors = (rate.value - (looks.reach_high - looks.reach), rate.value + (looks.reach_high - looks.reach))
    low, high = with_both_errors(rate.value, (rate.low, rate.high), by_errors)
    return Estimate(rate.value, max(0.0, low - looks.reach), min(1.0, high + looks.reach))


def allowing_for_part(looks: SecondLooks, part: Estimate, whole: float) -> Estimate:
    """Widen the interval of a sensitivity or specificity in the same way.

    whole: the share of all images that are private, or that are not, 0–1. Wrong labels may all be among the images that
    the engine seems to have wrong, or may hide as many more of these.
    """
    if part.value is None or part.low is None or part.high is None or not looks.reach_high:
        return part
    fewer = whole - looks.reach_high
    low = part.low * whole / (whole + looks.reach_high)
    high = 1.0 if fewer <= part.high * whole else part.high * whole / fewer
    return Estimate(part.value, low, max(part.high, high))
