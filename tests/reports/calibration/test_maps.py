"""The logistic map, against scikit-learn; what is fitted on other pictures only."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from reports.statistics.binary import Flags, Numbers
from reports.statistics.calibration import MIN_TO_FIT, Points, calibration, cross_fitted, is_enough, logits, platt
from reports.statistics.shares import kish_size

GRID = np.linspace(0, 1, 501)


def drawn(num: int, seed: int = 0) -> tuple[Flags, Numbers, Numbers]:
    """Probabilities that are far too sure, many of them equal, and weights."""
    generator = np.random.default_rng(seed)
    real = generator.beta(0.6, 2, num)
    given = np.round(1 / (1 + np.exp(-3 * logits(real) + 1)), 2)
    return generator.random(num) < real, given, generator.uniform(1, 30, num)


def points(truth: Flags, probabilities: Numbers, weights: Numbers | None = None) -> Points:
    weights = np.ones(len(truth)) if weights is None else weights
    return Points(truth, probabilities, weights, np.arange(len(truth)))


def test_the_logistic_map_is_that_of_scikit_learn_with_platts_targets() -> None:
    truth, given, weights = drawn(300)
    scaled = weights * len(weights) / weights.sum()
    present, absent = scaled[truth].sum(), scaled[~truth].sum()
    targets = np.where(truth, (present + 1) / (present + 2), 1 / (absent + 2))
    twice = np.concatenate([logits(given), logits(given)])[:, None]
    answers = np.repeat([1, 0], len(truth))
    masses = np.concatenate([scaled * targets, scaled * (1 - targets)])
    expected = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(twice, answers, sample_weight=masses)
    found = platt(truth, given, weights)
    assert found.slope == pytest.approx(expected.coef_[0, 0], rel=1e-4)
    assert found.intercept == pytest.approx(expected.intercept_[0], rel=1e-4, abs=1e-4)


def test_labels_that_are_separated_give_a_finite_curve() -> None:
    found = platt(np.arange(40) >= 20, np.repeat([0.1, 0.9], 20), np.ones(40))
    assert found.apply(np.array([0.1, 0.9])) == pytest.approx([1 / 22, 21 / 22], abs=1e-6)


def test_a_map_never_falls_even_if_the_truth_does() -> None:
    found = platt(np.arange(40) < 20, np.repeat([0.1, 0.9], 20), np.ones(40))
    assert (found.slope, found.reaching(0.6)) == (0.0, None)
    assert found.apply(GRID) == pytest.approx(np.full(501, 0.5))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_the_threshold_is_the_smallest_probability_that_means_so_much(share: float) -> None:
    truth, given, weights = drawn(2000)
    found = platt(truth, given, weights)
    start = found.reaching(share)
    assert start is not None
    assert found.apply(np.array([start])) == pytest.approx([share], abs=1e-9)
    assert (found.apply(GRID[start + 1e-9 < GRID]) >= share).all()
    assert (found.apply(GRID[start - 1e-9 > GRID]) < share).all()


def test_twenty_that_show_it_and_twenty_that_do_not_are_needed_for_a_map() -> None:
    def enough(present: int, absent: int, weights: Numbers | None = None) -> bool:
        return is_enough(points(np.arange(present + absent) < present, np.zeros(present + absent), weights))

    assert (enough(MIN_TO_FIT, 300), enough(300, MIN_TO_FIT)) == (True, True)
    assert (enough(MIN_TO_FIT - 1, 300), enough(300, MIN_TO_FIT - 1)) == (False, False)
    # Of unequal weights many pictures say as much as few.
    uneven = np.where(np.arange(200) % 20 == 0, 50.0, 1.0)
    assert kish_size(uneven[:100]) < MIN_TO_FIT
    assert not enough(100, 100, uneven)


def test_the_errors_are_those_of_scikit_learn_with_weights_too() -> None:
    truth, given, weights = drawn(1000)
    found = calibration(truth, given, weights)
    assert found is not None
    assert found.brier == pytest.approx(brier_score_loss(truth, given, sample_weight=weights))
    inside = np.clip(given, 0.001, 0.99) + 0.005  # on an edge, scikit-learn takes the lower bin
    shares, means = calibration_curve(truth, inside, n_bins=10)
    moved = calibration(truth, inside)
    assert moved is not None
    nums = np.histogram(inside, 10, (0, 1))[0]
    assert moved.ece == pytest.approx(np.abs(shares - means) @ nums[nums > 0] / 1000)
    # A weight of 3 says the same as three pictures.
    counts = np.random.default_rng(1).integers(1, 4, 1000)
    repeated = calibration(np.repeat(truth, counts), np.repeat(given, counts))
    weighted = calibration(truth, given, counts.astype(np.float64))
    assert repeated is not None
    assert weighted is not None
    assert (weighted.ece, weighted.brier) == pytest.approx((repeated.ece, repeated.brier))


def test_figures_after_are_honest_where_nothing_can_be_learned() -> None:
    """On pure noise a map fitted and judged on the same pictures looks better than the base rate."""
    generator = np.random.default_rng(0)
    noise = points(generator.random(600) < 0.5, generator.random(600))
    base = noise.truth.mean() * (1 - noise.truth.mean())
    same = platt(noise.truth, noise.probabilities, noise.weights).apply(noise.probabilities)
    assert ((same - noise.truth) ** 2).mean() < base
    held_out = cross_fitted(noise, 0.5)
    assert held_out is not None
    assert ((held_out[0] - noise.truth) ** 2).mean() > base


def test_copies_of_a_picture_are_never_on_both_sides() -> None:
    """Forty pictures, thirty copies each: all copies get their probability from the same map."""
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 30)
    of_pictures = generator.random(40)
    truth, given = np.repeat(generator.random(40) < of_pictures, 30), np.repeat(of_pictures, 30)
    held_out = cross_fitted(Points(truth, given, np.ones(1200), groups), 0.5)
    leaking = cross_fitted(Points(truth, given, np.ones(1200), np.arange(1200)), 0.5)
    assert held_out is not None
    assert leaking is not None
    assert all(len(np.unique(held_out[0][groups == group])) == 1 for group in range(40))
    assert not all(len(np.unique(leaking[0][groups == group])) == 1 for group in range(40))
    assert cross_fitted(Points(truth, given, np.ones(1200), groups % 4), 0.5) is None
