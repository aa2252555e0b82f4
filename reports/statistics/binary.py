"""Yes or no: confusion counts, the rates that follow from them, and how rejections are counted.

Source of the metrics and of the rule for rejections: Samson et al., "Privacy-Aware Visual Language Models", section 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]

TP, FP, FN, TN = range(4)
"""The order of confusion counts in the last axis of an array."""

METRICS = ("mcc", "balanced_accuracy", "f1", "recall", "precision", "specificity", "accuracy")
"""The rates of `BinaryMetrics`, in its order."""


@dataclass(frozen=True)
class BinaryMetrics:
    """Metrics of the four confusion counts. A rate is None if the data do not define it."""

    num_pictures: int
    """All pictures that were counted."""

    num_true_positive: int
    """Labelled private, answered private."""

    num_false_positive: int
    """Labelled public, answered private."""

    num_false_negative: int
    """Labelled private, answered public."""

    num_true_negative: int
    """Labelled public, answered public."""

    mcc: float | None
    """Matthews correlation coefficient, −1…1. None if the labels are all of one class; 0 if only the answers are."""

    balanced_accuracy: float | None
    """Mean of recall and specificity, 0–1. None if the labels are all of one class."""

    f1: float | None
    """F1 of the private class, 0–1. None if nothing is labelled private and nothing answered so."""

    recall: float | None
    """Share of the private pictures that were answered so, 0–1. None without private pictures."""

    precision: float | None
    """Share of the pictures answered private that are, 0–1. None if none was answered private."""

    specificity: float | None
    """Share of the public pictures that were answered so, 0–1. None without public pictures."""

    accuracy: float | None
    """Share of right answers, 0–1. None without pictures."""


def cells(truth: Flags, predicted: Flags) -> Numbers:
    """Return for each picture a 1 in its cell of the confusion table (TP, FP, FN, TN). Shape (n, 4)."""
    return np.stack([truth & predicted, ~truth & predicted, truth & ~predicted, ~truth & ~predicted], axis=-1).astype(
        np.float64
    )


def rates(counts: Numbers) -> Mapping[str, Numbers]:
    """Return `METRICS` and Cohen's `kappa` of confusion counts, shape (…, 4) -> shape (…,) each; NaN if not defined."""
    tp, fp, fn, tn = (counts[..., cell] for cell in (TP, FP, FN, TN))
    total = tp + fp + fn + tn
    recall, specificity = ratio(tp, tp + fn), ratio(tn, tn + fp)
    # Multiplied in this order, and rooted once, a perfect answer gives exactly 1.
    spread = np.sqrt(((tp + fp) * (tn + fn)) * ((tp + fn) * (tn + fp)))
    one_answer = (spread == 0) & (tp + fn > 0) & (tn + fp > 0)
    chance = ratio((tp + fp) * (tp + fn) + (tn + fn) * (tn + fp), total * total)
    accuracy = ratio(tp + tn, total)
    return {
        "mcc": np.where(one_answer, 0.0, ratio(tp * tn - fp * fn, spread)),
        "balanced_accuracy": (recall + specificity) / 2,
        "f1": ratio(2 * tp, 2 * tp + fp + fn),
        "recall": recall,
        "precision": ratio(tp, tp + fp),
        "specificity": specificity,
        "accuracy": accuracy,
        "kappa": ratio(accuracy - chance, 1 - chance),
    }


def kappa_of(both: int, only_first: int, only_second: int, neither: int) -> float | None:
    """Return Cohen's κ of two yes-or-no answers to the same pictures; None if it is not defined."""
    return known(rates(np.array([both, only_second, only_first, neither], dtype=np.float64))["kappa"])


def ratio(part: Numbers, whole: Numbers) -> Numbers:
    """Return part / whole; NaN where the whole is 0 or NaN."""
    divisible = np.where(whole == 0, np.nan, whole)
    return np.asarray(part / divisible, dtype=np.float64)


def of_counts(counts: Numbers) -> BinaryMetrics:
    """Return the metrics of counts of shape (4,)."""
    tp, fp, fn, tn = (int(count) for count in counts)
    metrics = {name: known(value) for name, value in rates(np.asarray(counts, dtype=np.float64)).items()}
    return BinaryMetrics(tp + fp + fn + tn, tp, fp, fn, tn, **{name: metrics[name] for name in METRICS})


def binary_metrics(truth: Flags, predicted: Flags) -> BinaryMetrics:
    """Return the metrics of predictions; both of shape (n,), True = private."""
    return of_counts(cells(truth, predicted).sum(axis=0))


def rejections_as_wrong(truth: Flags, answers: Numbers) -> Flags:
    """Return answers 1, 0 or NaN (rejected) as flags, with each rejection as the wrong class. Shape (n,)."""
    return np.where(np.isnan(answers), ~truth, answers == 1)


def known(value: float | Numbers) -> float | None:
    """Return a number as a Python float, None instead of NaN."""
    number = float(value)
    return None if np.isnan(number) else number
