"""The statistics of an audit: on corpora whose truth is known, and against QuaPy."""

import numpy as np
import pytest
import quapy
from scipy.stats import beta, binom, hypergeom

from reports.audit.other_run import Errors, counted_errors, rogan_gladen
from reports.statistics.category_rates import mixture_shares, shift_test
from reports.statistics.estimates import (
    ABSENT,
    NOT_JUDGED,
    PRESENT,
    UNCLEAR,
    Counts,
    Estimate,
    evidence,
    prevalence,
    sensitivity,
    specificity,
    standard_error,
)
from scoring.runs.audit_files import NUM_CELLS
from tests.benchmarks.audit import PREVALENCES, category_outcome, private_outcome
from tests.benchmarks.audit_categories import ENGINES, share_of_alarms, simulated

RANDOM = np.random.default_rng(0)


def images(**counts: int) -> Counts:
    found = np.zeros(NUM_CELLS, dtype=np.int64)
    for name, count in counts.items():
        found[{"absent": ABSENT, "unclear": UNCLEAR, "present": PRESENT}[name]] = count
    return found


@pytest.mark.slow
@pytest.mark.parametrize("rate", PREVALENCES)
def test_95_of_100_intervals_hold_the_truth_and_need_a_quarter_of_the_labels(rate: float) -> None:
    found = private_outcome(rate, has_probabilities=True, purpose="private", num_draws=500, seed=12)
    assert 0.93 <= found.coverage <= 0.98
    assert abs(found.bias) < 4 * found.deviation / 500**0.5
    if rate == 0.05:
        assert found.labels_of_a_plain_sample >= 4 * 400


def test_answers_without_probabilities_widen_the_intervals_and_they_still_hold_the_truth() -> None:
    found = private_outcome(0.02, has_probabilities=False, purpose="both", num_draws=500, seed=12)
    assert 0.93 <= found.coverage <= 0.98
    assert found.half_width > private_outcome(0.02, True, "both", 50, seed=12).half_width


def test_prior_shift_brings_categories_near_their_true_rates() -> None:
    found = category_outcome(4, seed=1)
    assert found.raw_error > 0.04
    assert found.error < found.raw_error / 3
    assert found.coverage > 0.9


def plain_interval(num_positive: int, num_labels: int, num_images: int) -> tuple[float, float]:
    """Of an attribute that the engine never judges, from a plain sample."""
    is_there = (np.arange(num_labels) < num_positive).astype(np.float64)
    counts = np.zeros(NUM_CELLS, dtype=np.int64)
    counts[NOT_JUDGED] = num_images
    chances = np.full(num_labels, num_labels / num_images)
    found = evidence(counts, np.full(num_labels, NOT_JUDGED), is_there, chances)
    estimate = prevalence(found, np.random.default_rng(0))
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
    # Of 52 images: if 6 have it, 22 labels miss all of them in 2.9 % of the samples, and in 1.5 % if 7 have it.
    assert [hypergeom.pmf(0, 52, number, 22) > 0.025 for number in (6, 7)] == [True, False]
    assert plain_interval(0, 22, 52)[1] == pytest.approx(6 / 52)


def test_the_difference_estimator_by_hand() -> None:
    """Of 1,000 images 100 are answered yes. 3 of 4 labels there say yes, and 1 of 10 elsewhere."""
    cells = np.array([PRESENT] * 4 + [ABSENT] * 10)
    truth = np.array([1, 1, 1, 0] + [1] + [0] * 9, dtype=np.float64)
    chances = np.array([0.04] * 4 + [10 / 900] * 10)
    found = evidence(images(absent=900, present=100), cells, truth, chances)
    random = np.random.default_rng(0)
    corrected = prevalence(found, random)
    # The raw rate .1, less the false .25 of .1, and the missed .1 of .9.
    assert corrected.value == pytest.approx(0.1 - 0.025 + 0.09)
    assert sensitivity(found, random).value == pytest.approx(0.075 / 0.165)
    assert specificity(found, random).value == pytest.approx(0.81 / 0.835)
    variance = 0.1**2 * 0.75 * 0.25 / 4 * 0.96 + 0.9**2 * 0.1 * 0.9 / 10 * (1 - 10 / 900)
    assert standard_error(found) == pytest.approx(variance**0.5)


def test_a_cell_without_labels_takes_those_of_the_likest_one() -> None:
    cells, truth = np.array([ABSENT, PRESENT]), np.array([0.0, 1.0])
    found = evidence(images(absent=60, unclear=10, present=30), cells, truth, np.array([0.1, 0.1]))
    assert found.donors[UNCLEAR] == PRESENT
    assert prevalence(found, RANDOM).value == pytest.approx(0.4)


def test_if_every_image_is_labelled_nothing_is_open() -> None:
    cells, truth = np.array([ABSENT] * 3 + [PRESENT]), np.array([0.0, 1, 0, 1])
    found = prevalence(evidence(images(absent=3, present=1), cells, truth, np.ones(4)), RANDOM)
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_one_picture_without_a_label_leaves_one_picture_open() -> None:
    one = evidence(images(absent=20), np.full(19, ABSENT), np.zeros(19), np.full(19, 0.95))
    drawn = one.draws(np.random.default_rng(0), one.steps_of_prevalence())
    assert np.unique(drawn[:, ABSENT].round(9)).tolist() == [0, 1 / 20]
    assert prevalence(one, RANDOM).low == 0


def test_no_positive_label_leaves_the_upper_end_open_and_the_lower_at_0() -> None:
    one = evidence(images(absent=10_000), np.full(50, ABSENT), np.zeros(50), np.full(50, 0.005))
    found = prevalence(one, RANDOM)
    assert (found.value, found.low) == (0, 0)
    assert found.high is not None
    assert 0.02 < found.high < 0.08
    assert sensitivity(one, RANDOM) == Estimate()


@pytest.mark.parametrize("share", [0.02, 0.3, 0.8])
def test_prior_shift_is_the_em_of_quapy(share: float) -> None:
    rates, shares = np.array([0.01, 0.3, 0.9]), np.array([0.8, 0.12, 0.08])
    prior = float(rates @ shares)
    with_, without = shares * rates / prior, shares * (1 - rates) / (1 - prior)
    counts = np.random.default_rng(4).multinomial(3_000, share * with_ + (1 - share) * without)
    posteriors = np.repeat(np.stack([1 - rates, rates], axis=1), counts, axis=0)
    theirs, _ = quapy.method.aggregative.EMQ.EM(np.array([1 - prior, prior]), posteriors, epsilon=1e-9)
    ours = mixture_shares(counts[None, None].astype(np.float64), with_[None], without[None])
    assert ours[0, 0] == pytest.approx(theirs[1], abs=1e-5)


def test_a_category_of_one_kind_of_answer_only_has_a_share_of_exactly_0_or_1() -> None:
    yes_and_no = np.array([[[40.0, 0.0], [0.0, 40.0]]])
    shares = mixture_shares(yes_and_no, np.array([[0.9, 0.1]]), np.array([[0.2, 0.8]]))
    assert shares.tolist() == [[1.0, 0.0]]


def test_rogan_gladen_is_the_adjusted_count_of_quapy() -> None:
    errors = counted_errors(num_found=80, num_missed=20, num_false=30, num_right=270, random=RANDOM)
    found = rogan_gladen(2_000, 10_000, errors, RANDOM)
    assert found.value == pytest.approx(quapy.functional.solve_adjustment_binary(0.2, tpr=0.8, fpr=0.1))
    assert found.low is not None
    assert found.high is not None
    assert 0.05 < found.low < 0.143 < found.high < 0.25


@pytest.mark.parametrize(
    ("num_yes", "errors"),
    [
        (2_000, counted_errors(50, 50, 150, 150, random=RANDOM)),  # sensitivity + specificity = 1
        (200, counted_errors(80, 20, 30, 270, random=RANDOM)),  # fewer answers yes than would be false
        (9_500, counted_errors(80, 20, 30, 270, random=RANDOM)),  # more than there can be
        (2_000, counted_errors(0, 0, 30, 270, random=RANDOM)),  # nothing positive was labelled
    ],
)
def test_rogan_gladen_says_nothing_where_the_rate_is_not_identified(num_yes: int, errors: Errors) -> None:
    assert rogan_gladen(num_yes, 10_000, errors, RANDOM) == Estimate()


def shift_p_value(seed: int, missed_in_one: float = 0.0) -> float:
    """Of 400 labels. What the engine says yes to is drawn five times as often in one category, no in another."""
    random = np.random.default_rng(seed)
    categories = random.integers(0, 3, 20_000)
    truth = random.random(20_000) < np.array([0.15, 0.25, 0.35])[categories]
    is_yes = np.where(truth, random.random(20_000) < 0.7, random.random(20_000) < 0.15)
    is_yes &= ~((categories == 1) & (random.random(20_000) < missed_in_one))
    density = 0.5 + 2 * ((categories == 2) & is_yes) + 1 * ((categories == 0) & ~is_yes)
    probabilities = density * 400 / density.sum()
    drawn = random.random(20_000) < probabilities
    found = shift_test(truth[drawn], is_yes[drawn], probabilities[drawn], categories[drawn], seed)
    assert found.num_categories == 3
    assert found.p_value is not None
    return found.p_value


def test_a_sample_that_is_denser_in_some_categories_is_no_error_of_the_engine() -> None:
    p_values = np.array([shift_p_value(seed) for seed in range(60)])
    assert (p_values < 0.05).mean() <= 0.12
    assert (p_values < 0.5).mean() >= 0.3


def test_an_engine_that_errs_otherwise_in_one_category_is_noticed() -> None:
    assert sum(shift_p_value(seed, missed_in_one=0.9) < 0.05 for seed in range(10)) >= 8
    few = np.arange(4) < 2
    assert shift_test(few, few, np.ones(4), np.arange(4) % 2, 0).p_value is None


def test_ten_categories_raise_no_more_false_alarms_and_some_differences_are_seen_through_uneven_weights() -> None:
    """With weights as they are, and not relative to the same answer, the second share is .02."""
    assert share_of_alarms(simulated(ENGINES[0], 10, is_uneven=True, worse=0, num_draws=50)) <= 0.12
    assert share_of_alarms(simulated(ENGINES[0], 10, is_uneven=True, worse=0.5, num_draws=50)) >= 0.15
