"""The promise of a threshold: exact against SciPy, and kept in as many draws as it says."""

import numpy as np
import pytest
from scipy.stats import binom

from reports.statistics.shares import Numbers, bound_of, num_missed_allowed, num_needed

NUM_DRAWS = 500


def most_failures(share: float) -> int:
    """As many of the draws may fail by chance at this share, but for one time in a thousand."""
    return int(binom.ppf(0.999, NUM_DRAWS, share))


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


def private_scores(generator: np.random.Generator) -> Numbers:
    """Of 6,000 private pictures: a tenth that the model hardly sees, and many equal scores."""
    seen = generator.beta(5, 2, 5400)
    return np.round(np.concatenate([seen, generator.beta(1, 8, 600)]), 2)


@pytest.mark.parametrize("num", [45, 120, 400])
def test_the_promise_fails_in_no_more_draws_than_it_says(num: int) -> None:
    generator = np.random.default_rng(num)
    scores = private_scores(generator)
    failures = 0
    for _ in range(NUM_DRAWS):
        bound = bound_of(generator.choice(scores, num, replace=False), 0.95, 0.9)
        assert bound is not None
        failures += (scores >= bound.threshold).mean() < 0.95
    assert failures <= most_failures(0.1)


def test_an_empirical_quantile_would_fail_in_half_of_the_draws() -> None:
    """So the simulation can tell a promise that is kept from one that is not."""
    generator = np.random.default_rng(1)
    scores = private_scores(generator)
    thresholds = [np.quantile(generator.choice(scores, 120, replace=False), 0.05) for _ in range(NUM_DRAWS)]
    assert sum((scores >= threshold).mean() < 0.95 for threshold in thresholds) > most_failures(0.1)


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


@pytest.mark.slow
def test_the_promise_holds_although_people_differ_about_the_pictures_that_the_model_does_not_see() -> None:
    """Left out, they take the private pictures with low scores with them; counted as private if caught, they would make
    the share that is caught too large."""
    generator = np.random.default_rng(8)
    scores = np.concatenate([0.4 + 0.6 * generator.random(8_000), 0.6 * generator.random(2_000)])
    is_private = np.concatenate([generator.random(8_000) < 0.6, generator.random(2_000) < 0.25])
    is_undecided = np.concatenate([generator.random(8_000) < 0.05, generator.random(2_000) < 0.5])
    private = scores[is_private]
    fails = {"left out": 0, "lowest": 0}
    for _ in range(NUM_DRAWS):
        drawn = generator.permutation(len(scores))[:300]
        decided = drawn[is_private[drawn] & ~is_undecided[drawn]]
        undecided = drawn[is_undecided[drawn]]
        for name, others in (("left out", undecided[:0]), ("lowest", undecided)):
            bound = bound_of(scores[decided], 0.9, 0.9, scores[others])
            assert bound is not None
            fails[name] += bool((private >= bound.threshold).mean() < 0.9)
    assert fails["lowest"] <= most_failures(0.1)
    assert fails["left out"] > most_failures(0.1)
