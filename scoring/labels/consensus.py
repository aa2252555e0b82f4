"""One label per picture from several annotators: the rule of two, or the most common answer.

Answers have the shape (A annotators, …); NaN is no answer, and does not count. A tie is no answer.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import LabelsError, number_of
from scoring.labels.judgements import Floats, Judgements
from scoring.labels.label_files import PRIVATE_VOTES, VOTES, votes_of
from scoring.labels.table import LabelsOrigin, to_labels
from scoring.severity import scores_with_gaps
from scoring.taxonomy import KEYS

Method = Literal["two-annotator", "majority"]

ANNOTATOR = "consensus"


@dataclass(frozen=True)
class Consensus:
    labels: pa.Table
    """One row per picture, in `LABELS_SCHEMA`."""

    origin: LabelsOrigin
    method: Method
    annotators: tuple[str, ...]

    num_shared: int
    """Number of pictures with a row of every annotator."""


def consensus(judged: Judgements, method: Method | None = None, *, paper_rule: bool = False) -> Consensus:
    """Join labels to one row per picture; its score is the severity of the consensus values.

    method: None for the rule of two annotators if there are two, else the majority.
    paper_rule: if two annotators differ the value is 0, not 0.5, and 0.5 of both becomes 0. By majority: 1 if more than
    half say 1, else 0.
    LabelsError if the method does not fit the number of annotators, or an annotator shares no picture with the others.
    """
    num = len(judged.annotators)
    if num < 2:
        raise LabelsError(f"the inputs have {number_of(num, 'annotator')}; a consensus needs at least two")
    judged.refuse_strangers()
    method = method or ("two-annotator" if num == 2 else "majority")
    if method == "two-annotator" and num != 2:
        raise LabelsError(f"there are {num} annotators; the rule of two needs two, take --method majority")
    if method == "two-annotator":
        values = of_two(judged.values, paper_rule)
        private, vote = _same(judged.private), _same(judged.vote)
        classes = _same_text(judged.texts["class"])
        rule = _RULE_OF_PAPER if paper_rule else _RULE
    else:
        values = yes_of_most(judged.values) if paper_rule else most_common(judged.values)
        private = most_common(judged.private)
        vote = majority_vote(judged.private, judged.vote)
        classes = most_common_text(judged.texts["class"])
        rule = _MAJORITY_OF_PAPER if paper_rule else _MAJORITY
    columns: dict[str, object] = {key: values[:, i] for i, key in enumerate(KEYS)}
    columns |= {"sha256": list(judged.sha256), "key": list(judged.key), "annotator": [ANNOTATOR] * len(judged.key)}
    columns |= {"private": pa.array(private, from_pandas=True).cast(pa.int8()), "class": list(classes)}
    columns["vote"] = votes_of(vote)
    columns["score"] = scores_with_gaps(values)
    columns["split"] = list(_same_text(judged.texts["split"], ignores_missing=True))
    columns["licence"] = list(_same_text(judged.texts["licence"], ignores_missing=True))
    labels = to_labels(columns, len(judged.key))  # type: ignore[arg-type]
    return Consensus(
        labels,
        LabelsOrigin("consensus", None, labels.num_rows, {}, (f"Annotators: {', '.join(judged.annotators)}.", rule)),
        method,
        judged.annotators,
        int(judged.is_listed.all(axis=0).sum()),
    )


_RULE = (
    "1 or 0 where both annotators say so, 0.5 where they differ, null where either did not judge; "
    "private and class are null where they differ."
)
_RULE_OF_PAPER = (
    "1 where both annotators say 1, else 0, null where either did not judge; "
    "private and class are null where they differ."
)
_MAJORITY = "The answer that more annotators gave than any other; null where two answers tie."
_MAJORITY_OF_PAPER = (
    "An attribute is 1 where more than half of those who judged it say 1, else 0; private and class are the answer "
    "that more annotators gave than any other, null where two tie."
)


def of_two(values: Floats, paper_rule: bool) -> Floats:
    """Join two annotators, shape (2, …) -> (…): 1 only if both say 1; null if either is null."""
    first, second = values
    if paper_rule:
        joined: Floats = np.asarray((first == 1) & (second == 1)).astype(np.float32)
    else:
        joined = np.where(first == second, first, np.float32(0.5))
    joined[np.isnan(first) | np.isnan(second)] = np.nan
    return joined


def _same(values: Floats) -> Floats:
    """Join annotators, shape (A, P) -> (P,): the common value; null if they differ or one is null."""
    joined: Floats = values[0].copy()
    joined[(values != values[0]).any(axis=0)] = np.nan  # NaN differs from itself
    return joined


def _same_text(texts: npt.NDArray[np.object_], ignores_missing: bool = False) -> list[str | None]:
    """Join texts, shape (A, P) -> one per picture. ignores_missing: annotators without a text do not count."""
    joined = []
    for column in texts.T:
        different = {text for text in column if not (ignores_missing and text is None)}
        joined.append(different.pop() if len(different) == 1 else None)
    return joined


def numbered(texts: npt.NDArray[np.object_]) -> tuple[list[str], Floats]:
    """Return the different texts, sorted, and the number of each cell among them, NaN for None; shape as `texts`."""
    known = sorted({text for text in texts.ravel() if text is not None})
    number = {text: index for index, text in enumerate(known)} | {None: np.nan}
    return known, np.array([[number[text] for text in row] for row in texts], np.float32).reshape(texts.shape)


MIN_PRIVATE_STEP = min(VOTES[vote] for vote in PRIVATE_VOTES)


def most_common(answers: Floats) -> Floats:
    """Return the most common answer, shape (A, …) -> (…); NaN if two answers tie, or if there is none."""
    known = np.unique(answers[~np.isnan(answers)])
    if not known.size:
        return np.full(answers.shape[1:], np.nan, np.float32)
    counts = np.stack([(answers == answer).sum(axis=0) for answer in known])
    most = counts.max(axis=0)
    joined: Floats = known[counts.argmax(axis=0)].astype(np.float32)
    joined[((counts == most).sum(axis=0) > 1) | (most == 0)] = np.nan
    return joined


def majority_vote(private: Floats, vote: Floats) -> Floats:
    """Return the most common vote of the larger side, shapes (A, P) -> (P,); NaN if sides or votes tie.

    private: 0, 1 or NaN. vote: steps of `votes.VOTES` or NaN.
    """
    side = most_common(private)
    joined = most_common(np.where((vote >= MIN_PRIVATE_STEP) == (side == 1), vote, np.float32(np.nan)))
    joined[np.isnan(side)] = np.nan
    return joined


def yes_of_most(answers: Floats) -> Floats:
    """Return 1 where more than half of the answers are 1, else 0, shape (A, …) -> (…); NaN if there is none.

    A tie is 0. Source: the human study of Tsaprazlis et al., "Rethinking Visual Privacy".
    """
    num_given = (~np.isnan(answers)).sum(axis=0)
    joined: Floats = np.asarray(2 * (answers == 1).sum(axis=0) > num_given).astype(np.float32)
    joined[num_given == 0] = np.nan
    return joined


def most_common_text(texts: npt.NDArray[np.object_]) -> list[str | None]:
    """Return the most common text per picture, shape (A, P); None if two tie, or if there is none."""
    known, numbers = numbered(texts)
    return [None if np.isnan(index) else known[int(index)] for index in most_common(numbers)]
