"""Counts per level <-> s_lex <-> severity score.

The level weights are the place values of a mixed-radix number with one digit per level (330, 30, 5, 1 for 3, 10, 5 and
4 attributes), so `s_lex` is a bijection between the possible count vectors and 0…1319, and its order is the
lexicographic order of the counts. A batch is therefore scored by one integer dot product and one table look-up.
The published score ties at four band edges; `s_lex` never does, so order by `s_lex`.

Source: Tsaprazlis et al., "Rethinking Visual Privacy", appendix A.4 (weights, bands, formula).
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from scoring.taxonomy import ATTRIBUTES, TAXONOMY

Floats = npt.NDArray[np.floating]

WEIGHTS = np.array(TAXONOMY.weights, dtype=np.int64)
"""Shape (4,): what one attribute of level 1…4 adds to s_lex."""

BANDS = TAXONOMY.bands
"""Score interval of levels 1…4."""

NUM_COMBINATIONS = TAXONOMY.num_combinations

_RADICES = np.array([size + 1 for size in TAXONOMY.level_sizes], dtype=np.int64)
_LEVEL_OF_ATTRIBUTE = np.array([attribute.level for attribute in ATTRIBUTES])
_BEHIND_ALL = 5
"""Less severe than every level."""

_ATTRIBUTE_TO_COUNT = (_LEVEL_OF_ATTRIBUTE[:, None] == np.arange(1, 5)[None, :]).astype(np.int64)


def level_counts(present: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Count the attributes present, shape (n, attributes) in canonical order, per level, shape (n, 4)."""
    counts: npt.NDArray[np.int64] = present.astype(np.int64) @ _ATTRIBUTE_TO_COUNT
    return counts


def lexicographic(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Turn counts per level, shape (n, 4), into s_lex in 0…1319, shape (n,)."""
    s_lex: npt.NDArray[np.int64] = counts @ WEIGHTS
    return s_lex


def counts_of(s_lex: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Invert `lexicographic`: shape (n,) -> (n, 4). ValueError outside 0…1319."""
    if s_lex.size and (s_lex.min() < 0 or s_lex.max() >= NUM_COMBINATIONS):
        raise ValueError(f"s_lex must be within 0…{NUM_COMBINATIONS - 1}, got {s_lex.min()}…{s_lex.max()}")
    return (s_lex[:, None] // WEIGHTS) % _RADICES


def level_of(s_lex: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the most severe level with an attribute, 1…4, or 0 without any; s_lex and result: shape (n,)."""
    return _tables()[0][s_lex]


def score_of(s_lex: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the severity score in [0, 1] of each s_lex, shape (n,)."""
    return _tables()[1][s_lex]


@cache
def _tables() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Compute the level and score of each s_lex."""
    levels = np.zeros(NUM_COMBINATIONS, dtype=np.int64)
    scores = np.zeros(NUM_COMBINATIONS, dtype=np.float64)
    sizes = np.array(TAXONOMY.level_sizes)
    for s_lex, counts in enumerate(counts_of(np.arange(NUM_COMBINATIONS))):
        if not counts.any():
            continue
        top = int(np.flatnonzero(counts)[0])
        s_max = int(sizes[top:] @ WEIGHTS[top:])
        r, r_min = s_lex / s_max, int(WEIGHTS[top]) / s_max
        low, high = BANDS[top]
        levels[s_lex] = top + 1
        scores[s_lex] = low + (high - low) * np.sqrt((r - r_min) / (1 - r_min))
    return levels, scores


def levels_with_gaps(values: Floats) -> npt.NDArray[np.float32]:
    """Return the most severe level that is present (1), 0 if none is; shape (…, attributes) -> (…).

    NaN if an attribute that would be more severe was not judged: that is never taken as absent. values: 0, 0.5, 1 or
    NaN, in canonical order.
    """
    present = np.where(values == 1, _LEVEL_OF_ATTRIBUTE, _BEHIND_ALL).min(axis=-1)
    unknown = np.where(np.isnan(values), _LEVEL_OF_ATTRIBUTE, _BEHIND_ALL).min(axis=-1)
    most_severe = np.where(present == _BEHIND_ALL, 0, present).astype(np.float32)
    most_severe[unknown < present] = np.nan
    return most_severe


def scores_with_gaps(values: Floats) -> npt.NDArray[np.float64]:
    """Return the severity score of the attributes present (1), NaN if any was not judged; shapes as above."""
    flat = values.reshape(-1, len(ATTRIBUTES))
    severity_scores = score_of(lexicographic(level_counts(flat == 1))).astype(np.float64)
    severity_scores[np.isnan(flat).any(axis=1)] = np.nan
    return severity_scores.reshape(values.shape[:-1])
