"""Exact intervals and tests of shares, against SciPy's own and against the numbers of earlier code."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from reports.statistics.paired import mcnemar_p
from reports.statistics.shares import binomial_cdf, clopper_pearson, kish_size


def test_the_interval_of_a_share_is_scipys_exact_one() -> None:
    for num, total in ((0, 22), (21, 22), (22, 22), (3, 1000), (500, 1000)):
        low, high = clopper_pearson(num, total)
        expected = binomtest(num, total).proportion_ci(0.95, "exact")
        assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-12)
        assert low < high


def test_effective_sizes_need_not_be_whole_and_nothing_counted_says_nothing() -> None:
    low, high = clopper_pearson([9.5, 0.0], [10.0, 0.0])
    assert low[0] < 0.95 < high[0]
    assert (low[1], high[1]) == (0, 1)
    wider = clopper_pearson(4.75, 5.0)
    assert wider[0] < low[0]


def test_mcnemar_gives_the_p_values_of_the_sums_written_by_hand() -> None:
    before = {
        (3, 9): 0.14599609375,
        (8, 0): 0.0078125,
        (40, 60): 0.0568879336409794,
        (0, 64): 1.084202172485506e-19,
        (150, 201): 0.007524139788171785,
        (5000, 5200): 0.048787963125703486,
        (100_000, 100_500): 0.2651050954357974,
    }
    for split, p_value in before.items():
        assert mcnemar_p(*split) == pytest.approx(p_value, rel=1e-8)
    first, second = np.array(list(before)).T
    assert mcnemar_p(first, second) == pytest.approx(list(before.values()), rel=1e-8)
    assert mcnemar_p(5, 5) == 1.0


@pytest.mark.parametrize("total", [1, 44, 3000])
def test_binomial_tails_are_scipys(total: int) -> None:
    assert binomial_cdf(np.arange(total + 1), total, 0.05) == pytest.approx(
        binom.cdf(np.arange(total + 1), total, 0.05), rel=1e-9
    )


def test_one_large_group_of_copies_says_little_more_than_one_picture() -> None:
    assert kish_size([1, 1, 1, 1]) == 4
    assert kish_size([100, 1, 1]) == pytest.approx(102**2 / 10_002)
    assert kish_size([]) == 0
