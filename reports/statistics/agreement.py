"""How far annotators agree, from sums over pictures, so that a bootstrap can weigh the pictures.

Sums have any shape (…,), and (…, K) where there is one for each of K answers. NaN where a coefficient is not defined,
as where all answers are the same: chance then explains every agreement.
"""

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


def share_of_same_pairs(counts: Numbers) -> Numbers:
    """Return the share of equal answers among the pairs of answers to each item. counts: shape (N, K), how often each
    answer was given, at least two in all. Shape (N,)."""
    num = counts.sum(axis=1)
    return np.asarray((counts * (counts - 1)).sum(axis=1) / (num * (num - 1)), dtype=np.float64)


def cohen(same: Numbers, both: Numbers, first: Numbers, second: Numbers) -> Numbers:
    """κ of two annotators. both: pictures that both judged; same: of these, with the same answer; first, second: of
    these, each answer of an annotator. Source: Cohen, "A coefficient of agreement for nominal scales", 1960."""
    expected = (first * second).sum(axis=-1) / both**2
    return _above_chance(same / both, expected)


def fleiss(same_pairs: Numbers, pictures: Numbers, answers: Numbers) -> Numbers:
    """κ of several annotators. same_pairs: for each picture the share of its pairs of answers that are the same.

    Source: Fleiss, "Measuring nominal scale agreement among many raters", 1971.
    """
    shares = answers / answers.sum(axis=-1, keepdims=True)
    return _above_chance(same_pairs / pictures, (shares**2).sum(axis=-1))


def nominal_alpha(different_pairs: Numbers, answers: Numbers) -> Numbers:
    """Krippendorff's α, any difference counting the same. different_pairs: for each picture the number of its answers
    times the share of its pairs that differ. Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011.
    """
    num = answers.sum(axis=-1)
    return _below_chance(different_pairs, (num**2 - (answers**2).sum(axis=-1)) / (num - 1))


def ordinal_alpha(coincidences: Numbers) -> Numbers:
    """Krippendorff's α, a larger difference counting more. coincidences: shape (…, K, K), pairs of answers to the same
    picture, each divided by the number of the picture's answers less one; answers in their order."""
    answers = coincidences.sum(axis=-1)
    below = np.cumsum(answers, axis=-1) - answers / 2
    distances = (below[..., :, None] - below[..., None, :]) ** 2
    by_chance = (answers[..., :, None] * answers[..., None, :] * distances).sum(axis=(-2, -1))
    return _below_chance((coincidences * distances).sum(axis=(-2, -1)), by_chance / (answers.sum(axis=-1) - 1))


def _above_chance(observed: Numbers, expected: Numbers) -> Numbers:
    left = np.where(np.isclose(expected, 1), np.nan, 1 - expected)
    return np.asarray((observed - expected) / left, dtype=np.float64)


def _below_chance(observed: Numbers, expected: Numbers) -> Numbers:
    return np.asarray(1 - observed / np.where(expected == 0, np.nan, expected), dtype=np.float64)
