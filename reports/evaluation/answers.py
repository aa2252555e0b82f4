"""What a run answers about its pictures, and what labels say of them, as arrays of the same shape."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from reports.evaluation.binary import Flags, Numbers
from reports.evaluation.severity import Levels, band_of
from scoring import severity
from scoring.labels import derived
from scoring.labels.table import attribute_values
from scoring.taxonomy import ATTRIBUTES, KEYS

ROW_COLUMNS = (
    *("shard", "index", "key", "category", "sha256", "phash", "status", *KEYS, "level", "score", "holistic_score"),
    *("private", "prob_private", *(f"prob_{key}" for key in KEYS)),
)
"""What an evaluation reads of a run."""


@dataclass(frozen=True)
class Truth:
    """Labels of n pictures. NaN where nothing was labelled."""

    values: Numbers
    """Shape (n, 22), canonical order: 0, 0.5, 1 or NaN."""

    private: Numbers
    """Shape (n,): 1, 0 or NaN. As labelled; else whether an attribute of level 1 or 2 is labelled 1."""

    settled: Numbers
    """Shape (n,): as `private`, but NaN if that follows from attributes of which some that could make the picture
    private are not labelled."""

    num_partly: int
    """Pictures that count as public although some attribute of level 1 or 2 is not labelled."""

    score: Numbers
    """Shape (n,), 0–1 or NaN. As labelled; else by the formula from the attributes."""

    levels: Levels
    """Shape (n,), 0…4: of the attributes; else the band of the score. 0 where nothing is known, too."""


@dataclass(frozen=True)
class Answers:
    """What a run says of n pictures. NaN where it does not."""

    values: Numbers
    """Shape (n, 22), canonical order: 0, 0.5, 1 or NaN."""

    probabilities: Numbers
    """Shape (n, 22): P(present) or NaN."""

    private: Numbers
    """Shape (n,): 1, 0 or NaN (rejected). All NaN if `says_private` is false."""

    says_private: bool
    """Whether the protocol says what is private, by itself or by attributes of level 1 or 2."""

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
    """Shape (n,), 0…4: of the attributes; 0 where nothing was assessed, too."""


def truth_of(labels: pa.Table) -> Truth:
    """Of a table of `LABELS_SCHEMA`."""
    values = attribute_values(labels).astype(np.float64)
    of_attributes, is_partly = _private(values)
    given = _numbers(labels, "private")
    private = np.where(np.isnan(given), of_attributes, given)
    score, formula = _numbers(labels, "score"), derived.scores(values)
    of_values = severity.level_of(severity.lexicographic(severity.level_counts(values == 1)))
    levels = np.where(np.isnan(formula), band_of(np.nan_to_num(score)), of_values)
    return Truth(
        values=values,
        private=private,
        settled=np.where(is_partly & np.isnan(given), np.nan, private),
        num_partly=int((is_partly & np.isnan(given)).sum()),
        score=np.where(np.isnan(score), formula, score),
        levels=levels,
    )


def answers_of(rows: pa.Table, engine: Mapping[str, Any], threshold: float | None = None) -> Answers:
    """Of rows with the columns `ROW_COLUMNS`. engine: as run.json describes it.

    threshold: a picture is private from this prob_private on; None for the answers as they are.
    """
    values = np.stack([_numbers(rows, key) for key in KEYS], axis=1)
    given, prob_private = _numbers(rows, "private"), _numbers(rows, "prob_private")
    judges_levels = bool(set(engine["assessed"]) & {a.key for a in ATTRIBUTES if a.level in (1, 2)})
    protocol = protocol_name(engine)
    is_binary = protocol == "binary" or not np.isnan(given).all()
    holistic_score = _numbers(rows, "holistic_score")
    if threshold is not None:
        private = np.where(np.isnan(prob_private), np.nan, prob_private >= threshold)
    else:
        private = given if is_binary else _private(values)[0]
    return Answers(
        values=values,
        probabilities=np.stack([_numbers(rows, f"prob_{key}") for key in KEYS], axis=1),
        private=private,
        says_private=is_binary or judges_levels or threshold is not None,
        says_severity=protocol == "severity" or not np.isnan(holistic_score).all(),
        says_attributes=bool(engine["assessed"]),
        prob_private=prob_private,
        holistic_score=holistic_score,
        score=_numbers(rows, "score"),
        levels=np.nan_to_num(_numbers(rows, "level")).astype(np.int64),
    )


def protocol_name(engine: Mapping[str, Any]) -> str:
    """Without its variant: "severity" of "severity:taxonomy". engine: as run.json describes it."""
    return str(engine["protocol"]).partition(":")[0]


def _private(values: Numbers) -> tuple[Numbers, Flags]:
    """Values of shape (n, 22) -> private 1, 0 or NaN; whether a 0 leaves some value open."""
    decisive = values[:, derived.OF_PRIVATE_LEVELS]
    is_private = np.asarray((decisive == 1).any(axis=1), dtype=np.bool_)
    known = ~np.isnan(decisive)
    is_known = np.asarray(known.any(axis=1), dtype=np.bool_)
    private = np.where(is_known, is_private.astype(np.float64), np.nan)
    is_partly = np.logical_and(is_known & ~is_private, ~known.all(axis=1))
    return private, is_partly


def _numbers(table: pa.Table, column: str) -> Numbers:
    """NaN for null."""
    return np.asarray(table[column].cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
