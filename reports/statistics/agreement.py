"""How far annotators agree, the 95 % intervals of κ and α, and how far errors of labels move a rate.

The coefficients follow from sums over pictures (…,), or (…, K) for K answers, so that a bootstrap can weight pictures.
One is NaN where chance explains every agreement, as where all answers are the same. The bootstrap has one more judged
item at each end: at the lower end two answers that differ, at the upper end two equal ones (`intervals.py`).

`SecondLooks`: if a label is wrong with probability e, two independent labels differ with probability 2 e (1 - e), so at
least half of the share that differs is wrong, and the rate moves most if all wrong labels are of one kind. The interval
of a rate allows for as many in either direction. Assumes that people err independently: errors that both make alike
cannot be seen.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from reports.statistics.binary import known as known_number
from reports.statistics.binary import ratio
from reports.statistics.estimates import Counts, Estimate, Numbers, Rates
from reports.statistics.intervals import NUM_FEW, Draws, Interval, of_sums
from reports.statistics.shares import clopper_pearson, kish_size, with_both_errors

COEFFICIENTS = ("cohen", "fleiss", "alpha_nominal", "alpha_ordinal")
"""Cohen's κ, its mean over pairs of annotators; Fleiss' κ; Krippendorff's α, in which any difference counts the same,
or a larger one more."""

MAX_ANNOTATORS_FOR_COHEN = 5
"""Limit on the annotators for Cohen's κ, of which each pair has sums of its own; the other coefficients are for any."""


def share_of_same_pairs(counts: Numbers) -> Numbers:
    """Return the share of equal answers among the pairs of answers to each item, shape (N,). counts: how often each
    answer was given, shape (N, K), at least two in all."""
    num = counts.sum(axis=1)
    return np.asarray((counts * (counts - 1)).sum(axis=1) / (num * (num - 1)), dtype=np.float64)


def coefficients(
    answers: Numbers, pictures: npt.NDArray[np.int64], has_order: bool
) -> tuple[dict[str, float | None], dict[str, Interval]]:
    """Return `COEFFICIENTS`, None where not defined, and the intervals of the defined ones.

    answers: shape (A annotators, N items), NaN without an answer; each item has at least two. pictures: the picture of
    each item, from 0, shape (N,); a picture is weighted as a whole. has_order: False for no ordinal α.
    """
    known = np.unique(answers[~np.isnan(answers)])
    pairs = list(itertools.combinations(range(len(answers)), 2)) if len(answers) <= MAX_ANNOTATORS_FOR_COHEN else []
    kappas = [_cohen(_cohen_terms(answers[list(pair)], known).sum(axis=0), len(known)) for pair in pairs]
    pairs = [pair for pair, kappa in zip(pairs, kappas, strict=True) if not np.isnan(kappa)]
    of_items = _terms(answers, known, pairs, has_order)

    def figures(sums: Numbers) -> Numbers:
        return _of_sums(sums, len(known), len(pairs), has_order)

    values = dict(zip(COEFFICIENTS, map(known_number, figures(of_items.sum(axis=0))), strict=True))
    names = [name for name in COEFFICIENTS if values[name] is not None]
    if not names:
        return values, {}
    low, high = known[[0, -1] if has_order else np.argsort(of_items[:, 3 : 3 + len(known)].sum(axis=0))[-2:]]
    differing, equal = np.array([[low, high], [high, low]]), np.array([[low, high], [low, high]])
    lowest, highest = (_terms(two, known, [(0, 1)] * len(pairs), has_order) for two in (differing, equal))
    of_pictures = np.zeros((int(pictures.max()) + 1, of_items.shape[1]))
    np.add.at(of_pictures, pictures, of_items)
    is_wanted = [name in names for name in COEFFICIENTS]

    def wanted(sums: Numbers) -> Numbers:
        return figures(sums[:, 0])[:, is_wanted]

    draws, is_few = Draws(np.arange(len(of_pictures))), len(of_pictures) < NUM_FEW
    intervals = of_sums(wanted, of_pictures[:, None], lowest, highest, draws, is_few)
    return values, dict(zip(names, intervals, strict=True))


def _cohen_terms(answers: Numbers, known: Numbers) -> Numbers:
    """Return of two annotators: same answer, answered by both, and the answers of each of them among these."""
    both = ~np.isnan(answers).any(axis=0)
    given = [both & (of_one == k) for of_one in answers for k in known]
    return np.stack([both & (answers[0] == answers[1]), both, *given], axis=1).astype(np.float64)


def _cohen(sums: Numbers, num_known: int) -> Numbers:
    """Source: Cohen, "A coefficient of agreement for nominal scales", 1960."""
    same, both = sums[..., 0], sums[..., 1]
    first, second = sums[..., 2 : 2 + num_known], sums[..., 2 + num_known :]
    return _beyond_chance(1 - ratio(same, both), 1 - ratio((first * second).sum(axis=-1), both**2))


def _terms(answers: Numbers, known: Numbers, pairs: Sequence[tuple[int, int]], has_order: bool) -> Numbers:
    """Return what each item adds to the sums: 1, its share of same pairs, its answers times that of differing pairs,
    its answers of each kind; each pair of its answers divided by their number less one; and the terms of Cohen's κ."""
    counts = np.stack([(answers == k).sum(axis=0) for k in known], axis=1).astype(np.float64)
    same, num = share_of_same_pairs(counts), counts.sum(axis=1)
    columns = [np.ones(len(counts)), same, num * (1 - same), counts]
    if has_order:
        ordered = counts[:, :, None] * (counts[:, None, :] - np.eye(len(known))) / (num - 1)[:, None, None]
        columns.append(ordered.reshape(len(counts), -1))
    return np.column_stack(columns + [_cohen_terms(answers[list(pair)], known) for pair in pairs])


def _of_sums(sums: Numbers, num_known: int, num_pairs: int, has_order: bool) -> Numbers:
    """Return `COEFFICIENTS` from sums of `_terms`, NaN where not defined. Shape (…, columns) -> (…, 4).

    Sources: Fleiss, "Measuring nominal scale agreement among many raters", 1971; Krippendorff, "Computing
    Krippendorff's Alpha-Reliability", 2011.
    """
    num_items, same, differing, answers = sums[..., 0], sums[..., 1], sums[..., 2], sums[..., 3 : 3 + num_known]
    num, squares = answers.sum(axis=-1), (answers**2).sum(axis=-1)
    fleiss = _beyond_chance(1 - same / num_items, 1 - squares / num**2)
    nominal = _beyond_chance(differing, (num**2 - squares) / (num - 1))
    places = 3 + num_known + np.arange(num_known**2 * has_order)
    ordinal = cohen = np.full(sums.shape[:-1], np.nan)
    if has_order:
        coincidences = sums[..., places].reshape(*sums.shape[:-1], num_known, num_known)
        below = np.cumsum(answers, axis=-1) - answers / 2
        distances = (below[..., :, None] - below[..., None, :]) ** 2
        by_chance = (answers[..., :, None] * answers[..., None, :] * distances).sum(axis=(-2, -1))
        ordinal = _beyond_chance((coincidences * distances).sum(axis=(-2, -1)), by_chance / (num - 1))
    if num_pairs:
        of_pairs = sums[..., 3 + num_known + len(places) :].reshape(*sums.shape[:-1], num_pairs, -1)
        cohen = _cohen(of_pairs, num_known).mean(axis=-1)
    return np.stack([cohen, fleiss, nominal, ordinal], axis=-1)


def _beyond_chance(observed: Numbers, expected: Numbers) -> Numbers:
    """Return 1 less the observed disagreement by the one expected by chance; NaN if chance explains all agreement."""
    return np.asarray(1 - observed / np.where(np.isclose(expected, 0), np.nan, expected), dtype=np.float64)


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


def allowing_for(looks: SecondLooks, rates: Rates) -> Rates:
    """Widen intervals by as many wrong labels as second looks make likely.

    Wrong labels may all be among the images that the engine seems to have wrong, or may hide as many more of these.
    """
    rate = rates.prevalence
    if rate.value is None or rate.low is None or rate.high is None or not looks.reach_high:
        return rates
    by_errors = (rate.value - (looks.reach_high - looks.reach), rate.value + (looks.reach_high - looks.reach))
    low, high = with_both_errors(rate.value, (rate.low, rate.high), by_errors)
    return replace(
        rates,
        prevalence=Estimate(rate.value, max(0.0, low - looks.reach), min(1.0, high + looks.reach)),
        sensitivity=_allowing_for(looks, rates.sensitivity, rate.value),
        specificity=_allowing_for(looks, rates.specificity, 1 - rate.value),
    )


def _allowing_for(looks: SecondLooks, part: Estimate, whole: float) -> Estimate:
    """whole: the share of all images that are private, or that are not, 0–1."""
    if part.low is None or part.high is None:
        return part
    fewer = whole - looks.reach_high
    low = part.low * whole / (whole + looks.reach_high)
    high = 1.0 if fewer <= part.high * whole else part.high * whole / fewer
    return Estimate(part.value, low, max(part.high, high))
