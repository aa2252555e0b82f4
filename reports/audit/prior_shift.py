"""Rates of categories by prior shift: labels of the whole sample tell how the engine errs, its answers the rest.

The assumption: of the images in which a subject truly is, as many fall into each cell in every category, and the same
for images without it. Then a category's counts over the cells are a mixture of two known distributions, and its rate is
the most likely share of the first. EM, as in the source, comes to the same; the likelihood has one maximum, which is
found by halving here.

Source: Saerens, Latinne and Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori Probabilities", 2002.
"""

from dataclasses import dataclass

import numpy as np

from reports.audit.cells import Counts, Flags, Numbers
from reports.audit.estimates import Estimate, Evidence

MIN_OF_EACH_KIND = 5
"""Labelled pictures with the subject, and without it, below which nothing is said of categories."""

MIN_DISTANCE = 0.02
"""Total variation between the two distributions below which the answers tell nothing."""

NUM_DRAWS = 200
_NUM_HALVINGS = 30

MIN_PER_CATEGORY = 5
"""Labelled pictures of one kind with which a category takes part in the test."""

NUM_PERMUTATIONS = 999


@dataclass(frozen=True)
class ShiftTest:
    """Whether the engine answers alike in every category, given the truth: the assumption of prior shift."""

    num_categories: int
    """That have enough labels."""

    p_value: float | None
    """Of a permutation test; None if fewer than two categories have enough labels."""


def can_tell(found: Evidence, num_with: int, num_without: int) -> bool:
    """Whether the labels are enough, and the answers differ between images with and without the subject."""
    if min(num_with, num_without) < MIN_OF_EACH_KIND:
        return False
    with_, without = _distributions(found.shares, found.smoothed_rates[None])
    return float(np.abs(with_ - without).sum()) / 2 >= MIN_DISTANCE


def category_rates(found: Evidence, num_images: Counts, random: np.random.Generator) -> list[Estimate]:
    """The rate of each category. num_images: in each cell, shape (K, NUM_CELLS), with at least one in each category."""
    used = found.shares > 0
    counts, shares = num_images[:, used].astype(np.float64), found.shares[used]
    value = mixture_shares(counts[None], *_distributions(shares, found.smoothed_rates[None, used]))[0]
    # The cells into which a category's few images fall are chance too: Dirichlet draws, with one image as the run has
    # them, so that a category of two images does not seem certain. Only the proportions matter.
    again = random.standard_gamma(counts + shares, size=(NUM_DRAWS, *counts.shape))
    drawn = mixture_shares(again, *_distributions(shares, found.chances(random, NUM_DRAWS)[:, used]))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="weibull")
    return [Estimate(float(v), float(min(v, a)), float(max(v, b))) for v, a, b in zip(value, low, high, strict=True)]


def mixture_shares(counts: Numbers, with_: Numbers, without: Numbers) -> Numbers:
    """The most likely share q of q·with + (1 − q)·without, 0–1. Shape (R, K).

    counts: shape (R, K, C). with_, without: distributions over the C cells, shape (R, C), above 0.
    """
    low, high = np.zeros(counts.shape[:2]), np.ones(counts.shape[:2])
    difference = (with_ - without)[:, None]
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        mixture = without[:, None] + middle[:, :, None] * difference
        is_rising = (counts * difference / mixture).sum(axis=2) > 0
        low, high = np.where(is_rising, middle, low), np.where(is_rising, high, middle)
    return (low + high) / 2


def _distributions(shares: Numbers, rates: Numbers) -> tuple[Numbers, Numbers]:
    """Over the cells, of the images with the subject and without. rates: shape (R, C), as the results."""
    with_, without = shares * rates, shares * (1 - rates)
    return with_ / with_.sum(axis=1, keepdims=True), without / without.sum(axis=1, keepdims=True)


def shift_test(is_there: Flags, is_yes: Flags, categories: Counts, seed: int) -> ShiftTest:
    """Chi-squared of answer against category, among pictures with the subject and among those without, added up.

    One entry a labelled picture. Its distribution is found by shuffling the categories, since the counts are small. The
    labels count once each: how dense a cell is drawn changes how many answers are yes, but not whether that depends on
    the category.
    """
    parts = []
    for truth in (True, False):
        members = is_there == truth
        names, numbers, counts = np.unique(categories[members], return_inverse=True, return_counts=True)
        kept = counts[numbers] >= MIN_PER_CATEGORY
        answers = is_yes[members][kept]
        if len(names[counts >= MIN_PER_CATEGORY]) >= 2 and answers.any() and not answers.all():
            parts.append((answers, np.unique(numbers[kept], return_inverse=True)[1]))
    if not parts:
        return ShiftTest(0, None)
    random = np.random.default_rng(seed)
    observed = sum(_chi_squared(answers[None], groups)[0] for answers, groups in parts)
    shuffled = np.zeros(NUM_PERMUTATIONS)
    for answers, groups in parts:
        orders = random.permuted(np.tile(answers, (NUM_PERMUTATIONS, 1)), axis=1)
        shuffled += _chi_squared(orders, groups)
    num_as_large = int((shuffled >= observed - 1e-9).sum())
    return ShiftTest(max(int(groups.max()) + 1 for _, groups in parts), (1 + num_as_large) / (1 + NUM_PERMUTATIONS))


def _chi_squared(answers: Flags, groups: Counts) -> Numbers:
    """answers: shape (R, m). groups: number of each picture's category, from 0, shape (m,). Shape (R,)."""
    sizes = np.bincount(groups).astype(np.float64)
    share = answers.mean(axis=1, keepdims=True)
    yes = answers.astype(np.float64) @ np.eye(len(sizes))[groups]
    return np.asarray(((yes - sizes * share) ** 2 / (sizes * share * (1 - share))).sum(axis=1), dtype=np.float64)
