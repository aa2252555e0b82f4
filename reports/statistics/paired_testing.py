"""Which changes between two runs are tested, and the p-values.

A run may leave a picture open: it is scored, but has no answer to this question. If a run leaves open what it does not
find, the pictures in which both runs have an answer are those in which it found something. Of what appeared and what
vanished only one can then be seen, and McNemar's test calls plain noise a change.

- A run that leaves open more than it denies is not compared by a test or by κ. This takes in runs that never say no,
  and those that answer fewer than half of the pictures with nothing but yes or nearly so.
- Otherwise the test is made twice: without the pictures that one run leaves open, and with these as not found. The
  first is right if a run leaves pictures open whatever they show, the second if it leaves open what it does not find.
  p is the larger of the two, and 1 if they point in opposite directions. With noise alone and any share of pictures
  left open it is below 0.05 in at most 5 % of simulated runs (tests/reports/comparing_runs/test_testing.py).
"""

import numpy as np
import numpy.typing as npt

from reports.statistics.exact import mcnemar_p
from reports.statistics.holm import holm

Counts = npt.NDArray[np.int64]


def seldom_denies(
    num_affirmed: npt.ArrayLike, num_denied: npt.ArrayLike, num_open: npt.ArrayLike
) -> npt.NDArray[np.bool_]:
    """Whether a run that has answers has none in more pictures than it answers with no. All of one shape."""
    has_answers = np.add(num_affirmed, num_denied) > 0
    return np.asarray(has_answers & (np.asarray(num_open) > np.asarray(num_denied)), dtype=np.bool_)


def p_values(changes: Counts) -> npt.NDArray[np.float64]:
    """Shape (n,); NaN where no picture changed, so that there is nothing to test.

    changes: shape (n, 4), pictures that the first run finds and the second denies, the reverse, those that the first
    finds and the second leaves open, and the reverse.
    """
    only_a, only_b, open_in_b, open_in_a = changes.T
    all_a, all_b = only_a + open_in_b, only_b + open_in_a
    larger = np.maximum(mcnemar_p(only_a, only_b), mcnemar_p(all_a, all_b))
    is_opposite = (only_a - only_b) * (all_a - all_b) < 0
    return np.where(only_a + only_b == 0, np.nan, np.where(is_opposite, 1.0, larger))


def adjusted_p_values(changes: Counts, is_tested: npt.NDArray[np.bool_]) -> list[tuple[float | None, float | None]]:
    """p, and p adjusted for all that are tested; None where nothing is. changes: as of `p_values`.

    What did not change in any picture takes no part: given that none changed, its test could not come out small.
    """
    p_values_ = np.where(is_tested, p_values(changes), np.nan)
    places = np.flatnonzero(~np.isnan(p_values_))
    adjusted = dict(zip(places.tolist(), holm(p_values_[places].tolist()), strict=True))
    return [
        (float(p_values_[index]) if index in adjusted else None, adjusted.get(index)) for index in range(len(p_values_))
    ]
