"""How many independent pictures say as much as these do.

Source: Kish, "Survey Sampling", 1965.
"""

import numpy as np
import numpy.typing as npt


def kish_size(weights: npt.ArrayLike) -> float:
    """(Σ w)² / Σ w². 0 without weights.

    weights: shape (n,), not negative: of pictures, if each represents this many; or the sizes of groups whose
    pictures all answer alike. Of equal weights it is n.
    """
    array = np.asarray(weights, dtype=np.float64)
    squares = float((array**2).sum())
    return float(array.sum()) ** 2 / squares if squares else 0.0
