"""The severity score over all 1,320 combinations."""

import itertools

import numpy as np
import pytest

from scoring import severity
from scoring.taxonomy import ATTRIBUTES, KEYS, TAXONOMY

COMBINATIONS = np.array(list(itertools.product(*(range(n + 1) for n in TAXONOMY.level_sizes))), dtype=np.int64)
"""In lexicographic order."""


def _score(*counts: int) -> float:
    return float(severity.score_of(severity.lexicographic(np.array([counts])))[0])


def test_the_taxonomy_has_22_attributes_in_four_levels() -> None:
    assert len(set(KEYS)) == 22
    assert tuple(sum(a.level == n for a in ATTRIBUTES) for n in (1, 2, 3, 4)) == TAXONOMY.level_sizes == (3, 10, 5, 4)
    assert (TAXONOMY.weights, TAXONOMY.num_combinations) == ((330, 30, 5, 1), 1320)


def test_s_lex_is_a_bijection_whose_order_is_lexicographic() -> None:
    s_lex = severity.lexicographic(COMBINATIONS)
    assert s_lex.tolist() == list(range(1320))
    assert (severity.counts_of(s_lex) == COMBINATIONS).all()


def test_the_score_rises_with_s_lex_but_for_the_four_published_ties() -> None:
    scores = severity.score_of(np.arange(1320)).round(12)
    assert (np.diff(scores) >= 0).all()
    ties = [tuple(map(tuple, COMBINATIONS[i : i + 2].tolist())) for i in np.flatnonzero(np.diff(scores) == 0)]
    assert ties == [
        ((0, 0, 0, 0), (0, 0, 0, 1)),
        ((0, 0, 0, 4), (0, 0, 1, 0)),
        ((0, 0, 5, 4), (0, 1, 0, 0)),
        ((0, 10, 5, 4), (1, 0, 0, 0)),
    ]


def test_the_worked_values_of_the_paper() -> None:
    assert severity.lexicographic(np.array([[2, 10, 5, 4], [1, 10, 0, 0]])).tolist() == [989, 630]
    assert _score(2, 10, 5, 4) == pytest.approx(0.947, abs=5e-4)
    assert _score(1, 10, 0, 0) == pytest.approx(0.870, abs=5e-4)
    assert _score(1, 0, 0, 0) == pytest.approx(0.711)
    assert _score(3, 10, 5, 4) == pytest.approx(1.0)
    assert _score(0, 0, 0, 0) == 0


def test_the_level_is_the_first_with_a_count() -> None:
    expected = [next((n + 1 for n, c in enumerate(counts) if c), 0) for counts in COMBINATIONS]
    assert severity.level_of(np.arange(1320)).tolist() == expected


def test_s_lex_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="0…1319, got 1320"):
        severity.counts_of(np.array([1320]))
