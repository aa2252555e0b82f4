"""One label per picture from several annotators."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import LabelsError, number_of
from scoring.labels import dawid_skene
from scoring.labels.derived import scores
from scoring.labels.judgements import Floats, Judgements
from scoring.labels.table import LabelsOrigin, to_labels
from scoring.taxonomy import KEYS

Method = Literal["two-annotator", "dawid-skene"]

ANNOTATOR = "consensus"
STEPS = np.array([0.0, 0.5, 1.0], np.float32)
"""What an attribute can be."""

MIN_POSTERIOR = 0.5
"""Dawid–Skene: null below this, unless another bound is chosen."""

MIN_LEAD = 1e-6
"""Dawid–Skene: the most probable answer must be more probable than the next by this, else there is a tie."""

MAX_CLASSES = 100
"""Dawid–Skene estimates the square of this for each annotator."""


@dataclass(frozen=True)
class Consensus:
    labels: pa.Table
    """One row per picture, in `LABELS_SCHEMA`."""

    origin: LabelsOrigin
    method: Method
    annotators: tuple[str, ...]

    num_shared: int
    """Pictures of which every annotator has a row."""

    num_values: dict[str, int]
    """How many values of attributes are "1", "0.5", "0" and "null"."""

    num_private: dict[str, int]
    """The same of `private`."""

    accuracy: dict[str, float] = field(default_factory=dict)
    """Annotator -> estimated share of right answers over all attributes and `private`; only of Dawid–Skene."""


def consensus(
    found: Judgements, method: Method | None = None, *, paper_rule: bool = False, min_posterior: float | None = None
) -> Consensus:
    """One row per picture; its score is the severity of the values of consensus.

    method: None for the rule of two annotators if there are two, else Dawid–Skene.
    paper_rule: of two annotators that differ the value is 0, not 0.5, and 0.5 of both is 0.
    min_posterior: Dawid–Skene gives null if the most probable answer is less probable, and for a tie; None for
    `MIN_POSTERIOR`.
    LabelsError if the method does not fit the number of annotators, or one shares no picture with the others.
    """
    num = len(found.annotators)
    if num < 2:
        raise LabelsError(f"there is {number_of(num, 'annotator')}; a consensus needs at least two")
    found.refuse_strangers()
    method = method or ("two-annotator" if num == 2 else "dawid-skene")
    if method == "two-annotator" and num != 2:
        raise LabelsError(f"there are {num} annotators; the rule of two needs two, take --method dawid-skene")
    if method == "dawid-skene" and paper_rule:
        raise LabelsError("--paper-rule is of the method two-annotator; leave it out")
    if method == "two-annotator" and min_posterior is not None:
        raise LabelsError("--min-posterior is of the method dawid-skene; leave it out, or take --method dawid-skene")
    notes = [f"Annotators: {', '.join(found.annotators)}."]
    accuracy: dict[str, float] = {}
    if method == "two-annotator":
        values = of_two(found.values, paper_rule)
        private = _same(found.private)
        classes = _same_text(found.texts["class"])
        notes.append(_RULE_OF_PAPER if paper_rule else _RULE)
    else:
        min_posterior = MIN_POSTERIOR if min_posterior is None else min_posterior
        values, private, classes, accuracy = _most_probable(found, min_posterior)
        notes.append(f"Dawid–Skene, null below a posterior of {min_posterior:g} and where two answers tie.")
    columns: dict[str, object] = {key: values[:, i] for i, key in enumerate(KEYS)}
    columns |= {"sha256": list(found.sha256), "key": list(found.key), "annotator": [ANNOTATOR] * len(found.key)}
    columns |= {"private": pa.array(private, from_pandas=True).cast(pa.int8()), "class": list(classes)}
    columns |= {"score": scores(values), "split": list(_same_text(found.texts["split"], of_those_given=True))}
    columns["licence"] = list(_same_text(found.texts["licence"], of_those_given=True))
    labels = to_labels(columns, len(found.key))  # type: ignore[arg-type]
    return Consensus(
        labels,
        LabelsOrigin("consensus", None, labels.num_rows, {}, tuple(notes)),
        method,
        found.annotators,
        int(found.is_listed.all(axis=0).sum()),
        _counts(values),
        _counts(private),
        accuracy,
    )


_RULE = (
    "1 or 0 where both annotators say so, 0.5 where they differ, null where either did not judge; "
    "private and class are null where they differ."
)
_RULE_OF_PAPER = (
    "1 where both annotators say 1, else 0, null where either did not judge; "
    "private and class are null where they differ."
)


def of_two(values: Floats, paper_rule: bool) -> Floats:
    """Shape (2, …) -> (…): 1 only where both say 1. Null where either is null."""
    first, second = values
    if paper_rule:
        joined: Floats = np.asarray((first == 1) & (second == 1)).astype(np.float32)
    else:
        joined = np.where(first == second, first, np.float32(0.5))
    joined[np.isnan(first) | np.isnan(second)] = np.nan
    return joined


def _same(values: Floats) -> Floats:
    """Shape (A, P) -> (P,): the value that all give; null where they differ or one is null."""
    joined: Floats = values[0].copy()
    joined[(values != values[0]).any(axis=0)] = np.nan  # NaN differs from itself
    return joined


def _same_text(texts: npt.NDArray[np.object_], of_those_given: bool = False) -> list[str | None]:
    """Shape (A, P) -> one text per picture. of_those_given: annotators without a text do not count."""
    joined = []
    for column in texts.T:
        different = {text for text in column if not (of_those_given and text is None)}
        joined.append(different.pop() if len(different) == 1 else None)
    return joined


def _most_probable(
    found: Judgements, min_posterior: float
) -> tuple[Floats, Floats, list[str | None], dict[str, float]]:
    values = np.full(found.values.shape[1:], np.nan, np.float32)
    fits = []
    for i in range(len(KEYS)):
        answers = np.where(np.isnan(found.values[:, :, i]), -1, np.nan_to_num(found.values[:, :, i]) * 2).astype(int)
        if (answers >= 0).any():
            fits.append((dawid_skene.fit(answers, len(STEPS)), (answers >= 0).sum(axis=1)))
            values[:, i] = _decided(fits[-1][0], STEPS, min_posterior)
    private = np.full(found.private.shape[1], np.nan, np.float32)
    answers = np.where(np.isnan(found.private), -1, np.nan_to_num(found.private)).astype(int)
    if (answers >= 0).any():
        fits.append((dawid_skene.fit(answers, 2), (answers >= 0).sum(axis=1)))
        private = _decided(fits[-1][0], np.array([0, 1], np.float32), min_posterior)
    num_given = np.sum([given for _, given in fits], axis=0) if fits else np.zeros(len(found.annotators))
    right = np.sum([one.accuracy * given for one, given in fits], axis=0) if fits else num_given
    accuracy = {name: float(right[i] / num_given[i]) for i, name in enumerate(found.annotators) if num_given[i] > 0}
    return values, private, _classes(found.texts["class"], min_posterior), accuracy


def _classes(texts: npt.NDArray[np.object_], min_posterior: float) -> list[str | None]:
    known = sorted({text for text in texts.ravel() if text is not None})
    if not known:
        return [None] * texts.shape[1]
    if len(known) > MAX_CLASSES:
        raise LabelsError(f"there are {len(known):,} classes; Dawid–Skene takes {MAX_CLASSES}, leave out the column")
    number = {text: i for i, text in enumerate(known)} | {None: -1}
    answers = np.array([[number[text] for text in row] for row in texts], np.int64)
    decided = _decided(dawid_skene.fit(answers, len(known)), np.arange(len(known), dtype=np.float32), min_posterior)
    return [None if np.isnan(one) else known[int(one)] for one in decided]


def _decided(fitted: dawid_skene.Fit, answers: Floats, min_posterior: float) -> Floats:
    """The most probable answer, NaN if it is not probable enough, ties with another, or nobody judged the picture."""
    is_judged = ~np.isnan(fitted.posterior[:, 0])
    posterior = np.nan_to_num(fitted.posterior)
    decided: Floats = answers[posterior.argmax(axis=1)].astype(np.float32)
    ascending = np.sort(posterior, axis=1)
    best = ascending[:, -1]
    is_tie = best - ascending[:, -2] < MIN_LEAD if len(answers) > 1 else np.zeros(len(best), bool)
    decided[~is_judged | is_tie | (best < min_posterior)] = np.nan
    return decided


def _counts(values: Floats) -> dict[str, int]:
    found = {f"{step:g}": int((values == step).sum()) for step in (1, 0.5, 0)}
    return found | {"null": int(np.isnan(values).sum())}
