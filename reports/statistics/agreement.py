"""How far annotators agree, the 95 % intervals of κ and α, and how far errors of labels move a rate.

The coefficients are computed from sums over pictures, so that a bootstrap can weight the pictures. Sums have any shape
(…,), or (…, K) with one sum for each of K answers. A coefficient is NaN where it is not defined, as where all answers
are the same: chance then explains every agreement.

The intervals are a bootstrap over pictures with one more judged item at each end: at the lower end it has two answers
that differ, at the upper end two that are the same. See `reports.statistics.intervals`; the coverage is
simulated in `benchmarks/statistics_evaluation.py`.

People err, and an error in a label moves a rate as an error of the engine does: 5 % wrong labels of one person turned a
rate of 10.3 % into 14.3 % (simulated). If two people judged a picture and differ (`SecondLooks`), one of them is wrong.
Which one is not known, so the interval of a rate allows for as many errors in one direction as in the other. Errors
that both make alike cannot be seen. If a label is wrong with probability e, two independent labels differ with
probability 2 e (1 - e). So the share of wrong labels is at least half of the share that differs. This holds for wrong
"yes" and wrong "no" taken together, and the rate moves most if all wrong labels are of one kind.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.statistics.estimates import Counts, Estimate, Numbers
from reports.statistics.intervals import NUM_FEW, Draws, Interval
from reports.statistics.shares import clopper_pearson, kish_size, with_both_errors

NUM_DRAWS = 1000
SEED = 0


def share_of_same_pairs(counts: Numbers) -> Numbers:
    """Return the share of equal answers among the pairs of answers to each item. Shape (N,).

    counts: shape (N, K), how often each answer was given, at least two in all.
    """
    num = counts.sum(axis=1)
    return np.asarray((counts * (counts - 1)).sum(axis=1) / (num * (num - 1)), dtype=np.float64)


def cohen(same: Numbers, both: Numbers, first: Numbers, second: Numbers) -> Numbers:
    """Return κ of two annotators.

    both: pictures that both judged. same: those of them with the same answer. first, second: how often each annotator
    gave each answer in them.
    Source: Cohen, "A coefficient of agreement for nominal scales", 1960.
    """
    expected = (first * second).sum(axis=-1) / both**2
    return _above_chance(same / both, expected)


def fleiss(same_pairs: Numbers, pictures: Numbers, answers: Numbers) -> Numbers:
    """Return κ of several annotators.

    same_pairs: for each picture the share of its pairs of answers that are the same, summed over pictures.
    Source: Fleiss, "Measuring nominal scale agreement among many raters", 1971.
    """
    shares = answers / answers.sum(axis=-1, keepdims=True)
    return _above_chance(same_pairs / pictures, (shares**2).sum(axis=-1))


def nominal_alpha(different_pairs: Numbers, answers: Numbers) -> Numbers:
    """Return Krippendorff's α, in which any difference counts the same.

    different_pairs: for each picture the number of its answers times the share of its pairs that differ, summed over
    pictures.
    Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011.
    """
    num = answers.sum(axis=-1)
    return _below_chance(different_pairs, (num**2 - (answers**2).sum(axis=-1)) / (num - 1))


def ordinal_alpha(coincidences: Numbers) -> Numbers:
    """Return Krippendorff's α, in which a larger difference counts more.

    coincidences: shape (…, K, K), pairs of answers to the same picture, each divided by the number of the picture's
    answers less one; answers in their order.
    """
    answers = coincidences.sum(axis=-1)
    below = np.cumsum(answers, axis=-1) - answers / 2
    distances = (below[..., :, None] - below[..., None, :]) ** 2
    by_chance = (answers[..., :, None] * answers[..., None, :] * distances).sum(axis=(-2, -1))
    return _below_chance((coincidences * distances).sum(axis=(-2, -1)), by_chance / (answers.sum(axis=-1) - 1))


def _above_chance(observed: Numbers, expected: Numbers) -> Numbers:
    room = np.where(np.isclose(expected, 1), np.nan, 1 - expected)
    return np.asarray((observed - expected) / room, dtype=np.float64)


def _below_chance(observed: Numbers, expected: Numbers) -> Numbers:
    return np.asarray(1 - observed / np.where(expected == 0, np.nan, expected), dtype=np.float64)


@dataclass(frozen=True)
class _Judged:
    """Items and what each annotator answered."""

    answers: Numbers
    """Shape (A, items), NaN without an answer; each item has at least two."""

    known: Numbers
    """Shape (K,): the distinct answers, ascending."""

    pairs: Sequence[tuple[int, int]]
    """Pairs of annotators, whose mean κ is Cohen's."""

    @property
    def counts(self) -> Numbers:
        """Return how many annotators gave each answer. Shape (items, K)."""
        return np.stack([(self.answers == k).sum(axis=0) for k in self.known], axis=1).astype(np.float64)


def intervals_of(
    answers: Numbers,
    known: Numbers,
    pictures: npt.NDArray[np.int64],
    pairs: Sequence[tuple[int, int]],
    values: Mapping[str, float],
) -> dict[str, Interval]:
    """Return the intervals of the coefficients in `values`: cohen, fleiss, alpha_nominal, alpha_ordinal.

    answers, known, pairs: as in `_Judged`. pictures: the picture of each item, from 0; a picture is weighted as a
    whole.
    """
    if not values:
        return {}
    judged = _Judged(answers, known, pairs)
    ends = [0, -1] if "alpha_ordinal" in values else np.argsort(judged.counts.sum(axis=0))[-2:].tolist()
    low, high = known[ends]
    both_ways, two = np.array([[low, high], [high, low]]), [(0, 1)] * len(pairs)
    differing, equal = _Judged(both_ways, known, two), _Judged(np.array([[low, high], [low, high]]), known, two)
    columns = [[_COLUMNS[name](item) for name in values] for item in (judged, differing, equal)]
    places = np.cumsum([0] + [column.shape[1] for column in columns[0]])
    of_items, lowest, highest = (np.concatenate(column, axis=1) for column in columns)
    of_pictures = np.zeros((int(pictures.max()) + 1, of_items.shape[1]))
    np.add.at(of_pictures, pictures, of_items)

    def drawn(sums: Numbers) -> Numbers:
        parts = (sums[:, 0, start:end] for start, end in itertools.pairwise(places))
        return np.stack([_VALUES[name](part, len(known)) for name, part in zip(values, parts, strict=True)], axis=1)

    draws = Draws(np.arange(len(of_pictures)), NUM_DRAWS, SEED)
    ends = draws.ends_of_sums(drawn, of_pictures[:, None], lowest, highest)
    return {
        name: Interval(min(float(start), value), max(float(end), value), len(of_pictures) < NUM_FEW)
        for (name, value), start, end in zip(values.items(), *ends, strict=True)
    }


def _fleiss_columns(judged: _Judged) -> Numbers:
    return np.column_stack([share_of_same_pairs(judged.counts), np.ones(judged.answers.shape[1]), judged.counts])


def _nominal_columns(judged: _Judged) -> Numbers:
    return np.column_stack([judged.counts.sum(axis=1) * (1 - share_of_same_pairs(judged.counts)), judged.counts])


def _ordinal_columns(judged: _Judged) -> Numbers:
    counts, others = judged.counts, judged.counts.sum(axis=1) - 1
    coincidences = counts[:, :, None] * (counts[:, None, :] - np.eye(len(judged.known))) / others[:, None, None]
    return np.asarray(coincidences.reshape(len(counts), -1), dtype=np.float64)


def _cohen_columns(judged: _Judged) -> Numbers:
    """Return the sums of each pair: same answer, answered by both, and the answers of each annotator among these."""
    columns = []
    for first, second in ((judged.answers[a], judged.answers[b]) for a, b in judged.pairs):
        both = ~np.isnan(first) & ~np.isnan(second)
        columns += [both & (first == second), both]
        columns += [both & (answers == k) for answers in (first, second) for k in judged.known]
    return np.stack(columns, axis=1).astype(np.float64)


def _mean_cohen(sums: Numbers, num_known: int) -> Numbers:
    of_pairs = sums.reshape(len(sums), -1, 2 + 2 * num_known)
    same, both, given = of_pairs[..., 0], of_pairs[..., 1], of_pairs[..., 2:]
    kappas = cohen(same, both, given[..., :num_known], given[..., num_known:])
    return np.asarray(kappas.mean(axis=-1), dtype=np.float64)


_COLUMNS: Mapping[str, Callable[[_Judged], Numbers]] = {
    "cohen": _cohen_columns,
    "fleiss": _fleiss_columns,
    "alpha_nominal": _nominal_columns,
    "alpha_ordinal": _ordinal_columns,
}
"""Coefficient -> the terms of its sums, shape (items, columns)."""

_VALUES: Mapping[str, Callable[[Numbers, int], Numbers]] = {
    "cohen": _mean_cohen,
    "fleiss": lambda sums, _: fleiss(sums[:, 0], sums[:, 1], sums[:, 2:]),
    "alpha_nominal": lambda sums, _: nominal_alpha(sums[:, 0], sums[:, 1:]),
    "alpha_ordinal": lambda sums, num_known: ordinal_alpha(sums.reshape(len(sums), num_known, num_known)),
}
"""Coefficient -> its value from the sums, shape (draws, columns), and the number of distinct answers."""


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
    if part.low is None or part.high is None or not looks.reach_high:
        return part
    fewer = whole - looks.reach_high
    low = part.low * whole / (whole + looks.reach_high)
    high = 1.0 if fewer <= part.high * whole else part.high * whole / fewer
    return Estimate(part.value, low, max(part.high, high))
