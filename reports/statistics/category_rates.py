"""Rates of categories: from the labels of a category itself if it has enough, else with those of the whole sample.

- With `MIN_DIRECT` labels, or one for each image, the difference estimator inside the category, which assumes nothing.
- With fewer, prior shift, which takes from the whole sample how the engine errs. That holds if the engine errs alike in
  every category. The category's own labels count as far as they are sure: each of the two estimates is weighted by the
  variance of the other. The error of prior shift is estimated from all categories with labels of their own.

Then the rates are moved so that they add up to the rate of the run; less sure rates move more.

Sources: J. N. K. Rao and I. Molina, "Small Area Estimation", 2nd ed. 2015, section 3.3 (composite estimators), 3.2.5
(the mean squared error of a synthetic estimator) and 6.4.6 (benchmarking).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from reports.statistics.estimates import Counts, Estimate, Evidence, Flags, Numbers, evidence, prevalence
from reports.statistics.prior_shift import category_rates as by_prior_shift

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
    among the images that the rate is of, shape (K,). can_shift: `prior_shift.can_tell`.
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
