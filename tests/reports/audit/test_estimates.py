"""The statistics of an audit, on corpora whose truth is known."""

import numpy as np
import pytest
from scipy.stats import beta, binom

from reports.statistics.estimates import (
    ABSENT,
    GUARDED,
    NOT_JUDGED,
    PRESENT,
    UNCLEAR,
    Counts,
    Labels,
    evidence,
    masses_of,
    rates_of,
)
from scoring.runs.audit_files import NUM_CELLS


def images(**counts: int) -> Counts:
    found = np.zeros(NUM_CELLS, dtype=np.int64)
    for name, count in counts.items():
        found[{"absent": ABSENT, "unclear": UNCLEAR, "present": PRESENT}[name]] = count
    return found


def plain_interval(num_positive: int, num_labels: int, num_images: int) -> tuple[float, float]:
    """Of an attribute that the engine never judges, from a plain sample."""
    is_there = (np.arange(num_labels) < num_positive).astype(np.float64)
    counts = np.zeros(NUM_CELLS, dtype=np.int64)
    counts[NOT_JUDGED] = num_images
    chances = np.full(num_labels, num_labels / num_images)
    estimate = rates_of(evidence(counts, Labels(np.full(num_labels, NOT_JUDGED), is_there, chances))).prevalence
    assert estimate.low is not None and estimate.high is not None  # noqa: PT018
    return estimate.low, estimate.high


def test_the_interval_of_a_rare_attribute_that_the_engine_never_judges_holds_its_rate_in_95_of_100_samples() -> None:
    numbers = np.arange(30)
    low, high = np.array([plain_interval(int(number), 400, 1_000_000) for number in numbers]).T
    for rate in (0.0025, 0.005, 0.006, 0.007, 0.008, 0.009, 0.01, 0.02):
        coverage = binom.pmf(numbers, 400, rate) @ ((low <= rate) & (rate <= high))
        assert coverage >= (0.94 if rate <= 0.01 else 0.93), rate


def test_labels_of_which_none_is_positive_give_the_exact_bound() -> None:
    end = beta.ppf(0.975, 1, 400)  # of Clopper and Pearson
    low, high = plain_interval(0, 400, 1_000_000)
    assert low == 0
    assert high == pytest.approx(end, rel=0.06)
    low, high = plain_interval(400, 400, 1_000_000)
    assert low == pytest.approx(1 - end, rel=0.001)
    assert high == 1


def test_the_difference_estimator_by_hand() -> None:
    """Of 1,000 images 100 are answered yes. 3 of 4 labels there say yes, and 1 of 10 elsewhere."""
    cells = np.array([PRESENT] * 4 + [ABSENT] * 10)
    truth = np.array([1, 1, 1, 0] + [1] + [0] * 9, dtype=np.float64)
    chances = np.array([0.04] * 4 + [10 / 900] * 10)
    found = evidence(images(absent=900, present=100), Labels(cells, truth, chances))
    rates = rates_of(found)
    corrected = rates.prevalence
    # The raw rate .1, less the false .25 of .1, and the missed .1 of .9.
    assert corrected.value == pytest.approx(0.1 - 0.025 + 0.09)
    assert rates.sensitivity.value == pytest.approx(0.075 / 0.165)
    assert rates.specificity.value == pytest.approx(0.81 / 0.835)
    shares = np.array([(3 + 1 / 3) / (4 + 2 / 3), (1 + 1 / 3) / (10 + 2 / 3)])
    open_shares = np.array([0.96, 1 - 10 / 900])
    variance = np.sum(np.array([0.1, 0.9]) ** 2 * shares * (1 - shares) / np.array([4, 10]) * open_shares)
    assert found.variance(np.ones(NUM_CELLS, dtype=np.bool_)) == pytest.approx(variance)
    expected = float(np.array([0.1, 0.9]) @ shares)
    size = expected * (1 - expected) / variance
    assert corrected.low == pytest.approx(beta.ppf(0.025, 0.165 * size, 0.835 * size + 1))
    assert corrected.high == pytest.approx(beta.ppf(0.975, 0.165 * size + 1, 0.835 * size))


def test_a_cell_without_labels_takes_those_of_the_likest_one_with_the_same_answer() -> None:
    cells, truth = np.array([ABSENT, PRESENT]), np.array([0.0, 1.0])
    found = evidence(images(absent=60, unclear=10, present=30), Labels(cells, truth, np.array([0.1, 0.1])))
    assert found.donors[UNCLEAR] == ABSENT
    assert rates_of(found).prevalence.value == pytest.approx(0.3)


def test_a_side_without_a_label_has_bounds_and_no_value() -> None:
    """Two of 1,000 images are answered yes, and none of them is labelled."""
    labels = Labels(np.full(100, ABSENT), np.zeros(100), np.full(100, 0.1))
    rates = rates_of(evidence(images(absent=998, present=2), labels))
    rate, right = rates.prevalence, rates.specificity
    assert (rates.sensitivity.value, right.value) == (None, None)
    assert right.low == pytest.approx(1 - 2 / 1000, abs=1e-4)
    assert right.high == 1
    assert rate.value is None
    assert rate.low == 0
    assert rate.high is not None and 0.03 < rate.high < 0.04  # noqa: PT018


def test_if_every_image_is_labelled_nothing_is_open() -> None:
    cells, truth = np.array([ABSENT] * 3 + [PRESENT]), np.array([0.0, 1, 0, 1])
    found = rates_of(evidence(images(absent=3, present=1), Labels(cells, truth, np.ones(4)))).prevalence
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_guarded_images_count_as_all_that_a_screen_left_out() -> None:
    """All 200 images that passed and 10 guarded ones are labelled; each of these stands for 80."""
    guarded = np.full(10, GUARDED + ABSENT)
    cells = np.concatenate([np.full(100, ABSENT), np.full(100, PRESENT), guarded])
    truth = np.array([0.0] * 100 + [1.0] * 101 + [0.0] * 9)
    num_images = images(absent=100, present=100) + 800 * (np.arange(NUM_CELLS) == GUARDED + ABSENT)
    rates = rates_of(evidence(num_images, Labels(cells, truth, np.ones(210), masses_of(80)[cells]), 80))
    found, size = rates.prevalence, 10 / (1 - 1 / 80)  # only the draw of the guard is uncertain
    assert found.value == pytest.approx(0.1 + 0.8 * 0.1)
    assert found.low == pytest.approx(0.1 + 0.8 * beta.ppf(0.025, 0.1 * size, 0.9 * size + 1))
    assert found.high == pytest.approx(0.1 + 0.8 * beta.ppf(0.975, 0.1 * size + 1, 0.9 * size))
    assert rates.sensitivity.value == pytest.approx(0.1 / 0.18)
    bounds = rates_of(evidence(num_images, Labels(cells[:200], truth[:200], np.ones(200)), 80)).prevalence
    assert bounds.value is None
    assert [bounds.low, bounds.high] == pytest.approx([0.1, 0.9])
