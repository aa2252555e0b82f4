"""The metrics that know the taxonomy: how well a run finds each attribute, and how close its severity scores
are to the true ones.

A value of 0.5 counts as absent, in labels and answers, as in Tsaprazlis et al., section 4. Values that were not
labelled or not answered (null) count only for the coverage.

Source of the metrics of severity: Tsaprazlis et al., "Rethinking Visual Privacy", section 6: Spearman ρ, Pearson r,
MAE, bias, level accuracy, pairwise accuracy, confusion of levels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from reports.statistics.binary import BinaryMetrics, Numbers, cells, known, of_counts, rates
from reports.statistics.correlation import PairwiseAccuracy, pairwise_by_level, weighted_pearson, weighted_spearman
from reports.statistics.intervals import Draws, Interval, of_macro_f1, of_shares
from scoring.severity import BANDS
from scoring.taxonomy import KEYS

WITH_INTERVALS = ("f1", "recall", "precision")


@dataclass(frozen=True)
class AttributeMetrics(BinaryMetrics):
    """Metrics for the pictures in which this attribute is labelled and answered; "private" there means present."""

    kappa: float | None
    """Cohen's κ of label and answer, −1…1; None if both are always the same."""

    num_labelled: int
    num_not_answered: int
    num_present: int
    """Labelled present, answered or not."""

    num_present_not_answered: int
    """How many of these have a null answer; they are in no rate. An engine that only affirms missed them."""

    coverage: float | None
    """Share of the labelled pictures that were answered, 0–1; None without a label."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """95 % interval of f1, recall and precision."""


@dataclass(frozen=True)
class AttributeSummary:
    """All attributes together."""

    macro_f1: float | None
    """Mean F1 of the attributes that have one; None if none has."""

    num_in_macro: int
    without_f1: tuple[str, ...]
    """Attributes that have labels, but no F1: neither labelled present nor answered so, or never answered."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """95 % interval of macro_f1, over the same attributes."""


def attribute_metrics(
    truth: Numbers, answers: Numbers, draws: Draws | None = None
) -> tuple[dict[str, AttributeMetrics], AttributeSummary]:
    """Return the metrics of each attribute that has a label, and their summary.

    truth, answers: shape (n, attributes) in canonical order; 0, 0.5, 1 or NaN. There are no intervals without `draws`.
    """
    is_both = ~np.isnan(truth) & ~np.isnan(answers)
    counted = cells(truth == 1, answers == 1) * is_both[..., None]  # (n, attributes, 4)
    counts = counted.sum(axis=0)
    by_key = {}
    for index, key in enumerate(KEYS):
        num_labelled = int((~np.isnan(truth[:, index])).sum())
        if not num_labelled:
            continue
        num_present = int((truth[:, index] == 1).sum())
        metrics = of_counts(counts[index])
        intervals = of_shares(counted[:, index], draws) if draws is not None else {}
        by_key[key] = AttributeMetrics(
            **vars(metrics),
            kappa=known(rates(counts[index])["kappa"]),
            num_labelled=num_labelled,
            num_not_answered=num_labelled - metrics.num_pictures,
            num_present=num_present,
            num_present_not_answered=num_present - metrics.num_true_positive - metrics.num_false_negative,
            coverage=metrics.num_pictures / num_labelled,
            intervals={name: intervals[name] for name in WITH_INTERVALS if name in intervals},
        )
    scores = [item.f1 for item in by_key.values() if item.f1 is not None]
    interval = None if draws is None else of_macro_f1(counted, draws)
    return by_key, AttributeSummary(
        macro_f1=float(np.mean(scores)) if scores else None,
        num_in_macro=len(scores),
        without_f1=tuple(key for key, metrics in by_key.items() if metrics.f1 is None),
        intervals={} if interval is None else {"macro_f1": interval},
    )


Levels = npt.NDArray[np.int64]

SEVERITY_METRICS = ("spearman", "pearson", "mae", "bias", "level_accuracy")

_EDGES = np.array(sorted(low for low, _ in BANDS if low > 0), dtype=np.float32)
"""As float32, in which scores are stored: as float64, a stored 0.711 could fall below the edge 0.711."""


@dataclass(frozen=True)
class ScoreMetrics:
    """Metrics for the pictures that have a true and a predicted score. None: not defined on these pictures."""

    num_pictures: int
    spearman: float | None
    """Rank correlation with mean ranks for ties, −1…1; None if one side is constant."""

    pearson: float | None
    """Correlation, −1…1; None if one side is constant."""

    mae: float | None
    """Mean absolute error of the score, 0–1."""

    bias: float | None
    """Mean of predicted − true score, −1…1."""

    level_accuracy: float | None
    """Share of pictures whose predicted level is the true one, 0–1; no level counts as level 4."""

    pairwise_inter: PairwiseAccuracy
    pairwise_intra: PairwiseAccuracy
    """Over pairs of pictures of different true levels, and of the same one."""

    confusion: tuple[tuple[int, ...], ...]
    """4 × 4 counts: rows are true levels 1…4, columns predicted levels 1…4."""


def band_of(scores: Numbers) -> Levels:
    """Return the level whose band holds the score, 1…4; an edge belongs to the more severe band. Scores without NaN."""
    return np.asarray(4 - np.digitize(scores.astype(np.float32), _EDGES), dtype=np.int64)


def as_four_levels(levels: Levels) -> Levels:
    """Return the levels with 0 (no attribute) as 4, where the paper's tables count it."""
    return np.where(levels == 0, 4, levels)


def score_metrics(
    truth: Numbers, predicted: Numbers, true_levels: Levels, predicted_levels: Levels | None = None
) -> ScoreMetrics:
    """Return the metrics of predicted scores.

    All arguments have the shape (n,): scores in [0, 1] without NaN, levels 0…4.
    predicted_levels: None for the bands of the predicted scores. A formula score has levels of its own, which are also
    right at the four edges, where a score ties with that of the next level.
    """
    actual = as_four_levels(true_levels)
    answered = as_four_levels(band_of(predicted) if predicted_levels is None else predicted_levels)
    inter, intra = pairwise_by_level(truth, predicted, actual)
    equal_weights, errors = np.ones((1, len(truth))), predicted - truth
    confusion = np.histogram2d(actual, answered, bins=(np.arange(1, 6), np.arange(1, 6)))[0].astype(np.int64)
    return ScoreMetrics(
        num_pictures=len(truth),
        spearman=known(weighted_spearman(truth, predicted, equal_weights)[0]),
        pearson=known(weighted_pearson(truth, predicted, equal_weights)[0]),
        mae=mean(np.abs(errors)),
        bias=mean(errors),
        level_accuracy=mean(actual == answered),
        pairwise_inter=inter,
        pairwise_intra=intra,
        confusion=tuple(map(tuple, confusion.tolist())),
    )


def mean(values: npt.NDArray[np.generic]) -> float | None:
    """Return the mean; None without a value."""
    return float(values.mean()) if len(values) else None
