"""Pairwise accuracy: how many pairs of pictures the predictions put into the order of the truth.

Source: Tsaprazlis et al., "Rethinking Visual Privacy", section 6. Over all pairs, since the paper does not say which it
chose. A pair whose truths are equal has no order and is left out; a pair whose predictions are equal is wrong.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.statistics.binary import Numbers, known


@dataclass(frozen=True)
class PairwiseAccuracy:
    """Share of the ordered pairs that the predictions order as the truth does."""

    num_pairs: int
    """Pairs with different truths."""

    num_right: int
    """How many of these have predictions in the same order."""

    accuracy: float | None
    """num_right / num_pairs, 0–1; None without a pair."""


def pairwise_by_level(
    truth: Numbers, predicted: Numbers, levels: npt.NDArray[np.int64]
) -> tuple[PairwiseAccuracy, PairwiseAccuracy]:
    """The pairs across levels, and those inside of one level. levels: the true ones, shape (n,)."""
    ordered, right = num_ordered(truth), num_concordant(truth, predicted)
    inside = [(num_ordered(truth[of]), num_concordant(truth[of], predicted[of])) for of in _places(levels)]
    intra_ordered, intra_right = sum(pair[0] for pair in inside), sum(pair[1] for pair in inside)
    return _accuracy(ordered - intra_ordered, right - intra_right), _accuracy(intra_ordered, intra_right)


def num_ordered(truth: Numbers) -> int:
    """Pairs whose truths differ."""
    _, counts = np.unique(truth, return_counts=True)
    return _num_pairs(len(truth)) - sum(_num_pairs(int(count)) for count in counts)


def num_concordant(truth: Numbers, predicted: Numbers) -> int:
    """Pairs for which truth and prediction differ in the same direction. Takes O(n log² n) steps, all in numpy.

    In the order of the truth, and of falling predictions among equal truths, these are the pairs whose first prediction
    is smaller than the second. They are counted as a merge sort counts inversions: at each of its log n merges, all of
    one width at once, every prediction of a right half is looked up in its sorted left half.
    """
    order = np.lexsort((-predicted, truth))
    _, ranks = np.unique(predicted[order], return_inverse=True)
    n = len(ranks)
    values, places = ranks.astype(np.int64), np.arange(n)
    num_pairs, width = 0, 1
    while width < n:
        block = places // (2 * width)
        is_left = places % (2 * width) < width
        keys = values + block * (n + 1)  # rising over the left halves, since each of them is sorted
        before = np.searchsorted(keys[is_left], keys[~is_left], side="left")
        num_pairs += int((before - np.searchsorted(block[is_left], block[~is_left], side="left")).sum())
        values = np.sort(keys) - block * (n + 1)
        width *= 2
    return num_pairs


def _places(levels: npt.NDArray[np.int64]) -> list[npt.NDArray[np.bool_]]:
    return [levels == level for level in np.unique(levels)]


def _num_pairs(n: int) -> int:
    return n * (n - 1) // 2


def _accuracy(num_pairs: int, num_right: int) -> PairwiseAccuracy:
    return PairwiseAccuracy(num_pairs, num_right, known(num_right / num_pairs) if num_pairs else None)
