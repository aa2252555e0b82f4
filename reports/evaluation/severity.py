"""Metrics for how close predicted severity scores are to the true ones.

Source: Tsaprazlis et al., "Rethinking Visual Privacy", section 6: Spearman ρ, Pearson r, MAE, bias, level accuracy,
pairwise accuracy, confusion of levels.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.statistics.binary import Numbers, known
from reports.statistics.correlation import (
    PairwiseAccuracy,
    moments,
    pairwise_by_level,
    pearson_of_sums,
    weighted_spearman,
)
from scoring.severity import BANDS

Levels = npt.NDArray[np.int64]

METRICS = ("spearman", "pearson", "mae", "bias", "level_accuracy")
NUM_BINS = 20
"""Number of bins of the histograms: each is 0.05 wide."""

_EDGES = np.array(sorted(low for low, _ in BANDS if low > 0), dtype=np.float32)
"""As float32, in which scores are stored: as float64, a stored 0.711 could fall below the edge 0.711."""


@dataclass(frozen=True)
class ScoreMetrics:
    """Metrics for the pictures that have a true and a predicted score. None: not defined on these pictures."""

    num_pictures: int
    """Pictures with both scores."""

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
    """Over pairs of pictures of different true levels."""

    pairwise_intra: PairwiseAccuracy
    """Over pairs of pictures of the same true level."""

    confusion: tuple[tuple[int, ...], ...]
    """4 × 4 counts: rows are true levels 1…4, columns predicted levels 1…4."""

    histogram_true: tuple[tuple[int, ...], ...]
    """4 × 20 counts: per true level, the true scores in bins of 0.05."""

    histogram_predicted: tuple[tuple[int, ...], ...]
    """4 × 20 counts: per true level, the predicted scores in bins of 0.05."""


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
    equal_weights = np.ones((1, len(truth)))
    return ScoreMetrics(
        num_pictures=len(truth),
        spearman=known(weighted_spearman(truth, predicted, equal_weights)[0]),
        pearson=known(pearson_of_sums(moments(truth, predicted).sum(axis=0))),
        **means(truth, predicted, actual == answered),
        pairwise_inter=inter,
        pairwise_intra=intra,
        confusion=_table(np.histogram2d(actual, answered, bins=(np.arange(1, 6), np.arange(1, 6)))[0]),
        histogram_true=_histogram(actual, truth),
        histogram_predicted=_histogram(actual, predicted),
    )


def means(truth: Numbers, predicted: Numbers, is_level_right: npt.NDArray[np.bool_]) -> dict[str, float | None]:
    """Return MAE, bias and level accuracy; None without a picture."""
    if not len(truth):
        return {"mae": None, "bias": None, "level_accuracy": None}
    errors = predicted - truth
    return {
        "mae": float(np.abs(errors).mean()),
        "bias": float(errors.mean()),
        "level_accuracy": float(is_level_right.mean()),
    }


def _histogram(levels: Levels, scores: Numbers) -> tuple[tuple[int, ...], ...]:
    places = np.minimum((scores * NUM_BINS + 1e-6).astype(np.int64), NUM_BINS - 1)
    table = np.zeros((4, NUM_BINS), dtype=np.int64)
    np.add.at(table, (levels - 1, places), 1)
    return _table(table)


def _table(counts: npt.NDArray[np.generic]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(count) for count in row) for row in counts)
