"""Intervals of shares by design, and ranks. That they hold the truth is checked with those of audits."""

import numpy as np
import pytest

from reports.statistics.shares import clopper_pearson, kish_size, post_stratified, sampled, standings, wilson


def test_the_interval_shrinks_to_the_rate_as_the_sample_becomes_the_source() -> None:
    assert sampled(20, 100) == wilson(20, 100) == pytest.approx((0.1334, 0.2888), abs=1e-4)
    half = sampled(20, 100, 0.5)
    assert wilson(20, 100)[0] < half[0] < 0.2 < half[1] < wilson(20, 100)[1]
    assert half == wilson(40, 200)
    assert sampled(20, 100, 1.0) == (0.2, 0.2)
    assert sampled(0, 30)[0] == 0.0
    assert sampled(30, 30)[1] == 1.0


@pytest.mark.parametrize("fraction", [0.05, 0.4, 0.8])
def test_95_of_100_intervals_of_a_sample_hold_the_rate_of_the_source(fraction: float) -> None:
    generator = np.random.default_rng(7)
    num_in_source, num_private = 2000, 260
    drawn = round(fraction * num_in_source)
    counts = generator.hypergeometric(num_private, num_in_source - num_private, drawn, 2000)
    ends = {int(k): sampled(int(k), drawn, fraction) for k in np.unique(counts)}
    covered = np.mean([ends[int(k)][0] <= num_private / num_in_source <= ends[int(k)][1] for k in counts])
    assert 0.93 <= covered <= 0.975


def test_a_sample_of_each_category_is_weighted_with_the_sizes_of_the_categories() -> None:
    found = post_stratified(*np.array([[900, 100], [10, 10], [10, 10], [1, 9]]))
    assert found is not None
    assert found[0] == pytest.approx(0.9 * 0.1 + 0.1 * 0.9)  # the plain mean would be .5
    assert found[1] < found[0] < found[2]
    # The same rates among the judged say less if some of the drawn could not be judged.
    few, all_judged = (
        post_stratified(*np.array([[90_000, 10_000], drawn, [70, 70], [1, 63]])) for drawn in ([100, 100], [70, 70])
    )
    assert few is not None
    assert all_judged is not None
    assert few[2] - few[1] > all_judged[2] - all_judged[1]
    assert post_stratified(*np.array([[10], [5], [0], [0]])) is None
    assert post_stratified(*np.array([[10], [10], [10], [4]])) == (0.4, 0.4, 0.4)


def test_all_ranks_hold_together_in_95_of_100_draws() -> None:
    generator = np.random.default_rng(11)
    rates = np.sort(np.concatenate([np.linspace(0.02, 0.9, 20), [0.3, 0.3, 0.3]]))[::-1]
    held = 0
    for _ in range(300):
        counts = generator.binomial(150, rates)
        found = standings([(int(k), 150, 0.0) for k in counts])
        # Among equal rates each of their ranks is right.
        first = [1 + int((rates > rate).sum()) for rate in rates]
        last = [int((rates >= rate).sum()) for rate in rates]
        pairs = zip(found, first, last, strict=True)
        held += all(low <= end and start <= high for (low, high), start, end in pairs)
    assert held >= 285


def test_a_group_of_two_images_can_have_nearly_any_rank() -> None:
    found = standings([(900, 1000, 0), (880, 1000, 0), (1, 2, 0), (100, 1000, 0), (0, 1000, 0)])
    assert found == [(1, 3), (1, 3), (1, 5), (3, 4), (4, 5)]
    assert standings([]) == []


def test_effective_sizes_need_not_be_whole_and_nothing_counted_says_nothing() -> None:
    low, high = clopper_pearson([9.5, 0.0], [10.0, 0.0])
    assert low[0] < 0.95 < high[0]
    assert (low[1], high[1]) == (0, 1)
    wider = clopper_pearson(4.75, 5.0)
    assert wider[0] < low[0]


def test_one_large_group_of_copies_says_little_more_than_one_picture() -> None:
    assert kish_size([1, 1, 1, 1]) == 4
    assert kish_size([100, 1, 1]) == pytest.approx(102**2 / 10_002)
    assert kish_size([]) == 0
