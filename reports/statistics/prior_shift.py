"""Rates of categories by prior shift, which takes from the labels of the whole sample how the engine errs.

The assumption: the images with the subject have the same distribution over the cells in every category, and so have the
images without it. Then a category's counts over the cells are a mixture of two known distributions, and its rate is the
most likely share of the first. EM, as in the source, gives the same result; the likelihood has one maximum, which is
found by halving here.

Source: Saerens, Latinne and Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori Probabilities", 2002.
"""

from dataclasses import dataclass

import numpy as np

from reports.statistics.estimates import Counts, Estimate, Evidence, Flags, Numbers

MIN_OF_EACH_KIND = 5
"""Number of labelled pictures with the subject, and without it, below which categories have no rate of their own."""

MIN_DISTANCE = 0.02
"""Total variation between the two distributions below which the answers cannot separate them."""

NUM_DRAWS = 200
_NUM_HALVINGS = 30

MIN_PER_CATEGORY = 5
"""Number of labelled pictures of one kind with which a category takes part in the test."""

NUM_PERMUTATIONS = 999


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


def category_rates(evidence: Evidence, num_images: Counts, random: np.random.Generator) -> list[Estimate]:
    """Return the rate of each category.

    num_images: in each cell, shape (K, NUM_CELLS), with at least one in each category.
    """
    used = evidence.shares > 0
    counts, shares = num_images[:, used].astype(np.float64), evidence.shares[used]
    value = mixture_shares(counts[None], *_distributions(shares, evidence.smoothed_rates[None, used]))[0]
    # The cells of a category's few images are chance too. They get Dirichlet draws with one more image, spread as in
    # the run, so that a category of two images does not seem certain. Only the proportions matter.
    again = random.standard_gamma(counts + shares, size=(NUM_DRAWS, *counts.shape))
    drawn = mixture_shares(again, *_distributions(shares, evidence.chances(random, num_draws=NUM_DRAWS)[:, used]))
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
