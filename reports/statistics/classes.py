"""Metrics per class of the labels, as in two papers.

`per_class`: Samson et al., "Privacy-Aware Visual Language Models", section 4: the private pictures of a class against
exclusive batches of as many public ones. Its Table 3 is another figure: the MCC of a class against all public pictures.
`classwise`: Zhao et al., "PrivacyAlert", Tables 3–7: precision, recall and F1 of private and of public, and their mean
weighted by support.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.statistics.binary import Flags, Numbers, cells, known, of_counts, rates

MAX_CLASSES = 1000
"""More make the table too long to read; the column probably holds names of pictures."""

BATCH = "batch "
"""Beginning of the column `split` of public pictures whose labels say in which batch they are."""


@dataclass(frozen=True)
class PrivateClass:
    """One class of private pictures against batches of as many public pictures; every figure is a mean over batches."""

    name: str
    """As the labels give it."""

    num_pictures: int
    """Private pictures of this class."""

    num_batches: int
    """Batches of as many public pictures, without overlap; 0 if there are fewer public pictures than that."""

    recall: float | None
    """Share of the class's pictures that were answered private; needs no public picture."""

    mcc: float | None
    """Mean over the batches; None without a batch."""

    f1: float | None
    """Mean over the batches."""

    precision: float | None
    """Mean over the batches."""

    specificity: float | None
    """Mean over the batches."""

    balanced_accuracy: float | None
    """Mean over the batches."""

    mcc_against_all: float | None = None
    """MCC against all public pictures together, as in the paper's Table 3; None without a public picture."""


@dataclass(frozen=True)
class ClassMetrics:
    """Precision, recall and F1 of one side, or their mean over both sides weighted by support. None: not defined."""

    precision: float | None
    """0–1."""

    recall: float | None
    """0–1."""

    f1: float | None
    """0–1."""

    support: int
    """Labelled pictures."""


@dataclass(frozen=True)
class Classwise:
    """The table of the PrivacyAlert paper."""

    private: ClassMetrics
    """Private as the class that is looked for."""

    public: ClassMetrics
    """Public as the class that is looked for."""

    overall: ClassMetrics
    """Both, weighted by support; None if one of them is not defined although it has pictures."""

    accuracy: float | None
    """Share of right answers."""


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
    """Return the metrics of both sides from confusion counts, shape (4,), TP, FP, FN, TN of private."""
    private, public = _side(counts), _side(counts[::-1])
    total = private.support + public.support
    sides = [side for side in (private, public) if side.support]

    def weighted(values: Sequence[float | None]) -> float | None:
        known = [value * side.support for value, side in zip(values, sides, strict=True) if value is not None]
        return sum(known) / total if sides and len(known) == len(sides) else None

    overall = ClassMetrics(
        weighted([side.precision for side in sides]),
        weighted([side.recall for side in sides]),
        weighted([side.f1 for side in sides]),
        total,
    )
    return Classwise(private, public, overall, of_counts(counts).accuracy)


def _side(counts: Numbers) -> ClassMetrics:
    metrics = rates(np.asarray(counts, dtype=np.float64))
    return ClassMetrics(
        known(metrics["precision"]), known(metrics["recall"]), known(metrics["f1"]), round(float(counts[0] + counts[2]))
    )
