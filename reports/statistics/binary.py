"""Yes or no: confusion counts, the rates that follow from them, and how rejections are counted.

Source of the metrics, of the rule for rejections and of the MCC of a class (Table 3): Samson et al., "Privacy-Aware
Visual Language Models", section 4. `classwise` has precision, recall and F1 of private and of public, and their mean
weighted by support: Zhao et al., "PrivacyAlert", Tables 3–7.
"""

from collections.abc import Mapping, Sequence
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
    """Metrics of the four confusion counts; positive is private. A rate is None if the data do not define it."""

    num_pictures: int
    num_true_positive: int
    num_false_positive: int
    num_false_negative: int
    num_true_negative: int

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
    flags = [truth & predicted, ~truth & predicted, truth & ~predicted, ~truth & ~predicted]
    return np.stack(flags, axis=-1).astype(np.float64)


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


MAX_CLASSES = 1000
"""More make the table too long to read; the column probably holds names of pictures."""


@dataclass(frozen=True)
class PrivateClass:
    """One class of private pictures, with all public pictures where a figure needs these."""

    name: str
    """As the labels give it."""

    num_pictures: int
    recall: float | None
    f1: float | None
    mcc: float | None
    """None without a public picture."""


@dataclass(frozen=True)
class SideRates:
    """Rates of the private or the public pictures, or their mean over both weighted by support. None: not defined."""

    precision: float | None
    recall: float | None
    f1: float | None
    support: int
    """Labelled pictures, each counting as its weight."""


@dataclass(frozen=True)
class Classwise:
    """The table of the PrivacyAlert paper: each side as the class that is looked for, and both weighted by support."""

    private: SideRates
    public: SideRates
    overall: SideRates
    """None if one of the sides is not defined although it has pictures."""

    accuracy: float | None


def per_class(truth: Flags, predicted: Flags, classes: Sequence[str | None]) -> tuple[PrivateClass, ...]:
    """Return the metrics of each class of private pictures, by name; empty if there are more than `MAX_CLASSES`.

    All of shape (n,). classes: of each picture, None if it has none.
    """
    counted, names = cells(truth, predicted), np.array(classes, dtype=object)
    distinct = sorted({name for name in names[truth] if name is not None})
    found = []
    for name in distinct if len(distinct) <= MAX_CLASSES else ():
        of_class = counted[truth & (names == name)].sum(axis=0)
        metrics = rates(of_class + counted[~truth].sum(axis=0))
        recall, f1, mcc = (known(metrics[metric]) for metric in ("recall", "f1", "mcc"))
        found.append(PrivateClass(name, int(of_class.sum()), recall, f1, mcc))
    return tuple(found)


def classwise(counts: Numbers) -> Classwise:
    """Return the metrics of both sides from confusion counts, shape (4,), TP, FP, FN, TN of private, each picture
    counting as its weight."""
    counts = np.asarray(counts, dtype=np.float64)
    supports = np.array([counts[TP] + counts[FN], counts[FP] + counts[TN]])
    of_sides = (rates(counts), rates(counts[::-1]))  # reversed, the counts are those of public
    sides = np.array([[side[name] for name in ("precision", "recall", "f1")] for side in of_sides])
    has_pictures = supports > 0
    overall = ratio(supports[has_pictures] @ sides[has_pictures], supports.sum())
    private, public, both = (
        SideRates(known(precision), known(recall), known(f1), round(float(support)))
        for (precision, recall, f1), support in zip((*sides, overall), (*supports, supports.sum()), strict=True)
    )
    return Classwise(private, public, both, known(of_sides[0]["accuracy"]))
