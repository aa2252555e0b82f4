"""Attention checks: pictures whose answer is known, mixed with those that people label to detect inattentive
annotators."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ingest.errors import LabelsError
from ingest.sample import printable
from scoring.labels.judgements import Judgements

CHECKS = "attention checks"
"""The annotator's name of the known answers, while they are joined with the labels."""

MIN_PRIVATE_STEP = 0.5
"""Smallest score that answers "is it private?" with yes. Scores are severities: 1 is the most private."""

MAX_NAMED = 3


@dataclass(frozen=True)
class AttentionChecks:
    num_right: dict[str, int]
    """Number of right answers by annotator."""

    num_asked: dict[str, int]
    """Number of answered questions by annotator."""

    dropped: tuple[str, ...]
    """Annotators whose share of right answers is too small."""

    reversed: tuple[str, ...] = ()
    """Those of `dropped` whose scores seem reversed: with 1 - score they would not be dropped."""

    with_a_wrong_answer: tuple[str, ...] = ()
    """Annotators with any wrong answer: PrivacyAlert drops all of them."""


def without_inattentive(judged: Judgements, min_share: float) -> tuple[Judgements, AttentionChecks]:
    """Remove the checks themselves, and annotators who were right too rarely.

    judged: with the known answers as the annotator `CHECKS`. Annotators who answered no check are kept.
    LabelsError if no check was answered, or if scores are low for private pictures.
    """
    checks_row = judged.annotators.index(CHECKS)
    others = [i for i in range(len(judged.annotators)) if i != checks_row]
    is_reversed = _refuse_reversed_scores(judged, checks_row, min_share)
    right, asked = _right_and_asked(judged, checks_row)
    if not asked[others].any():
        raise LabelsError("no annotator answered any attention check; they are found by sha256 or key")
    kept = [i for i in others if not asked[i] or right[i] / asked[i] >= min_share]
    names = {i: judged.annotators[i] for i in others}
    checks = AttentionChecks(
        {names[i]: int(right[i]) for i in others},
        {names[i]: int(asked[i]) for i in others},
        tuple(names[i] for i in others if i not in kept),
        tuple(names[i] for i in others if i not in kept and is_reversed[i]),
        tuple(names[i] for i in others if right[i] < asked[i]),
    )
    return _part(judged, kept, ~judged.is_listed[checks_row]), checks


def _refuse_reversed_scores(judged: Judgements, checks_row: int, min_share: float) -> npt.NDArray[np.bool_]:
    """Return, shape (A,), who answered by a score and would be dropped, but not with 1 - score.

    LabelsError if these are at least half of those who answered by a score.
    """
    known = _private(judged)[checks_row]
    is_answer = ~np.isnan(known) & np.isnan(judged.private) & ~np.isnan(judged.score)
    num_right = (is_answer & ((judged.score >= MIN_PRIVATE_STEP) == (known == 1))).sum(axis=1)
    num = is_answer.sum(axis=1)
    share = num_right / np.maximum(num, 1)
    is_reversed = (num > 0) & (share < min_share) & (1 - share >= min_share)
    if is_reversed.any() and 2 * is_reversed.sum() >= (num > 0).sum():
        names = [printable(judged.annotators[i]) for i in np.flatnonzero(is_reversed)]
        more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
        raise LabelsError(
            f"the scores of {', '.join(names[:MAX_NAMED])}{more} are low for pictures that are known to be private and "
            "high for public ones; a score is a severity, with 1 for the most private: give 1 - score (PrivacyAlert's "
            "own numbers run from 0, clearly private, to 1, clearly public)"
        )
    return np.asarray(is_reversed, np.bool_)


def _private(judged: Judgements) -> npt.NDArray[np.floating]:
    """Return answers about private, shape (A, N), also derived from scores in steps, such as PrivacyAlert's four."""
    by_score = np.where(np.isnan(judged.score), np.nan, judged.score >= MIN_PRIVATE_STEP)
    return np.where(np.isnan(judged.private), by_score, judged.private)


def _right_and_asked(judged: Judgements, checks_row: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the numbers of right answers and of answers to known questions, each of shape (A,)."""
    private = _private(judged)
    answers = np.concatenate([judged.values, private[:, :, None]], axis=2)
    known = np.concatenate([judged.values[checks_row], private[checks_row][:, None]], axis=1)
    is_asked = ~np.isnan(known) & ~np.isnan(answers)
    is_right = is_asked & (answers == known)
    return is_right.sum(axis=(1, 2)), is_asked.sum(axis=(1, 2))


def _part(judged: Judgements, annotators: list[int], is_kept: npt.NDArray[np.bool_]) -> Judgements:
    pictures = np.flatnonzero(is_kept)
    rows = np.ix_(np.array(annotators, np.int64), pictures)
    return replace(
        judged,
        annotators=tuple(judged.annotators[i] for i in annotators),
        sha256=tuple(judged.sha256[i] for i in pictures),
        key=tuple(judged.key[i] for i in pictures),
        is_listed=judged.is_listed[rows],
        values=judged.values[rows],
        private=judged.private[rows],
        score=judged.score[rows],
        vote=judged.vote[rows],
        texts={name: cells[rows] for name, cells in judged.texts.items()},
    )
