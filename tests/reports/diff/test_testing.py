"""Noise alone makes no significant change, however many pictures a run leaves open, and why."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from reports.statistics.paired import adjusted_p_values, p_values, seldom_denies

NUM_SAMPLES = 400
MOST_BY_CHANCE = int(binom.ppf(0.999, NUM_SAMPLES, 0.05))
Flags = np.ndarray


def _answers(generator: np.random.Generator, is_there: Flags) -> Flags:
    """A run that errs so that as many are missed as are made up."""
    share = is_there.mean()
    errors = generator.random(len(is_there)) < np.where(is_there, 0.2, 0.2 * share / (1 - share))
    return np.asarray(is_there ^ errors)


@pytest.mark.parametrize(("num", "share"), [(300, 0.3), (3000, 0.03)])
@pytest.mark.parametrize(
    ("denied_a", "denied_b", "lost_a", "refused_a", "refused_b"),
    [
        (0, 1, 0, 0, 0), (0.001, 1, 0, 0, 0), (0.05, 1, 0, 0, 0), (0.05, 0.3, 0, 0, 0), (0.6, 1, 0, 0, 0),
        (0.8, 1, 0, 0, 0), (0.9, 0.5, 0, 0, 0), (0.8, 1, 0.2, 0, 0), (1, 1, 0, 0.4, 0), (0.8, 1, 0, 0.6, 0),
        (0.9, 1, 0, 0, 0.1),
    ],
)  # fmt: skip
def test_noise_is_not_called_a_change(
    num: int, share: float, denied_a: float, denied_b: float, lost_a: float, refused_a: float, refused_b: float
) -> None:
    """denied: share of the pictures without a finding in which the run says no; the others it leaves open. lost: share
    of all pictures that it leaves open whatever they show. refused: share of its findings that it leaves open."""
    generator = np.random.default_rng(0)
    num_significant = 0
    for _ in range(NUM_SAMPLES):
        is_there = np.arange(num) < share * num
        a, b = _answers(generator, is_there), _answers(generator, is_there)
        has_a = np.where(a, generator.random(num) >= refused_a, generator.random(num) < denied_a)
        has_a &= generator.random(num) >= lost_a
        has_b = np.where(b, generator.random(num) >= refused_b, generator.random(num) < denied_b)
        counts = [a & ~b & has_a & has_b, ~a & b & has_a & has_b, a & has_a & ~has_b, b & has_b & ~has_a]
        counts += [~a & has_a & ~has_b, ~b & has_b & ~has_a]
        seldom = [seldom_denies((x & has).sum(), (~x & has).sum(), (~has).sum()) for x, has in ((a, has_a), (b, has_b))]
        ((p_value, _),) = adjusted_p_values(np.array([[one.sum() for one in counts]]), np.array([not any(seldom)]))
        num_significant += p_value is not None and p_value < 0.05
    assert num_significant <= MOST_BY_CHANCE


def test_without_open_pictures_it_is_mcnemars_test() -> None:
    assert p_values(np.array([[3, 14, 0, 0, 0, 0]])) == pytest.approx([binomtest(3, 17).pvalue])
    assert np.isnan(p_values(np.array([[0, 0, 5, 0, 0, 0]]))).all()


def test_open_pictures_never_make_a_change_more_certain() -> None:
    alone, same_way, other_way, reversed_, refused = p_values(
        np.array([[3, 14, *more] for more in ([0] * 4, [0, 20, 0, 0], [9, 0, 0, 0], [40, 0, 0, 0], [0, 0, 0, 40])])
    )
    assert same_way == alone
    assert alone < 0.05 < other_way < 1
    assert (reversed_, refused) == (1, 1)


def test_a_run_that_leaves_open_more_than_it_denies_seldom_denies() -> None:
    assert seldom_denies([10, 10, 0], [5, 5, 0], [5, 6, 9]).tolist() == [False, True, False]


def test_what_did_not_change_takes_no_part_in_the_adjustment() -> None:
    changes = np.array([[0, num, 0, 0, 0, 0] for num in (6, 0, 7)])
    found = adjusted_p_values(changes, np.array([True, True, True]))
    assert found == [(0.03125, pytest.approx(0.03125)), (None, None), (0.015625, pytest.approx(0.03125))]
    assert adjusted_p_values(changes, np.array([True, True, False])) == [(0.03125, 0.03125), (None, None), (None, None)]
