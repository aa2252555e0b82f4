"""Rates of categories: from the labels of a category itself if it has enough, else with those of the whole sample.

- With `MIN_DIRECT` labels, or one for each image, the difference estimator inside the category, which assumes nothing.
- With fewer, prior shift, which takes from the whole sample how the engine errs. That holds if the engine errs alike in
  every category. The category's own labels count as far as they are sure: each of the two estimates is weighted by the
  variance of the other. The error of prior shift is estimated from all categories with labels of their own.

Prior shift assumes that the images with the subject have the same distribution over the cells in every category, and so
have the images without it. Then a category's counts over the cells are a mixture of two known distributions, and its
rate is the most likely share of the first. EM, as in the source, gives the same result; the likelihood has one maximum,
which is found by halving here. `shift_test` tests the assumption.

Then the rates are moved so that they add up to the rate of the run; less sure rates move more.

Sources: J. N. K. Rao and I. Molina, "Small Area Estimation", 2nd ed. 2015, section 3.3 (composite estimators), 3.2.5
(the mean squared error of a synthetic estimator) and 6.4.6 (benchmarking); Saerens, Latinne and Decaestecker,
"Adjusting the Outputs of a Classifier to New a Priori Probabilities", 2002 (prior shift).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from reports.statistics.estimates import Counts, Estimate, Evidence, Flags, Numbers, evidence, prevalence

MIN_OF_EACH_KIND = 5
"""Number of labelled pictures with the subject, and without it, below which categories have no rate of their own."""

MIN_DISTANCE = 0.02
"""Total variation between the two distributions below which the answers cannot separate them."""

NUM_SHIFT_DRAWS = 200
_NUM_HALVINGS = 30

MIN_PER_CATEGORY = 5
"""Number of labelled pictures of one kind with which a category takes part in the test."""

NUM_PERMUTATIONS = 999

MIN_DIRECT = 30
"""Number of labels with which a category needs no assumption."""

MIN_MIXED = 5
"""Number of labels that a category needs for its own estimate to count at all."""

Z = 1.959963984540054
NUM_DRAWS = 1_000
MAX_ROUNDS = 20
_LEAST_VARIANCE = 1e-12

Method = Literal["difference", "composite", "prior shift"]


@dataclass(frozen=True)
class ShiftTest:
    """Whether the engine answers alike in every category, given the truth: the assumption of prior shift."""

    num_categories: int
    """Categories that have enough labels."""

    p_value: float | None
    """P-value of a permutation test; None if fewer than two categories have enough labels."""

    p_corrected: float | None = None
    """The same times the number of subjects that were tested (Bonferroni), at most 1. The audit uses this one."""


def can_tell(evidence: Evidence, num_with: int, num_without: int) -> bool:
    """Return whether there are enough labels, and the answers differ between images with and without the subject."""
    if min(num_with, num_without) < MIN_OF_EACH_KIND:
        return False
    with_, without = _distributions(evidence.shares, evidence.smoothed_rates[None])
    return float(np.abs(with_ - without).sum()) / 2 >= MIN_DISTANCE


def by_prior_shift(evidence: Evidence, num_images: Counts, random: np.random.Generator) -> list[Estimate]:
    """Return the rate of each category.

    num_images: in each cell, shape (K, NUM_CELLS), with at least one in each category.
    """
    used = evidence.shares > 0
    counts, shares = num_images[:, used].astype(np.float64), evidence.shares[used]
    value = mixture_shares(counts[None], *_distributions(shares, evidence.smoothed_rates[None, used]))[0]
    # The cells of a category's few images are chance too. They get Dirichlet draws with one more image, spread as in
    # the run, so that a category of two images does not seem certain. Only the proportions matter.
    again = random.standard_gamma(counts + shares, size=(NUM_SHIFT_DRAWS, *counts.shape))
    drawn = mixture_shares(again, *_distributions(shares, evidence.chances(random, num_draws=NUM_SHIFT_DRAWS)[:, used]))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="weibull")
    return [Estimate(float(v), float(min(v, a)), float(max(v, b))) for v, a, b in zip(value, low, high, strict=True)]


def mixture_shares(counts: Numbers, with_: Numbers, without: Numbers) -> Numbers:
    """Return the most likely share q of q·with + (1 − q)·without, 0–1. Shape (R, K).

    counts: shape (R, K, C). with_, without: distributions over the C cells, shape (R, C), above 0.
    """
    # The log-likelihood is concave in q, so its slope says on which side of the middle the maximum is.
    low, high = np.zeros(counts.shape[:2]), np.ones(counts.shape[:2])
    difference = (with_ - without)[:, None]
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        mixture = without[:, None] + middle[:, :, None] * difference
        is_rising = (counts * difference / mixture).sum(axis=2) > 0
        low, high = np.where(is_rising, middle, low), np.where(is_rising, high, middle)
    # The most likely share can be an end, which halving only comes near to.
    return np.where(low == 0, 0.0, np.where(high == 1, 1.0, (low + high) / 2))


def _distributions(shares: Numbers, rates: Numbers) -> tuple[Numbers, Numbers]:
    """Return the distributions over the cells, of the images with the subject and of those without.

    rates: shape (R, C), as the results.
    """
    with_, without = shares * rates, shares * (1 - rates)
    return with_ / with_.sum(axis=1, keepdims=True), without / without.sum(axis=1, keepdims=True)


def shift_test(
    is_there: Flags,
    is_yes: Flags,
    probabilities: Numbers,
    categories: Counts,
    seed: int,
    num_permutations: int = NUM_PERMUTATIONS,
) -> ShiftTest:
    """Test whether answers depend on the category, among pictures with the subject and among those without, added up.

    Arrays have one entry for each labelled picture. probabilities: that it was drawn, above 0. They depend on the
    answers about all subjects, which may be rarer in one category than in another. So the drawn pictures of two
    categories can differ though the engine errs alike in both. Hence each label counts as 1 / its probability, as in
    the rates. If yes is drawn more densely than no in all categories, that is no difference between them. So weights
    are divided by their mean among the same answers, and few rare answers of great weight do not hide all others.

    The distribution is found by shuffling the categories, since the counts are small. Weights may be larger in one
    category than in another, so the statistic divides by each category's own variance. Such a test keeps its level in
    large samples (E. Chung and J. Romano, "Exact and asymptotically robust permutation tests", 2013). In small ones it
    raises too many alarms if pictures with one answer were drawn many times more densely in one category than in
    another, far more so than an audit draws them (docs/audit.md has measured figures).
    """
    parts = []
    for truth in (True, False):
        members = is_there == truth
        names, numbers, counts = np.unique(categories[members], return_inverse=True, return_counts=True)
        # A category with few pictures of this kind has no share of yes that could be compared.
        kept = counts[numbers] >= MIN_PER_CATEGORY
        answers, weights = is_yes[members][kept], 1 / probabilities[members][kept]
        for kind in (answers, ~answers):
            weights[kind] /= weights[kind].mean() if kind.any() else 1
        if len(names[counts >= MIN_PER_CATEGORY]) >= 2 and answers.any() and not answers.all():
            parts.append((answers, weights, np.unique(numbers[kept], return_inverse=True)[1]))
    if not parts:
        return ShiftTest(0, None)
    random = np.random.default_rng(seed)
    observed, shuffled = 0.0, np.zeros(num_permutations)
    for answers, weights, groups in parts:
        orders = random.permuted(np.tile(np.arange(len(answers)), (num_permutations, 1)), axis=1)
        statistics = _heterogeneity(answers, weights, groups, np.vstack([np.arange(len(answers)), orders]))
        observed, shuffled = observed + float(statistics[0]), shuffled + statistics[1:]
    # Rounding must not make an equal statistic a smaller one.
    num_as_large = int((shuffled >= observed - 1e-9).sum())
    p_value = (1 + num_as_large) / (1 + num_permutations)
    return ShiftTest(max(int(groups.max()) + 1 for *_, groups in parts), p_value)


def _heterogeneity(answers: Flags, weights: Numbers, groups: Counts, orders: Counts) -> Numbers:
    """Return how far the weighted share of yes differs between categories. Shape (R,).

    It is the sum of the squared distances from their common mean, each divided by its variance. groups: number of each
    picture's category, from 0, shape (m,). orders: of the pictures, shape (R, m).
    """
    is_in = np.eye(int(groups.max()) + 1)[groups]
    share = float(weights @ answers) / float(weights.sum())
    with_, sizes = (weights * answers)[orders] @ is_in, weights[orders] @ is_in
    distances = with_ / sizes - share
    # The variance if the share is that of all categories: by its own, a category without a yes would have almost none.
    variances = np.zeros_like(sizes)
    for kind, sums, factor in ((answers, with_, 1 - share), (~answers, sizes - with_, share)):
        own = weights * kind
        usual = float(own @ own) / float(own.sum())
        # How much an answer of this kind weighs in the category: by its labels, and one more of the usual weight.
        means = ((own**2)[orders] @ is_in + usual**2) / (sums + usual)
        variances += share * (1 - share) * factor * means / sizes
    # Weighted by 1 / variance, the common mean makes the sum of squared distances smallest.
    common = (distances / variances).sum(axis=1, keepdims=True) / (1 / variances).sum(axis=1, keepdims=True)
    return np.asarray(((distances - common) ** 2 / variances).sum(axis=1), dtype=np.float64)


@dataclass(frozen=True)
class LabelsOfCategories:
    """Labels of one subject. All of shape (m,), one entry for each label."""

    categories: Counts
    """Number of the category, from 0."""

    cells: Counts
    is_there: Numbers
    probabilities: Numbers


@dataclass(frozen=True)
class CategoryEstimate:
    """The rate of one category."""

    rate: Estimate
    method: Method
    num_labels: int
    """Number of labels of the category itself."""


def category_estimates(
    whole: Evidence,
    rate: float,
    num_images: Counts,
    labels: LabelsOfCategories,
    shares: Numbers,
    can_shift: bool,
    random: np.random.Generator,
) -> list[CategoryEstimate | None]:
    """Return the estimate of each of K categories; None if it has too few labels and prior shift cannot be used.

    whole, rate: of the run. num_images: of each category in each cell, shape (K, NUM_CELLS). shares: of each category
    among the images that the rate is of, shape (K,). can_shift: `can_tell`.
    """
    num_labels = np.bincount(labels.categories, minlength=len(num_images))
    own = [_own(index, num_images, labels, num_labels, random) for index in range(len(num_images))]
    shifted = by_prior_shift(whole, num_images, random) if can_shift else [Estimate()] * len(own)
    has_enough = (num_labels >= MIN_DIRECT) | (num_labels == num_images.sum(axis=1))
    weights, bias = _weights(own, shifted, has_enough)
    estimates = [
        _mixed(direct, other, weight, bias)
        for direct, other, weight in zip(own, shifted, weights.tolist(), strict=True)
    ]
    if all(estimate.value is not None for estimate in estimates):
        estimates = added_up(estimates, shares, rate)
    return [
        None if estimate.value is None else CategoryEstimate(estimate, _method(weight), num)
        for estimate, weight, num in zip(estimates, weights.tolist(), num_labels.tolist(), strict=True)
    ]


def _own(
    index: int, num_images: Counts, labels: LabelsOfCategories, num_labels: Counts, random: np.random.Generator
) -> Estimate:
    """Estimate the rate of a category by its own labels alone."""
    is_in = labels.categories == index
    if num_labels[index] == num_images[index].sum():
        rate = float(labels.is_there[is_in].mean())
        return Estimate(rate, rate, rate)
    if num_labels[index] < MIN_MIXED:
        return Estimate()
    of_category = evidence(num_images[index], labels.cells[is_in], labels.is_there[is_in], labels.probabilities[is_in])
    return prevalence(of_category, random, NUM_DRAWS)


def _weights(own: Sequence[Estimate], shifted: Sequence[Estimate], has_enough: Flags) -> tuple[Numbers, float]:
    """Return the weight of each category's own estimate, 0–1, shape (K,), and the error of prior shift.

    The error is the root of the mean squared bias.
    """
    own_values, own_variances = _values(own), _variances(own)
    values, variances = _values(shifted), _variances(shifted)
    both = ~np.isnan(own_values) & ~np.isnan(values)
    squared_bias = 0.0
    if both.sum() >= 2:
        variance = (own_variances + variances)[both]
        excess = (own_values - values)[both] ** 2 - variance
        squared_bias = max(0.0, float((excess / variance).sum() / (1 / variance).sum()))
    of_shifted = variances + squared_bias
    mixed = of_shifted / (of_shifted + own_variances)
    weights = np.where(np.isnan(own_values), 0.0, np.where(np.isnan(values), 0.0, mixed))
    return np.where(has_enough, 1.0, weights), squared_bias**0.5


def _mixed(own: Estimate, shifted: Estimate, weight: float, bias: float) -> Estimate:
    if weight >= 1 or weight <= 0:
        return own if weight >= 1 else shifted
    (direct, *direct_ends), (synthetic, *synthetic_ends) = _ends(own), _ends(shifted)
    value = weight * direct + (1 - weight) * synthetic
    # Each end adds up the distances of both estimates as squares; that of the synthetic one has its bias in it too.
    low, high = (
        float(np.hypot(weight * (direct - end), (1 - weight) * np.hypot(synthetic - other_end, Z * bias)))
        for end, other_end in zip(direct_ends, synthetic_ends, strict=True)
    )
    return Estimate(value, max(0.0, value - low), min(1.0, value + high))


def added_up(estimates: Sequence[Estimate], shares: Numbers, rate: float) -> list[Estimate]:
    """Move the rates so that their mean, weighted by `shares`, is `rate`. An end of 0 or 1 stays where it is."""
    values, variances = _values(estimates), _variances(estimates)
    moved = values.copy()
    for _ in range(MAX_ROUNDS):  # rates that would leave [0, 1] stop at its end, and the others take their part
        gap = rate - float(shares @ moved)
        is_free = moved < 1 if gap > 0 else moved > 0
        pull = np.where(is_free, shares * variances, 0.0)
        if abs(gap) < 1e-12 or not pull.any():
            break
        moved = np.clip(moved + gap * pull / float(shares @ pull), 0.0, 1.0)
    ends = []
    for estimate, step, value in zip(estimates, moved - values, moved, strict=True):
        _, low, high = _ends(estimate)
        low = min(float(value), 0.0 if low <= 0 else min(1.0, max(0.0, low + step)))
        high = max(float(value), 1.0 if high >= 1 else min(1.0, max(0.0, high + step)))
        ends.append(Estimate(float(value), low, high))
    return ends


def _method(weight: float) -> Method:
    return "difference" if weight >= 1 else "prior shift" if weight <= 0 else "composite"


def _values(estimates: Sequence[Estimate]) -> Numbers:
    return np.array([np.nan if estimate.value is None else estimate.value for estimate in estimates], dtype=np.float64)


def _variances(estimates: Sequence[Estimate]) -> Numbers:
    """Return the variances by the lengths of the intervals; a missing interval has the length 1."""
    lengths = [1.0 if estimate.value is None else _ends(estimate)[2] - _ends(estimate)[1] for estimate in estimates]
    return np.maximum(_LEAST_VARIANCE, (np.array(lengths, dtype=np.float64) / (2 * Z)) ** 2)


def _ends(estimate: Estimate) -> tuple[float, float, float]:
    value, low, high = estimate.value, estimate.low, estimate.high
    assert value is not None and low is not None and high is not None  # noqa: PT018
    return value, low, high
