"""How well each metric follows what was recognised, over sets of changed pictures.

The unit is the set: the mean of a metric over its pairs against the share of its pairs that were recognised. Source:
Sun et al., "Privacy Assessment on Reconstructed Images: Are Existing Evaluation Metrics Faithful to Human Perception?",
2023, whose sets were the outputs of 14 models.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError
from reports.similarity.results import METRICS
from reports.statistics.correlation import RankCorrelation, area_under_curve, rank_correlation

METRIC_NAMES = {"mse": "MSE", "psnr": "PSNR", "ssim": "SSIM", "lpips": "LPIPS", "semsim": "SemSim"}

Votes = Mapping[tuple[str, str], Sequence[float]]
"""Set and key -> what each annotator said, 1 for recognised; a single share for detectors."""


@dataclass(frozen=True)
class RankedSet:
    name: str
    num_pairs: int
    recognised: float
    """Share of the pairs that were recognised, 0 to 1."""

    means: Mapping[str, float | None]
    """Metric -> its mean over these pairs."""


@dataclass(frozen=True)
class MetricRanks:
    """One metric. Its sign is turned where lower means more alike, so that 1 is a perfect order for all of them."""

    of_sets: RankCorrelation
    of_pairs: float | None
    """Area under the ROC curve over single pairs, 0.5 by chance; None unless some were recognised and some were not."""


@dataclass(frozen=True)
class CollectionRanks:
    """The sets of one collection of originals."""

    name: str
    sets: tuple[RankedSet, ...]
    metrics: Mapping[str, MetricRanks]
    """Metrics that are defined for every set."""

    num_without_answer: int
    """Compared pairs without any judgement."""

    num_tied: int
    """Pairs with as many votes for as against; they are left out."""


@dataclass(frozen=True)
class Ranking:
    """Result of `similarity rank`."""

    judge: str
    collections: tuple[CollectionRanks, ...]


def ranks_of(name: str, pairs: pa.Table, votes: Votes) -> CollectionRanks:
    """Compare the order of the sets by each metric with how many pairs were recognised.

    pairs: as `results.PAIRS_SCHEMA`. LabelsError if fewer than three sets have a judged pair.
    """
    by_set, num_without, num_tied = defaultdict[str, list[tuple[dict[str, float], float]]](list), 0, 0
    for row in pairs.to_pylist():
        if row["state"] != "compared":
            continue
        given = votes.get((row["set"], row["key"]))
        if not given:
            num_without += 1
            continue
        share = sum(given) / len(given)
        if len(given) > 1 and share == 0.5:
            num_tied += 1
            continue
        recognised = float(share > 0.5) if len(given) > 1 else share
        by_set[row["set"]].append(({metric: row[metric] for metric in METRICS}, recognised))
    if len(by_set) < 3:
        raise LabelsError(
            f"{name}: an order needs at least three sets with judged pairs, and there are {len(by_set)}; labels are "
            "found by set and key, as similarity compare wrote them"
        )
    sets = tuple(_set(set_name, judged) for set_name, judged in by_set.items())
    everything = [pair for judged in by_set.values() for pair in judged]
    metrics = {
        metric: MetricRanks(_of_sets(metric, sets), _of_pairs(metric, everything))
        for metric in METRICS
        if all(each.means[metric] is not None for each in sets)
    }
    return CollectionRanks(name, sets, metrics, num_without, num_tied)


def _set(name: str, judged: Sequence[tuple[Mapping[str, float | None], float]]) -> RankedSet:
    means = dict[str, float | None]()
    for metric in METRICS:
        known = [value for metrics, _ in judged if (value := metrics[metric]) is not None]
        means[metric] = float(np.mean(known)) if known else None
    return RankedSet(name, len(judged), float(np.mean([recognised for _, recognised in judged])), means)


def _of_sets(metric: str, sets: Sequence[RankedSet]) -> RankCorrelation:
    sign = 1 if METRICS[metric] else -1
    means = [mean for each in sets if (mean := each.means[metric]) is not None]
    return rank_correlation(sign * np.array(means), np.array([each.recognised for each in sets]))


def _of_pairs(metric: str, judged: Sequence[tuple[Mapping[str, float | None], float]]) -> float | None:
    sign = 1 if METRICS[metric] else -1
    sides = tuple(
        np.array(
            [sign * value for metrics, given in judged if given == side and (value := metrics[metric]) is not None]
        )
        for side in (1.0, 0.0)
    )
    return area_under_curve(*sides)
