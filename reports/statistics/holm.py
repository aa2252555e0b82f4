"""Many tests at once.

Source: Holm, "A simple sequentially rejective multiple test procedure", 1979. It needs no independence of the tests.
"""

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the same order. If those below 0.05 are called changed, the probability that any of these
    calls is wrong is at most 5 %."""
    found = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(found, kind="stable")
    stepped = found[order] * np.arange(len(found), 0, -1)
    adjusted = np.empty(len(found))
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0) if len(found) else stepped
    return [float(p) for p in adjusted]
