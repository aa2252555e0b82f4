"""Intervals on corpora whose truth is known: see benchmarks/statistics.py for every setting."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from benchmarks import statistics, statistics_categories, statistics_evaluation
from benchmarks.coverage import Row
from reports.audit.words import label_errors
from reports.statistics.agreement import MIN_TWICE, allowing_for, second_looks
from reports.statistics.category_rates import category_rates
from reports.statistics.estimates import ABSENT, PRESENT, Estimate, Labels, Rates, evidence
from scoring.runs.audit_files import NUM_CELLS


def failing(rows: Iterable[Row], least: float) -> list[Row]:
    return [row for row in rows if row.coverage < least and not row.said]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "num_draws", "least"),
    [
        *(
            (part, 80, 0.93 - 3 * 0.0285)
            for part in (
                statistics.audits,
                statistics.never_judged,
                statistics.sources,
                statistics.ranks,
                statistics_evaluation.answers,
            )
        ),
        (statistics.people, 30, 0.93 - 3 * 0.0466),
        (statistics_categories.category_sizes, 1_000, 0.93),
        (statistics_categories.categories, 80, 0.9),
    ],
)
def test_every_printed_interval_holds_the_truth_or_the_command_says_that_it_may_not(
    part: Callable[[int], Iterable[Row]], num_draws: int, least: float
) -> None:
    """93 % expected at least; of few draws less three standard errors of the simulation."""
    assert failing(part(num_draws), least) == []


def test_a_label_that_weighs_more_counts_as_fewer() -> None:
    """An attribute that is present only in the thin half of the sample: Kish's size would be 45 labels."""
    cells, weights = np.full(50, ABSENT), np.array([1.0] * 25 + [2.0] * 25)
    truth = np.array([0.0] * 25 + [1.0] * 10 + [0.0] * 15)
    known = evidence(np.bincount(cells, minlength=NUM_CELLS) * 100, Labels(cells, truth, 1 / weights / 100))
    p, total = 20 / 75, 75.0
    linearised = (10 * 4 * (1 - p) ** 2 + 15 * 4 * p**2 + 25 * p**2) / total**2
    assert known.sizes[ABSENT] == pytest.approx(p * (1 - p) / linearised, rel=0.05)
    assert known.sizes[ABSENT] < 45 - 5


def test_a_category_of_which_every_image_is_labelled_has_the_rate_of_its_labels() -> None:
    num_images = np.zeros((2, NUM_CELLS))
    num_images[0, ABSENT], num_images[1, [ABSENT, PRESENT]] = 2, (900, 100)
    cells = np.array([ABSENT] * 2 + [ABSENT] * 30 + [PRESENT] * 10)
    truth = np.array([0.0, 1.0] + [0.0] * 28 + [1.0] * 10 + [0.0] * 2)
    labels = Labels(cells, truth, np.full(42, 0.04), categories=np.array([0] * 2 + [1] * 40))
    whole = evidence(num_images.sum(axis=0), labels)
    small, _ = category_rates(whole, num_images, labels)
    assert small is not None
    assert small.method == "difference"
    assert (small.prevalence.low, small.prevalence.high) == pytest.approx((0.5, 0.5))


def test_a_category_without_a_label_lies_on_the_line_through_the_others() -> None:
    """The engine finds half of the private images in each of six categories, and has no false alarm."""
    rates = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5])
    num_images = np.zeros((6, NUM_CELLS))
    num_images[:, PRESENT] = (10_000 * rates / 2).astype(np.int64)
    num_images[:, ABSENT] = 10_000 - num_images[:, PRESENT]
    categories, cells, truth = [], [], []
    for number, rate in enumerate(rates.tolist()[:5]):
        missed = rate / 2 / (1 - rate / 2)
        categories += [number] * 25
        cells += [PRESENT] * 5 + [ABSENT] * 20
        truth += [1.0] * 5 + [1.0] * round(20 * missed) + [0.0] * (20 - round(20 * missed))
    labels = Labels(np.array(cells), np.array(truth), np.full(125, 0.003), categories=np.array(categories))
    whole = evidence(num_images.sum(axis=0), labels)
    found = category_rates(whole, num_images, labels)
    last = found[5]
    assert last is not None
    assert (last.method, last.num_labels) == ("fay-herriot", 0)
    assert last.prevalence.value == pytest.approx(0.5, abs=0.15)
    assert last.prevalence.low is not None and last.prevalence.high is not None  # noqa: PT018
    assert last.prevalence.low < 0.5 < last.prevalence.high
    of_four = Labels(
        labels.cells[:100], labels.is_there[:100], labels.probabilities[:100], 1.0, labels.categories[:100]
    )
    assert category_rates(whole, num_images[:4], of_four) == [None] * 4  # fewer than five categories


def test_second_looks_widen_an_interval_by_what_one_person_may_have_wrong() -> None:
    """40 of 200 pictures were judged twice, and people differ on 4 of them."""
    num_yes, num_no = np.array([0] * 36 + [1] * 4 + [0] * 160), np.array([2] * 36 + [1] * 4 + [1] * 160)
    is_decided = np.array([True] * 36 + [False] * 4 + [True] * 160)
    found = second_looks(num_yes, num_no, np.full(200, 0.1), is_decided)
    assert found.num_pictures == 40
    assert found.share_differing == pytest.approx(0.1)
    assert found.kappa == pytest.approx(1 - 0.1 / (2 * 0.05 * 0.95))
    assert found.reach == pytest.approx(160 / 196 * 0.05)
    assert found.reach < found.reach_high < 0.12
    wide = allowing_for(found, Rates(Estimate(0.2, 0.15, 0.25), Estimate(0.5, 0.4, 0.6)))
    assert wide.prevalence.low == pytest.approx(0.2 - np.hypot(0.05, found.reach_high - found.reach) - found.reach)
    assert wide.sensitivity.low == pytest.approx(0.4 * 0.2 / (0.2 + found.reach_high))
    assert wide.sensitivity.high == pytest.approx(min(1.0, 0.6 * 0.2 / (0.2 - found.reach_high)))
    assert wide.specificity == Estimate()
    assert label_errors(40, 0.1, found.kappa, True) == (
        "Several people judged 40 pictures: 10.0 % of their answers differ (κ −0.05), so at least 5.0 % are wrong. The "
        "intervals allow for as many wrong labels of pictures that one person judged."
    )


def test_few_second_looks_change_nothing_and_are_counted() -> None:
    few = second_looks(np.ones(MIN_TWICE - 1, int), np.ones(MIN_TWICE - 1, int), np.ones(MIN_TWICE - 1), np.zeros(19))
    rates = Rates(Estimate(0.2, 0.15, 0.25))
    assert allowing_for(few, rates) == rates
    assert "(so far 19); those for it come first" in label_errors(19, 1.0, None, False)
    assert label_errors(0, None, None, False).startswith("The labels count as the truth: 5 % wrong ones can turn")
