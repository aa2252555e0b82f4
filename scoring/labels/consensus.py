"""One label per picture from several annotators: the most common answer, or the model of Dawid and Skene.

Answers have the shape (A annotators, …); NaN is no answer, and does not count. A tie is no answer.

Source of the model: Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm"
(1979).
"""

import itertools
from dataclasses import dataclass, field, replace
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

Method = Literal["two-annotator", "majority", "dawid-skene"]

ANNOTATOR = "consensus"
Doubles = npt.NDArray[np.float64]

STEPS = np.array([0.0, 0.5, 1.0], np.float32)
"""Possible values of an attribute."""

MIN_POSTERIOR = 0.5
"""Dawid–Skene: answers with a smaller posterior are null, unless another bound is chosen."""

MIN_LEAD = 1e-6
"""Dawid–Skene: the most probable answer must lead the next by this much, else they tie."""

MAX_CLASSES = 100
"""Limit of classes: Dawid–Skene estimates the square of their number for each annotator."""


@dataclass(frozen=True)
class DawidSkeneFit:
    """The most probable answers of several annotators who err in different ways."""

    posterior: Doubles
    """Shape (P, K): probability of each answer; NaN for pictures without a judgement."""

    confusion: Doubles
    """Shape (A, K, K): P(annotator answers column | row is true)."""

    prior: Doubles
    """Shape (K,): estimated share of each answer."""

    has_converged: bool

    @property
    def accuracy(self) -> Doubles:
        """Shape (A,): estimated probability that the annotator is right."""
        right: Doubles = np.einsum("k,akk->a", self.prior, self.confusion)
        return right


@dataclass(frozen=True)
class Consensus:
    labels: pa.Table
    """One row per picture, in `LABELS_SCHEMA`."""

    origin: LabelsOrigin
    method: Method
    annotators: tuple[str, ...]

    num_shared: int
    """Number of pictures with a row of every annotator."""

    num_values: dict[str, int]
    num_private: dict[str, int]
    """Number of values of attributes, and of `private`, that are "1", "0.5", "0" and "null"."""

    accuracy: dict[str, float] = field(default_factory=dict)
    """Annotator -> estimated share of right answers over all attributes and `private`; only with Dawid–Skene."""

    never_differ: tuple[tuple[str, str, int], ...] = ()
    """Pairs of annotators who give the same answer to every question that both judged, and how many these are; only
    with Dawid–Skene."""


def consensus(
    judged: Judgements, method: Method | None = None, *, paper_rule: bool = False, min_posterior: float | None = None
) -> Consensus:
    """Join labels to one row per picture; its score is the severity of the consensus values.

    method: None for the rule of two annotators if there are two, else Dawid–Skene.
    paper_rule: if two annotators differ the value is 0, not 0.5, and 0.5 of both becomes 0. By majority: 1 if more than
    half say 1, else 0.
    min_posterior: Dawid–Skene gives null if the most probable answer is less probable, and for a tie; None for
    `MIN_POSTERIOR`.
    LabelsError if the method does not fit the number of annotators, or an annotator shares no picture with the others.
    """
    num = len(judged.annotators)
    if num < 2:
        raise LabelsError(f"the inputs have {number_of(num, 'annotator')}; a consensus needs at least two")
    judged.refuse_strangers()
    method = method or ("two-annotator" if num == 2 else "dawid-skene")
    if method == "two-annotator" and num != 2:
        raise LabelsError(
            f"there are {num} annotators; the rule of two needs two, take --method majority or dawid-skene"
        )
    if method == "dawid-skene" and paper_rule:
        raise LabelsError("--paper-rule is for the methods two-annotator and majority; leave it out")
    if method != "dawid-skene" and min_posterior is not None:
        raise LabelsError("--min-posterior is for the method dawid-skene; leave it out, or take --method dawid-skene")
    notes = [f"Annotators: {', '.join(judged.annotators)}."]
    accuracy: dict[str, float] = {}
    never_differ: tuple[tuple[str, str, int], ...] = ()
    if method == "two-annotator":
        values = of_two(judged.values, paper_rule)
        private, vote = _same(judged.private), _same(judged.vote)
        classes = _same_text(judged.texts["class"])
        notes.append(_RULE_OF_PAPER if paper_rule else _RULE)
    elif method == "majority":
        values = yes_of_most(judged.values) if paper_rule else most_common(judged.values)
        private = most_common(judged.private)
        vote = majority_vote(judged.private, judged.vote)
        classes = most_common_text(judged.texts["class"])
        notes.append(_MAJORITY_OF_PAPER if paper_rule else _MAJORITY)
    else:
        min_posterior = MIN_POSTERIOR if min_posterior is None else min_posterior
        values, private, classes, accuracy = _most_probable(judged, min_posterior)
        vote = np.full(private.shape, np.nan, np.float32)
        notes.append(f"Dawid–Skene, null below a posterior of {min_posterior:g} and if two answers tie. {INDEPENDENT}")
        never_differ = _never_differ(judged)
        if not np.isnan(judged.vote).all():
            notes.append("Votes are not joined by this method: they are null.")
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
        LabelsOrigin("consensus", None, labels.num_rows, {}, tuple(notes)),
        method,
        judged.annotators,
        int(judged.is_listed.all(axis=0).sum()),
        _counts(values),
        _counts(private),
        accuracy,
        never_differ,
    )


INDEPENDENT = (
    "It takes annotators to err independently. Two who copy each other both seem more often right than they are, and "
    "the answers of three annotators cannot show it."
)

MIN_SAME = 30
"""Answers of two annotators from which on it is said that they never differ."""


def _never_differ(judged: Judgements) -> tuple[tuple[str, str, int], ...]:
    """Return the pairs of annotators who never differ, although others do."""
    answers = np.concatenate([judged.values.reshape(len(judged.annotators), -1), judged.private], axis=1)
    counts = {
        (first, second): (int((~np.isnan(difference)).sum()), int((np.nan_to_num(difference) != 0).sum()))
        for first, second in itertools.combinations(range(len(answers)), 2)
        for difference in [answers[first] - answers[second]]
    }
    if not any(num_different for _, num_different in counts.values()):
        return ()
    return tuple(
        (judged.annotators[first], judged.annotators[second], num)
        for (first, second), (num, num_different) in counts.items()
        if num >= MIN_SAME and not num_different
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


def _most_probable(
    judged: Judgements, min_posterior: float
) -> tuple[Floats, Floats, list[str | None], dict[str, float]]:
    values = np.full(judged.values.shape[1:], np.nan, np.float32)
    private = np.full(judged.private.shape[1], np.nan, np.float32)
    questions = [(judged.values[:, :, i] * 2, STEPS, values[:, i]) for i in range(len(KEYS))]
    fits = []
    for given, steps, decided in [*questions, (judged.private, np.array([0, 1], np.float32), private)]:
        answers = _answers(given)
        if (answers >= 0).any():
            fits.append((dawid_skene(answers, len(steps)), (answers >= 0).sum(axis=1)))
            decided[:] = _decided(fits[-1][0], steps, min_posterior)
    num_given = np.sum([given for _, given in fits], axis=0) if fits else np.zeros(len(judged.annotators))
    right = np.sum([fitted.accuracy * given for fitted, given in fits], axis=0) if fits else num_given
    accuracy = {name: float(right[i] / num_given[i]) for i, name in enumerate(judged.annotators) if num_given[i] > 0}
    return values, private, _classes(judged.texts["class"], min_posterior), accuracy


def _classes(texts: npt.NDArray[np.object_], min_posterior: float) -> list[str | None]:
    known, numbers = _numbered(texts)
    if not known:
        return [None] * texts.shape[1]
    if len(known) > MAX_CLASSES:
        raise LabelsError(f"there are {len(known):,} classes; Dawid–Skene takes {MAX_CLASSES}, leave out the column")
    fitted = dawid_skene(_answers(numbers), len(known))
    decided = _decided(fitted, np.arange(len(known), dtype=np.float32), min_posterior)
    return [None if np.isnan(index) else known[int(index)] for index in decided]


def _answers(numbers: Floats) -> npt.NDArray[np.int64]:
    """Return answers as `dawid_skene` takes them, from whole numbers or NaN."""
    return np.where(np.isnan(numbers), -1, np.nan_to_num(numbers)).astype(np.int64)


def _numbered(texts: npt.NDArray[np.object_]) -> tuple[list[str], Floats]:
    """Return the different texts, sorted, and the number of each cell among them, NaN for None; shape as `texts`."""
    known = sorted({text for text in texts.ravel() if text is not None})
    number = {text: index for index, text in enumerate(known)} | {None: np.nan}
    return known, np.array([[number[text] for text in row] for row in texts], np.float32).reshape(texts.shape)


def _decided(fitted: DawidSkeneFit, answers: Floats, min_posterior: float) -> Floats:
    """Return the most probable answer; NaN if it is too improbable, tied, or without any judgement."""
    is_judged = ~np.isnan(fitted.posterior[:, 0])
    posterior = np.nan_to_num(fitted.posterior)
    decided: Floats = answers[posterior.argmax(axis=1)].astype(np.float32)
    ascending = np.sort(posterior, axis=1)
    best = ascending[:, -1]
    is_tie = best - ascending[:, -2] < MIN_LEAD if len(answers) > 1 else np.zeros(len(best), bool)
    decided[~is_judged | is_tie | (best < min_posterior)] = np.nan
    return decided


def _counts(values: Floats) -> dict[str, int]:
    counts = {f"{step:g}": int((values == step).sum()) for step in (1, 0.5, 0)}
    return counts | {"null": int(np.isnan(values).sum())}


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
    known, numbers = _numbered(texts)
    return [None if np.isnan(index) else known[int(index)] for index in most_common(numbers)]


MAX_ROUNDS = 200
TOLERANCE = 1e-8
"""EM ends when the log-likelihood per answer grows by less than this."""

SMOOTHING = 0.01
"""Added to every count, so that an answer that an annotator never gave keeps a small probability."""


def dawid_skene(answers: npt.NDArray[np.int64], num_answers: int) -> DawidSkeneFit:
    """Fit the model of Dawid and Skene by EM, starting from the majority vote.

    answers: shape (A, P), 0 to num_answers - 1, or -1 if an annotator did not judge the picture.
    """
    # Pictures with the same answers have the same posterior: each pattern of answers is computed once.
    patterns, pattern_of, num_pictures = np.unique(answers, axis=1, return_inverse=True, return_counts=True)
    fitted = _fit_patterns(patterns, num_pictures.astype(np.float64), num_answers)
    return replace(fitted, posterior=fitted.posterior[pattern_of])


def _fit_patterns(answers: npt.NDArray[np.int64], num_pictures: Doubles, num_answers: int) -> DawidSkeneFit:
    """Fit patterns of answers. num_pictures: shape (P,), number of pictures with each pattern."""
    is_answer = np.stack([answers == k for k in range(num_answers)], axis=2).astype(np.float64)  # (A, P, K)
    counts = num_pictures[:, None]
    is_judged: npt.NDArray[np.bool_] = np.asarray(is_answer.any(axis=(0, 2)))
    num_given = max(1.0, float((is_answer.sum(axis=(0, 2)) * num_pictures).sum()))
    votes = is_answer.sum(axis=0)
    posterior = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1)
    before, has_converged = -np.inf, False
    prior, confusion = _parameters(posterior * counts, is_answer, is_judged)
    for _ in range(MAX_ROUNDS):
        # E-step: P(answer) times P(all given answers | answer), in logarithms so that many annotators do not underflow.
        log_joint = np.log(prior) + np.einsum("apj,akj->pk", is_answer, np.log(confusion))
        highest = log_joint.max(axis=1, keepdims=True)
        weights = np.exp(log_joint - highest)
        total = weights.sum(axis=1, keepdims=True)
        posterior = weights / total
        likelihood = float(((np.log(total) + highest) * counts)[is_judged].sum()) / num_given
        has_converged = likelihood - before < TOLERANCE
        before = likelihood
        prior, confusion = _parameters(posterior * counts, is_answer, is_judged)
        if has_converged:
            break
    posterior[~is_judged] = np.nan
    return DawidSkeneFit(posterior, confusion, prior, has_converged)


def _parameters(weights: Doubles, given: Doubles, is_judged: npt.NDArray[np.bool_]) -> tuple[Doubles, Doubles]:
    """M-step: return the priors and confusion matrices that fit the posteriors best. weights: posteriors times numbers
    of pictures."""
    prior = weights[is_judged].sum(axis=0) + SMOOTHING
    confusion = np.einsum("pk,apj->akj", weights, given) + SMOOTHING
    return prior / prior.sum(), confusion / confusion.sum(axis=2, keepdims=True)
