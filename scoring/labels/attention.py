"""Attention checks: pictures whose answer is known, put among those that people label to find who does not look."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ingest.errors import LabelsError
from ingest.sample import printable
from scoring.labels.judgements import Judgements

CHECKS = "attention checks"
"""The annotator's name of the known answers, while they are joined with the labels."""

MIN_PRIVATE_STEP = 0.5
"""A score from here on answers "is it private?" with yes. Scores are severities: 1 is the most private."""

MAX_NAMED = 3


@dataclass(frozen=True)
class AttentionChecks:
    num_right: dict[str, int]
    """By annotator."""

    num_asked: dict[str, int]
    """By annotator; a question that was not answered does not count."""

    dropped: tuple[str, ...]
    """Annotators with a smaller share of right answers than was wanted."""

    reversed: tuple[str, ...] = ()
    """Of these, those whose scores seem to run the other way: with 1 - score they would not be dropped."""


def without_inattentive(found: Judgements, min_share: float) -> tuple[Judgements, AttentionChecks]:
    """The judgements without the checks themselves and without annotators who were right too seldom.

    found: with the known answers as the annotator `CHECKS`. Annotators who answered no check are kept.
    LabelsError if nobody answered any, or if scores are low where pictures are private.
    """
    place = found.annotators.index(CHECKS)
    others = [i for i in range(len(found.annotators)) if i != place]
    is_reversed = _refuse_reversed_scores(found, place, min_share)
    right, asked = _right_and_asked(found, place)
    if not asked[others].any():
        raise LabelsError("no annotator answered any attention check; they are found by sha256 or key")
    kept = [i for i in others if not asked[i] or right[i] / asked[i] >= min_share]
    names = {i: found.annotators[i] for i in others}
    checks = AttentionChecks(
        {names[i]: int(right[i]) for i in others},
        {names[i]: int(asked[i]) for i in others},
        tuple(names[i] for i in others if i not in kept),
        tuple(names[i] for i in others if i not in kept and is_reversed[i]),
    )
    return _part(found, kept, ~found.is_listed[place]), checks


def _refuse_reversed_scores(found: Judgements, place: int, min_share: float) -> npt.NDArray[np.bool_]:
    """Shape (A,): who answered by a score, would be dropped, and would not with 1 - score.

    LabelsError if these are at least half of those who answered by a score.
    """
    known = _private(found)[place]
    is_answer = ~np.isnan(known) & np.isnan(found.private) & ~np.isnan(found.score)
    num_right = (is_answer & ((found.score >= MIN_PRIVATE_STEP) == (known == 1))).sum(axis=1)
    num = is_answer.sum(axis=1)
    share = num_right / np.maximum(num, 1)
    is_reversed = (num > 0) & (share < min_share) & (1 - share >= min_share)
    if is_reversed.any() and 2 * is_reversed.sum() >= (num > 0).sum():
        names = [printable(found.annotators[i]) for i in np.flatnonzero(is_reversed)]
        more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
        raise LabelsError(
            f"the scores of {', '.join(names[:MAX_NAMED])}{more} are low for pictures that are known to be private and "
            "high for public ones; a score is a severity, with 1 for the most private: give 1 - score (PrivacyAlert's "
            "own numbers run from 0, clearly private, to 1, clearly public)"
        )
    return np.asarray(is_reversed, np.bool_)


def _private(found: Judgements) -> npt.NDArray[np.floating]:
    """Shape (A, N): what each says of private; scores in steps, such as PrivacyAlert's four, say it too."""
    of_score = np.where(np.isnan(found.score), np.nan, found.score >= MIN_PRIVATE_STEP)
    return np.where(np.isnan(found.private), of_score, found.private)


def _right_and_asked(found: Judgements, place: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Shape (A,) each: answers that are right, and answers, to what is known."""
    private = _private(found)
    answers = np.concatenate([found.values, private[:, :, None]], axis=2)
    known = np.concatenate([found.values[place], private[place][:, None]], axis=1)
    is_asked = ~np.isnan(known) & ~np.isnan(answers)
    is_right = is_asked & (answers == known)
    return is_right.sum(axis=(1, 2)), is_asked.sum(axis=(1, 2))


def _part(found: Judgements, annotators: list[int], is_kept: npt.NDArray[np.bool_]) -> Judgements:
    pictures = np.flatnonzero(is_kept)
    rows = np.ix_(np.array(annotators, np.int64), pictures)
    return replace(
        found,
        annotators=tuple(found.annotators[i] for i in annotators),
        sha256=tuple(found.sha256[i] for i in pictures),
        key=tuple(found.key[i] for i in pictures),
        is_listed=found.is_listed[rows],
        values=found.values[rows],
        private=found.private[rows],
        score=found.score[rows],
        texts={name: cells[rows] for name, cells in found.texts.items()},
    )
