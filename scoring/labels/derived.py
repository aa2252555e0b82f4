"""Level and score derived from the values of a label. An attribute that was not judged is never taken as absent.

Values have the shape (…, 22) in canonical order: 0, 0.5, 1 or NaN.
"""

import numpy as np
import numpy.typing as npt

from scoring import severity
from scoring.taxonomy import ATTRIBUTES, KEYS

Floats = npt.NDArray[np.floating]

_LEVELS = np.array([attribute.level for attribute in ATTRIBUTES])
_BEHIND_ALL = 5
"""Less severe than every level."""


def levels(values: Floats) -> npt.NDArray[np.float32]:
    """Return the most severe level that is present (1), 0 if none is; shape (…).

    NaN if an attribute that would be more severe was not judged.
    """
    present = np.where(values == 1, _LEVELS, _BEHIND_ALL).min(axis=-1)
    unknown = np.where(np.isnan(values), _LEVELS, _BEHIND_ALL).min(axis=-1)
    most_severe = np.where(present == _BEHIND_ALL, 0, present).astype(np.float32)
    most_severe[unknown < present] = np.nan
    return most_severe


def scores(values: Floats) -> npt.NDArray[np.float64]:
    """Return the severity score of the attributes present (1), NaN if any was not judged; shape (…)."""
    flat = values.reshape(-1, len(KEYS))
    severity_scores = severity.score_of(severity.lexicographic(severity.level_counts(flat == 1))).astype(np.float64)
    severity_scores[np.isnan(flat).any(axis=1)] = np.nan
    return severity_scores.reshape(values.shape[:-1])
