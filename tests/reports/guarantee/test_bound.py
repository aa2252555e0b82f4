"""The promise of a threshold, exact against SciPy."""

import numpy as np
import pytest
from scipy.stats import binom

from reports.statistics.shares import bound_of, num_missed_allowed, num_needed


@pytest.mark.parametrize(("recall", "confidence", "needed"), [(0.95, 0.9, 45), (0.95, 0.95, 59), (0.99, 0.99, 459)])
def test_the_fewest_labels_are_those_of_the_tables(recall: float, confidence: float, needed: int) -> None:
    assert num_needed(recall, confidence) == needed
    assert num_missed_allowed(needed, recall, confidence) == 0
    assert num_missed_allowed(needed - 1, recall, confidence) is None


def test_no_number_of_labels_proves_nearly_everything() -> None:
    assert num_needed(1 - 1e-12, 0.9) is None


def test_one_more_missed_would_break_the_confidence() -> None:
    for num in (45, 77, 200, 1000):
        allowed = num_missed_allowed(num, 0.95, 0.9)
        assert allowed is not None
        assert binom.cdf(allowed, num, 0.05) <= 0.1 < binom.cdf(allowed + 1, num, 0.05)


def test_the_threshold_misses_what_is_allowed_and_equal_scores_make_it_safer() -> None:
    scores = np.arange(200, dtype=np.float64)
    bound = bound_of(scores, 0.95, 0.9)
    assert bound is not None
    assert (bound.threshold, bound.num_missed, bound.num_missed_allowed) == (5.0, 5, 5)
    assert bound.failure_probability == pytest.approx(binom.cdf(5, 200, 0.05))
    tied = bound_of(np.maximum(scores, 10), 0.95, 0.9)
    assert tied is not None
    assert (tied.threshold, tied.num_missed) == (10.0, 0)


def test_what_is_dropped_anyway_counts_as_caught_and_what_always_stays_as_missed() -> None:
    policy_drops_all = bound_of(np.full(45, np.inf), 0.95, 0.9)
    assert policy_drops_all is not None
    assert policy_drops_all.threshold == np.inf
    one_stays = bound_of(np.array([-np.inf, *np.ones(44)]), 0.95, 0.9)
    assert one_stays is not None
    assert one_stays.threshold == -np.inf


def test_undecided_pictures_give_the_lowest_threshold_that_they_could_give() -> None:
    generator = np.random.default_rng(7)
    for _ in range(20):
        scores, undecided = generator.random(12), generator.random(6)
        bound = bound_of(scores, 0.7, 0.8, undecided)
        assert bound is not None
        chosen = [undecided[[bool(number >> place & 1) for place in range(6)]] for number in range(2**6)]
        each = [bound_of(np.concatenate([scores, some]), 0.7, 0.8) for some in chosen]
        assert bound.threshold == min(one.threshold for one in each if one is not None)
    assert bound_of(np.ones(44), 0.95, 0.9, np.ones(10)) is None  # none of these may be private
