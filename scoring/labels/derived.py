"""What follows from the values of a label. An attribute that was not judged is never taken as absent.

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
    """Shape (…): the most severe level of what is present (1), 0 if nothing is.

    NaN if an attribute that would be more severe was not judged.
    """
    present = np.where(values == 1, _LEVELS, _BEHIND_ALL).min(axis=-1)
    unknown = np.where(np.isnan(values), _LEVELS, _BEHIND_ALL).min(axis=-1)
    found = np.where(present == _BEHIND_ALL, 0, present).astype(np.float32)
    found[unknown < present] = np.nan
    return found


def scores(values: Floats) -> npt.NDArray[np.float64]:
    """Shape (…): severity score of what is present (1), NaN if any attribute was not judged."""
    flat = values.reshape(-1, len(KEYS))
    found = severity.score_of(severity.lexicographic(severity.level_counts(flat == 1))).astype(np.float64)
    found[np.isnan(flat).any(axis=1)] = np.nan
    return found.reshape(values.shape[:-1])
