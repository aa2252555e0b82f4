"""The severity score over all 1,320 combinations, and of labels: open where what decides them was not judged."""

import itertools

import numpy as np
import pytest

from scoring import severity
from scoring.severity import levels_with_gaps, scores_with_gaps
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


AT = {level: next(i for i, a in enumerate(ATTRIBUTES) if a.level == level) for level in (1, 2, 3, 4)}


def _values(present: tuple[int, ...] = (), unknown: tuple[int, ...] = ()) -> np.ndarray:
    """0 everywhere, but 1 for the first attribute of some levels and NaN for that of others."""
    made = np.zeros(len(ATTRIBUTES), np.float32)
    made[[AT[level] for level in present]] = 1
    made[[AT[level] for level in unknown]] = np.nan
    return made


@pytest.mark.parametrize(
    ("present", "unknown", "level", "score"),
    [
        ((), (), 0, 0.0),
        ((1,), (), 1, 0.711),
        ((4,), (), 4, 0.0),
        ((1,), (2, 3, 4), 1, None),
        ((2,), (1,), None, None),
        ((2,), (3,), 2, None),
        ((), (4,), None, None),
    ],
)
def test_what_was_not_judged_is_never_taken_as_absent(
    present: tuple[int, ...], unknown: tuple[int, ...], level: int | None, score: float | None
) -> None:
    values = _values(present, unknown)[None]
    assert levels_with_gaps(values).tolist() == pytest.approx([np.nan if level is None else level], nan_ok=True)
    assert scores_with_gaps(values).tolist() == pytest.approx([np.nan if score is None else score], nan_ok=True)


def test_0_5_counts_as_absent() -> None:
    values = np.full((1, len(ATTRIBUTES)), 0.5, np.float32)
    assert levels_with_gaps(values).tolist() == [0]
    assert scores_with_gaps(values).tolist() == [0]
