"""Metrics for how well a run finds each of the 22 attributes.

A value of 0.5 is ambiguous. It counts as absent, in labels and answers, or as present on request; Tsaprazlis et al.,
section 4, count it as absent. Values that were not labelled or not answered (null) count only for the coverage.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from reports.statistics.bayesian_bootstrap import Draws
from reports.statistics.binary import BinaryMetrics, Numbers, cells, known, of_counts, rates
from reports.statistics.calibration import Calibration, calibration
from reports.statistics.intervals import Interval, of_macro_f1, of_shares
from scoring.taxonomy import KEYS

Ambiguous = Literal["absent", "present"]

WITH_INTERVALS = ("f1", "recall", "precision")


@dataclass(frozen=True)
class AttributeMetrics(BinaryMetrics):
    """Metrics for the pictures in which this attribute is labelled and answered; "private" there means present."""

    kappa: float | None
    """Cohen's κ of label and answer, −1…1; None if both are always the same."""

    num_labelled: int
    """Pictures whose label is not null."""

    num_not_answered: int
    """How many of these have a null answer."""

    num_present: int
    """Labelled present, answered or not."""

    num_present_not_answered: int
    """How many of these have a null answer; they are in no rate. An engine that only affirms missed them."""

    coverage: float | None
    """Share of the labelled pictures that were answered, 0–1; None without a label."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """95 % interval of f1, recall and precision."""

    calibration: Calibration | None = None
    """Calibration of the engine's P(present); None if it gives none."""


@dataclass(frozen=True)
class AttributeSummary:
    """All attributes together."""

    macro_f1: float | None
    """Mean F1 of the attributes that have one; None if none has."""

    num_in_macro: int
    """Number of these attributes."""

    without_f1: tuple[str, ...]
    """Attributes that have labels, but no F1: neither labelled present nor answered so, or never answered."""

    ambiguous: Ambiguous
    """What a value of 0.5 counts as."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """95 % interval of macro_f1, over the same attributes."""


def attribute_metrics(
    truth: Numbers,
    answers: Numbers,
    probabilities: Numbers,
    ambiguous: Ambiguous = "absent",
    draws: Draws | None = None,
) -> tuple[dict[str, AttributeMetrics], AttributeSummary]:
    """Return the metrics of each attribute that has a label, and their summary.

    truth, answers, probabilities: shape (n, 22) in canonical order; values 0, 0.5, 1 or NaN, probabilities P(present)
    or NaN. There are no intervals without `draws`.
    """
    bound = 1.0 if ambiguous == "absent" else 0.5
    is_both = ~np.isnan(truth) & ~np.isnan(answers)
    counted = cells(truth >= bound, answers >= bound) * is_both[..., None]  # (n, 22, 4)
    counts = counted.sum(axis=0)
    by_key = {}
    for index, key in enumerate(KEYS):
        num_labelled = int((~np.isnan(truth[:, index])).sum())
        if not num_labelled:
            continue
        num_present = int((truth[:, index] >= bound).sum())
        metrics = of_counts(counts[index])
        intervals = of_shares(counted[:, index], draws) if draws is not None else {}
        both = ~np.isnan(truth[:, index]) & ~np.isnan(probabilities[:, index])
        by_key[key] = AttributeMetrics(
            **vars(metrics),
            kappa=known(rates(counts[index])["kappa"]),
            num_labelled=num_labelled,
            num_not_answered=num_labelled - metrics.num_pictures,
            num_present=num_present,
            num_present_not_answered=num_present - metrics.num_true_positive - metrics.num_false_negative,
            coverage=metrics.num_pictures / num_labelled,
            intervals={name: intervals[name] for name in WITH_INTERVALS if name in intervals},
            calibration=calibration(truth[both, index] >= bound, probabilities[both, index]),
        )
    return by_key, _summary(by_key, ambiguous, counted, draws)


def _summary(
    by_key: Mapping[str, AttributeMetrics], ambiguous: Ambiguous, counted: Numbers, draws: Draws | None
) -> AttributeSummary:
    scores = [item.f1 for item in by_key.values() if item.f1 is not None]
    interval = None if draws is None else of_macro_f1(counted, draws)
    return AttributeSummary(
        macro_f1=float(np.mean(scores)) if scores else None,
        num_in_macro=len(scores),
        without_f1=tuple(key for key, metrics in by_key.items() if metrics.f1 is None),
        ambiguous=ambiguous,
        intervals={} if interval is None else {"macro_f1": interval},
    )
