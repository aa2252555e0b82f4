"""What people or detectors recognised of changed pictures, and how well each metric follows that.

The unit is the set: the mean of a metric over its pairs against the share of its pairs that were recognised. Source:
Sun et al., "Privacy Assessment on Reconstructed Images: Are Existing Evaluation Metrics Faithful to Human Perception?",
2023, whose sets were the outputs of 14 models, with five votes for each picture; the majority counts.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError
from reports.similarity.results import METRICS
from reports.statistics.correlation import RankCorrelation, area_under_curve, rank_correlation
from scoring.labels.reviews import SKIP

METRIC_NAMES = {"mse": "MSE", "psnr": "PSNR", "ssim": "SSIM", "semsim": "SemSim"}

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


VOTES_COLUMNS = ("set", "key", "annotator", "recognised")
"""Columns of the votes, as `similarity rank --labels` reads them."""


@dataclass(frozen=True)
class SetVotes:
    """The pairs of one set. Each is recognised, not recognised, tied, short of votes, or without any vote."""

    name: str
    num_recognised: int
    num_not: int

    num_tied: int
    num_few: int
    """Pairs with a vote, but fewer than are needed."""

    num_without: int

    @property
    def num_pairs(self) -> int:
        return self.num_recognised + self.num_not + self.num_tied + self.num_few + self.num_without

    @property
    def recognised(self) -> float | None:
        """Share of the pairs with a majority that were recognised; None if there is none."""
        decided = self.num_recognised + self.num_not
        return self.num_recognised / decided if decided else None


@dataclass(frozen=True)
class PersonVotes:
    name: str
    num_votes: int
    """Answers about pairs; decoys and skipped ones are none."""

    num_skipped: int
    num_decoys: int
    num_decoys_right: int
    is_left_out: bool
    """Whether the person was right on too few decoys, so that no vote counts."""


@dataclass(frozen=True)
class StudyVotes:
    """Result of `similarity votes`."""

    asked: str
    min_votes: int
    sets: tuple[SetVotes, ...]
    people: tuple[PersonVotes, ...]


def votes_of(
    questions: pa.Table, answers: pa.Table, min_votes: int, min_attention: float | None
) -> tuple[StudyVotes, pa.Table]:
    """Count the votes. Return the result, and the votes that count: `VOTES_COLUMNS`, of pairs with enough of them.

    questions, answers: with the schemas of `scoring.labels.recognition`; the last answer of each person to each
    question. min_attention: share of decoys on which a person must be right.
    """
    people = _people(answers, min_attention)
    left_out = {person.name for person in people if person.is_left_out}
    votes: Mapping[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    columns = (answers[name].to_pylist() for name in ("set", "key", "annotator", "recognised"))
    for set_name, key, name, recognised in zip(*columns, strict=True):
        if recognised is not None and name not in left_out:
            votes[set_name, key].append((name, recognised))
    counts: dict[str, list[int]] = {}
    rows = list[tuple[str, str, str, int]]()
    columns = (questions[name].to_pylist() for name in ("set", "key", "is_decoy"))
    for set_name, key, is_decoy in sorted(zip(*columns, strict=True)):
        if is_decoy:
            continue
        given = votes.get((set_name, key), [])
        of_set = counts.setdefault(set_name, [0] * 5)
        of_set[_outcome([recognised for _, recognised in given], min_votes)] += 1
        if len(given) >= min_votes:
            rows += [(set_name, key, name, recognised) for name, recognised in sorted(given)]
    sets = tuple(SetVotes(name, *of_set) for name, of_set in counts.items())
    asked = questions["asked"][0].as_py()
    arrays = [pa.array([row[n] for row in rows], pa.string() if n < 3 else pa.int8()) for n in range(4)]
    return StudyVotes(asked, min_votes, sets, people), pa.table(arrays, names=VOTES_COLUMNS)


def _outcome(votes: list[int], min_votes: int) -> int:
    """Return the place of the outcome among the counts of `SetVotes`."""
    if not votes:
        return 4
    if len(votes) < min_votes:
        return 3
    if 2 * sum(votes) == len(votes):
        return 2
    return 0 if 2 * sum(votes) > len(votes) else 1


def _people(answers: pa.Table, min_attention: float | None) -> tuple[PersonVotes, ...]:
    people = []
    by_name = defaultdict[str, list[tuple[str, str | None, bool]]](list)
    columns = (answers[name].to_pylist() for name in ("annotator", "answer", "chosen", "is_decoy"))
    for name, answer, chosen, is_decoy in zip(*columns, strict=True):
        by_name[name].append((answer, chosen, is_decoy))
    for name, given in sorted(by_name.items()):
        judged = [(chosen, is_decoy) for answer, chosen, is_decoy in given if answer != SKIP]
        decoys = [chosen for chosen, is_decoy in judged if is_decoy]
        num_right = sum(chosen is None for chosen in decoys)
        is_left_out = min_attention is not None and bool(decoys) and num_right < min_attention * len(decoys)
        num_votes = len(judged) - len(decoys)
        people.append(PersonVotes(name, num_votes, len(given) - len(judged), len(decoys), num_right, is_left_out))
    return tuple(people)
