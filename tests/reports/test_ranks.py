"""Intervals by design and ranks, checked by drawing samples from populations whose rates are known."""

import numpy as np
import pytest

from reports.statistics.shares import post_stratified, sampled, standings, wilson


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
    generator = np.random.default_rng(3)
    sizes, rates, drawn = np.array([50_000, 8_000, 400, 100]), np.array([0.02, 0.3, 0.8, 0.5]), 80
    private = np.round(sizes * rates).astype(int)
    truth = private.sum() / sizes.sum()
    found = []
    for _ in range(1000):
        counts = generator.hypergeometric(private, sizes - private, drawn)
        estimate = post_stratified(sizes, np.full(len(sizes), drawn), np.full(len(sizes), drawn), counts)
        assert estimate is not None
        found.append(estimate)
    estimates, low, high = np.array(found).T
    assert estimates.mean() == pytest.approx(truth, abs=0.002)  # the plain mean would be .4
    assert 0.93 <= np.mean((low <= truth) & (truth <= high)) <= 0.99
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


@pytest.mark.parametrize(
    ("num_small", "size", "rate", "large"),
    [(300, 20, 0.004, [(100_000, 0.005)]), (1_000, 20, 0.002, [(100_000, 0.003)] * 3)],
)
def test_small_groups_of_rare_pictures_get_no_false_order(
    num_small: int, size: int, rate: float, large: list[tuple[int, float]]
) -> None:
    """With Wilson's interval a false order was printed in half of the draws."""
    generator = np.random.default_rng(5)
    sizes = np.array([size] * num_small + [num for num, _ in large])
    rates = np.array([rate] * num_small + [of for _, of in large])
    num_false = 0
    for _ in range(100):
        counts = generator.binomial(sizes, rates)
        found = standings([(int(k), int(n), 0.0) for k, n in zip(counts, sizes, strict=True)])
        num_false += any(low > 1 for low, _ in found[num_small:]) or any(
            high < len(sizes) for _, high in found[:num_small]
        )
    assert num_false <= 5


def test_a_category_of_which_few_images_could_be_judged_widens_the_interval_of_all() -> None:
    """The share of judged images is estimated too: two strata of 2 % and 90 %, 30 % of each not judged."""
    generator = np.random.default_rng(4)
    sizes, rates, judged, drawn = np.array([90_000, 10_000]), np.array([0.02, 0.9]), 0.7, 100
    truth = float(sizes @ rates / sizes.sum())
    held = 0
    for _ in range(1000):
        num_judged = generator.binomial(drawn, judged, 2)
        counts = generator.binomial(num_judged, rates)
        estimate = post_stratified(np.array(sizes), np.full(2, drawn), num_judged, counts)
        assert estimate is not None
        held += estimate[1] <= truth <= estimate[2]
    assert 930 <= held <= 990
