"""Level and score of a label: open where something that decides them was not judged."""

import numpy as np
import pytest

from scoring.severity import levels_with_gaps, scores_with_gaps
from scoring.taxonomy import ATTRIBUTES

LEVELS = np.array([attribute.level for attribute in ATTRIBUTES])
AT = {level: int(np.flatnonzero(level == LEVELS)[0]) for level in (1, 2, 3, 4)}


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
