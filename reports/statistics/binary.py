"""Yes or no: confusion counts, the rates that follow from them, and how rejections are counted.

Source of the metrics and of the rule for rejections: Samson et al., "Privacy-Aware Visual Language Models", section 4.
How much a metric moves: their Figure 7 draws parts of the benchmark without replacement; a bootstrap would give larger
deviations. Table 12 compares runs, such as one per wording of the question; the deviation here is of a sample (n − 1),
while the paper mixes both kinds.

`per_class` has the private pictures of a class against exclusive batches of as many public ones, as in section 4. The
paper's Table 3 is another figure: the MCC of a class against all public pictures. `classwise` has precision, recall and
F1 of private and of public, and their mean weighted by support: Zhao et al., "PrivacyAlert", Tables 3–7.
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

FRACTIONS = (0.5, 0.9)
NUM_SPLITS = 1000


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


@dataclass(frozen=True)
class Stability:
    """The MCC over random parts of the pictures, with its standard deviation (n − 1)."""

    fraction: float
    """Share of the pictures in each part, 0–1."""

    num_splits: int
    """Parts drawn in which the MCC is defined."""

    mcc_mean: float
    mcc_sd: float


def stability(counts: Numbers, fraction: float, num_splits: int = NUM_SPLITS, seed: int = 0) -> Stability | None:
    """Return how much the MCC moves over random parts; None if fewer than two parts have an MCC.

    counts: confusion counts, shape (4,). Drawing pictures without replacement and counting them is drawing counts from
    the multivariate hypergeometric distribution, which needs no pictures.
    """
    whole = np.asarray(counts, dtype=np.int64)
    size = int(whole.sum() * fraction)
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(whole, size, size=num_splits, method="marginals")
    mccs = rates(drawn.astype(np.float64))["mcc"]
    mccs = mccs[~np.isnan(mccs)]
    if len(mccs) < 2:
        return None
    return Stability(fraction, len(mccs), float(mccs.mean()), float(mccs.std(ddof=1)))


@dataclass(frozen=True)
class Spread:
    """One metric over several runs."""

    values: tuple[float | None, ...]
    """One per run, in order; None if it is not defined there."""

    mean: float | None
    """Mean of the runs in which it is defined; None if it is in none."""

    sd: float | None
    """Standard deviation (n − 1); None with fewer than two values."""


def spread(values: Sequence[float | None]) -> Spread:
    """Return the spread of a metric over runs; there must be at least one."""
    known = [value for value in values if value is not None]
    mean = float(np.mean(known)) if known else None
    sd = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return Spread(tuple(values), mean, sd)


MAX_CLASSES = 1000
"""More make the table too long to read; the column probably holds names of pictures."""

BATCH = "batch "
"""Beginning of the column `split` of public pictures whose labels say in which batch they are."""


@dataclass(frozen=True)
class PrivateClass:
    """One class of private pictures against batches of as many public pictures. Figures are means over the batches,
    None without one; only recall needs none."""

    name: str
    """As the labels give it."""

    num_pictures: int
    num_batches: int
    """Batches of as many public pictures, without overlap; 0 if there are fewer public pictures than that."""

    recall: float | None
    mcc: float | None
    f1: float | None
    precision: float | None
    specificity: float | None
    balanced_accuracy: float | None
    mcc_against_all: float | None = None
    """MCC against all public pictures together, as in the paper's Table 3; None without a public picture."""


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


def per_class(
    truth: Flags, predicted: Flags, classes: Sequence[str | None], seed: int = 0, parts: Sequence[str | None] = ()
) -> tuple[PrivateClass, ...]:
    """Return the metrics of each class, by name; empty if there are more than `MAX_CLASSES`.

    All of shape (n,). classes: of each picture, None if it has none. seed: of the draw of the batches. parts: of each
    picture; if all public ones have one that begins with "batch", these are the batches, and none is drawn.
    """
    public = np.flatnonzero(~truth)
    given = _given_batches(public, parts)
    public = np.random.default_rng(seed).permutation(public)
    members: dict[str, list[int]] = {}
    for index, name in enumerate(classes):
        if truth[index] and name is not None:
            members.setdefault(name, []).append(index)
    counted = cells(truth, predicted)
    if len(members) > MAX_CLASSES:
        return ()
    return tuple(_class(name, members[name], public, counted, given) for name in sorted(members))


def _given_batches(public: np.ndarray, parts: Sequence[str | None]) -> list[list[int]]:
    """Return the public pictures of each batch that the labels name; empty unless each public picture has one."""
    batches: dict[str, list[int]] = {}
    for index in public.tolist():
        part = parts[index] if len(parts) else None
        if part is None or not part.startswith(BATCH):
            return []
        batches.setdefault(part, []).append(index)
    return list(batches.values())


def _class(name: str, members: list[int], public: np.ndarray, counted: Numbers, given: list[list[int]]) -> PrivateClass:
    num = len(members)
    num_batches = len(given) or len(public) // num
    of_class = counted[members].sum(axis=0)
    if given:
        batches = np.stack([counted[batch].sum(axis=0) for batch in given])
    else:
        batches = counted[public[: num_batches * num]].reshape(num_batches, num, 4).sum(axis=1)
    means = {metric: _mean(values) for metric, values in rates(batches + of_class).items()}
    wanted = ("mcc", "f1", "precision", "specificity", "balanced_accuracy")
    return PrivateClass(
        name,
        num,
        num_batches,
        known(rates(of_class)["recall"]),
        **{metric: means[metric] for metric in wanted},
        mcc_against_all=known(rates(of_class + counted[public].sum(axis=0))["mcc"]) if len(public) else None,
    )


def _mean(values: Numbers) -> float | None:
    """Return the mean over the batches in which the metric is defined."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else None


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
