"""Answers of a run about its pictures, and the labels of these pictures, as arrays of the same shape."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.images.phash import near_duplicate_groups
from reports.evaluation.metrics import Levels, band_of
from reports.labels.joining import Joined
from reports.statistics.binary import Numbers
from scoring import severity
from scoring.labels.table import attribute_values
from scoring.privacy import judges_private, private_condition, private_of_labels, private_of_rows, protocol_name
from scoring.severity import scores_with_gaps
from scoring.table import Col, numbers_of
from scoring.taxonomy import KEYS

ROW_COLUMNS = (
    *(Col.SHARD, Col.INDEX, Col.KEY, Col.CATEGORY, Col.SHA256, Col.PHASH, Col.STATUS, *KEYS, Col.LEVEL, Col.SCORE),
    *(Col.HOLISTIC_SCORE, Col.PRIVATE_ANSWER, Col.PROB_PRIVATE, *map(Col.prob, KEYS)),
)
"""Columns of a run that an evaluation reads."""


@dataclass(frozen=True)
class Truth:
    """Labels of n pictures. NaN where nothing was labelled."""

    values: Numbers
    """Shape (n, attributes), canonical order: 0, 0.5, 1 or NaN."""

    private: Numbers
    """Shape (n,): 1, 0 or NaN, as `scoring.privacy.private_of_labels` says."""

    num_open: int
    """Pictures with labels of attributes that leave open whether they are private."""

    @property
    def is_one_sided(self) -> bool:
        """Return whether the labels are one-sided: no private picture, no public one, or more open pictures than public
        ones.

        What is known then depends on the truth, as where only attributes that are present were labelled.
        """
        num_private, num_public = int((self.private == 1).sum()), int((self.private == 0).sum())
        return not num_private or not num_public or self.num_open > num_public

    score: Numbers
    """Shape (n,), 0–1 or NaN. As labelled; else by the formula from the attributes."""

    levels: Levels
    """Shape (n,), 0…4: of the attributes; else the band of the score. Also 0 where nothing is known."""


@dataclass(frozen=True)
class RunAnswers:
    """Answers of a run about n pictures. NaN where it has none."""

    values: Numbers
    """Shape (n, attributes), canonical order: 0, 0.5, 1 or NaN."""

    probabilities: Numbers
    """Shape (n, attributes): P(present) or NaN."""

    private: Numbers
    """Shape (n,): 1, 0 or NaN (quarantined or unknown), as `scoring.privacy.private_of_rows` says."""

    says_private: bool
    """Whether the engine judges anything that decides what is private."""

    says_severity: bool
    """Whether the protocol asks for a score; then the score is `holistic_score`, else `score`."""

    says_attributes: bool
    """Whether the protocol asks for attributes."""

    prob_private: Numbers
    """Shape (n,), 0–1 or NaN."""

    holistic_score: Numbers
    """Shape (n,), 0–1 or NaN: the model's own score."""

    score: Numbers
    """Shape (n,), 0–1 or NaN: the score by the formula."""

    levels: Levels
    """Shape (n,), 0…4: of the attributes; also 0 where nothing was assessed."""


def truth_of(labels: pa.Table) -> Truth:
    """Return the truth according to a table of `LABELS_SCHEMA`."""
    values = attribute_values(labels).astype(np.float64)
    private = private_of_labels(numbers_of(labels, "private"), values)
    score, formula = numbers_of(labels, "score"), scores_with_gaps(values)
    of_values = severity.level_of(severity.lexicographic(severity.level_counts(values == 1)))
    levels = np.where(np.isnan(formula), band_of(np.nan_to_num(score)), of_values)
    return Truth(
        values=values,
        private=private,
        num_open=int((np.isnan(private) & ~np.isnan(values).all(axis=1)).sum()),
        score=np.where(np.isnan(score), formula, score),
        levels=levels,
    )


def answers_of(rows: pa.Table, engine: Mapping[str, Any]) -> RunAnswers:
    """Return the answers of a run. rows: with the columns `ROW_COLUMNS`. engine: as run.json describes it."""
    holistic_score = numbers_of(rows, Col.HOLISTIC_SCORE)
    return RunAnswers(
        values=np.stack([numbers_of(rows, key) for key in KEYS], axis=1),
        probabilities=np.stack([numbers_of(rows, Col.prob(key)) for key in KEYS], axis=1),
        private=private_of_rows(rows, engine),
        says_private=judges_private(engine, private_condition(engine)),
        says_severity=protocol_name(engine) == "severity" or not np.isnan(holistic_score).all(),
        says_attributes=bool(engine["assessed"]),
        prob_private=numbers_of(rows, Col.PROB_PRIVATE),
        holistic_score=holistic_score,
        score=numbers_of(rows, Col.SCORE),
        levels=np.nan_to_num(numbers_of(rows, Col.LEVEL)).astype(np.int64),
    )


def near_duplicates(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the group of near duplicates of each row, from 0. Shape (n,).

    rows: with the columns sha256 and phash. Rows without a perceptual hash (quarantined) share
    a group if their bytes are equal; a row without bytes has its own group.
    """
    hashes, perceptual = rows[Col.SHA256].to_pylist(), rows[Col.PHASH].to_pylist()
    near = near_duplicate_groups(perceptual)
    names = [
        f"near {near[index]}" if perceptual[index] is not None else f"row {index}" if hash_ is None else hash_
        for index, hash_ in enumerate(hashes)
    ]
    _, groups = np.unique(names, return_inverse=True)
    return groups.astype(np.int64)


@dataclass(frozen=True)
class JudgedRun:
    """A run and the labels of its pictures, row by row, before any metric."""

    run: str
    engine: str
    cautions: tuple[str, ...]
    joined: Joined
    truth: Truth
    answers: RunAnswers
    is_screened: npt.NDArray[np.bool_]
    """Shape (n,): labelled pictures that the screen of the scan left out; they count as answered public."""
