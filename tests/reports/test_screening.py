"""Screens on planted features: bounds by category, drift, and whether the promise holds."""

import numpy as np
import pytest

from benchmarks.screen import fitted, scanned, true_miss
from reports.screening.bounds import broken_bound, doubted_bound, drifted_share, miss_bound, miss_high, miss_rate
from reports.statistics.shares import bound_of
from scoring.labels.reviews import GuardLooks
from scoring.screen.guard import GuardCounts
from scoring.screen.record import ScreenRecord

NOTHING = np.empty(0)


def test_the_threshold_is_that_of_a_guaranteed_recall() -> None:
    scores = np.random.default_rng(0).random(700)
    bound = miss_bound(scores, NOTHING, NOTHING, 0.02, None, 0.95)
    guaranteed = bound_of(scores, 0.98, 0.95)
    assert bound is not None
    assert guaranteed is not None
    assert bound.threshold == guaranteed.threshold
    assert bound.num_missed == guaranteed.num_missed
    assert 0.015 < bound.miss_high <= 0.02


def test_299_labels_prove_one_per_cent_and_298_do_not() -> None:
    scores = np.linspace(0.1, 1, 299)
    assert miss_bound(scores[1:], NOTHING, NOTHING, 0.01, None, 0.95) is None
    bound = miss_bound(scores, NOTHING, NOTHING, 0.01, None, 0.95)
    assert bound is not None
    assert (bound.threshold, bound.num_missed) == (scores[0], 0)


def test_level_1_can_only_lower_the_threshold() -> None:
    scores = np.concatenate([np.linspace(0.5, 1, 500), np.linspace(0.2, 1, 100)])
    both = miss_bound(scores, NOTHING, scores[500:], 0.05, 0.05, 0.95)
    alone = miss_bound(scores, NOTHING, NOTHING, 0.05, None, 0.95)
    assert both is not None
    assert alone is not None
    assert both.threshold < alone.threshold
    assert miss_bound(scores, NOTHING, scores[590:], 0.05, 0.05, 0.95) is None


@pytest.fixture(scope="module")
def record() -> ScreenRecord:
    return fitted(np.random.default_rng(7), 0.05, 130, 200, 7).record


def test_the_miss_rate_is_that_of_guarded_and_passed_private_pictures() -> None:
    counts = GuardCounts(num_seen=10_000, num_screened=6_930, num_guarded=70, num_missed=1, num_private=990)
    rate = miss_rate(counts, 0.01, 0.95)
    assert rate is not None
    assert rate[0] == pytest.approx(100 / 1090)
    assert 0.004 < rate[1] < 0.006  # 1 of 991 is at least 1 in 19,300
    assert miss_rate(counts, 1.0, 0.95) is not None
    assert miss_rate(GuardCounts(num_seen=10, num_screened=10), 0.01, 0.95) is None


def test_a_scan_whose_miss_rate_is_the_promised_one_hardly_ever_stops(record: ScreenRecord) -> None:
    generator, num_stopped = np.random.default_rng(5), 0
    for _ in range(200):
        counts = GuardCounts()
        for _ in range(60):  # slices, after each of which the counts are looked at
            private, public_out = generator.binomial([200, 190], [0.05, 0.4])
            out = int(generator.binomial(private, record.target_miss))
            guarded = generator.binomial([out, public_out], record.guard_share).tolist()
            counts += GuardCounts(200, out + public_out - sum(guarded), sum(guarded), guarded[0], private - out)
            if broken_bound(counts, record, GuardLooks(guarded[0], counts.num_missed)) is not None:
                num_stopped += 1
                break
    assert num_stopped <= 0.03 * 200


def test_a_scan_stops_only_if_people_call_too_many_guarded_pictures_private(record: ScreenRecord) -> None:
    few = GuardCounts(num_seen=10_000, num_screened=6_930, num_guarded=70, num_missed=1, num_private=990)
    many = GuardCounts(num_seen=10_000, num_screened=6_930, num_guarded=70, num_missed=10, num_private=990)
    assert broken_bound(few, record, GuardLooks(1, 1)) is None
    nobody, false_alarms = GuardLooks(), GuardLooks(10, 0)
    assert [broken_bound(many, record, looks) for looks in (nobody, false_alarms)] == [None, None]
    doubted = doubted_bound(many, record, nobody) or ""
    assert "10 of the guard's 70 answers are private by the engine, which may err" in doubted
    assert "review RUN --queue guard" in doubted
    assert [doubted_bound(many, record, looks) for looks in (false_alarms, GuardLooks(10, 1))] == [None, None]
    assert doubted_bound(few, record, nobody) is None
    line = broken_bound(many, record, GuardLooks(10, 9)) or ""
    assert "people call 9 of the 10 guarded pictures that they looked at private" in line
    assert "at most 5.0 % was promised" in line
    assert broken_bound(GuardCounts(), record, nobody) is None


def test_another_share_that_passes_is_said(record: ScreenRecord) -> None:
    share = record.labelled.num_screened / record.labelled.num_pictures
    alike = GuardCounts(num_seen=100_000, num_screened=round(100_000 * share))
    assert drifted_share(alike, record) is None
    other = GuardCounts(num_seen=100_000, num_screened=round(100_000 * share / 3))
    assert "not like the labelled ones" in (drifted_share(other, record) or "")


def test_the_upper_end_is_that_of_clopper_and_pearson() -> None:
    assert miss_high(0, 299, 0.95) == pytest.approx(1 - 0.05 ** (1 / 299))
    assert miss_high(0, 0, 0.95) == 1.0


@pytest.mark.slow
def test_the_promised_miss_rate_holds_in_nearly_all_draws_and_drift_is_noticed() -> None:
    """`benchmarks.screen` makes 200 draws; here 6, of which 5 keep it with a probability of 97 %."""
    misses, signs = list[float](), dict[str, list[bool]](alike=[], prevalence=[], broken=[])
    for draw in range(6):
        generator = np.random.default_rng([draw, 5])
        made = fitted(generator, 0.03, 400, 800, draw)
        misses.append(true_miss(made, generator))
        if draw < 3:
            alike = scanned(made, generator, 100_000, 1 / 3)
            signs["alike"].append(alike.stops)
            signs["prevalence"].append(scanned(made, generator, 100_000, 0.9).warns)
            broken = scanned(made, generator, 100_000, 1 / 3, "thumbnail")
            signs["broken"].append(broken.stops or broken.warns)
    assert sum(miss <= 0.03 for miss in misses) >= 5
    assert signs["alike"] == [False] * 3
    assert signs["prevalence"] == [True] * 3
    assert sum(signs["broken"]) >= 2
