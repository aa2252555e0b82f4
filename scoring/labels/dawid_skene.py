"""The most probable answers of several annotators who err in different ways.

Source: Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (1979).
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MAX_ROUNDS = 200
TOLERANCE = 1e-8
"""EM ends when the log-likelihood per answer grows by less than this."""

SMOOTHING = 0.01
"""Added to every count, so that an answer that an annotator never gave keeps a small probability."""


@dataclass(frozen=True)
class DawidSkeneFit:
    posterior: Floats
    """Shape (P, K): probability of each answer; NaN for pictures without a judgement."""

    confusion: Floats
    """Shape (A, K, K): P(annotator answers column | row is true)."""

    prior: Floats
    """Shape (K,): estimated share of each answer."""

    num_rounds: int
    has_converged: bool

    @property
    def accuracy(self) -> Floats:
        """Shape (A,): estimated probability that the annotator is right."""
        right: Floats = np.einsum("k,akk->a", self.prior, self.confusion)
        return right


def fit(answers: npt.NDArray[np.int64], num_answers: int) -> DawidSkeneFit:
    """Fit by EM, starting from the majority vote.

    answers: shape (A, P), 0 to num_answers - 1, or -1 if an annotator did not judge the picture.
    """
    # Pictures with the same answers have the same posterior: each pattern of answers is computed once.
    patterns, pattern_of, num_pictures = np.unique(answers, axis=1, return_inverse=True, return_counts=True)
    fitted = _fit_patterns(patterns, num_pictures.astype(np.float64), num_answers)
    return replace(fitted, posterior=fitted.posterior[pattern_of])


def _fit_patterns(answers: npt.NDArray[np.int64], num_pictures: Floats, num_answers: int) -> DawidSkeneFit:
    """Fit patterns of answers. num_pictures: shape (P,), number of pictures with each pattern."""
    given = np.stack([answers == k for k in range(num_answers)], axis=2).astype(np.float64)  # (A, P, K)
    counts = num_pictures[:, None]
    is_judged: npt.NDArray[np.bool_] = np.asarray(given.any(axis=(0, 2)))
    num_given = max(1.0, float((given.sum(axis=(0, 2)) * num_pictures).sum()))
    votes = given.sum(axis=0)
    posterior = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1)
    before, has_converged, num_rounds = -np.inf, False, 0
    prior, confusion = _parameters(posterior * counts, given, is_judged)
    while not has_converged and num_rounds < MAX_ROUNDS:
        num_rounds += 1
        # E-step: P(answer) times P(all given answers | answer), in logarithms so that many annotators do not underflow.
        log_joint = np.log(prior) + np.einsum("apj,akj->pk", given, np.log(confusion))
        highest = log_joint.max(axis=1, keepdims=True)
        weights = np.exp(log_joint - highest)
        total = weights.sum(axis=1, keepdims=True)
        posterior = weights / total
        likelihood = float(((np.log(total) + highest) * counts)[is_judged].sum()) / num_given
        has_converged = likelihood - before < TOLERANCE
        before = likelihood
        prior, confusion = _parameters(posterior * counts, given, is_judged)
    posterior[~is_judged] = np.nan
    return DawidSkeneFit(posterior, confusion, prior, num_rounds, has_converged)


def _parameters(weights: Floats, given: Floats, is_judged: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """M-step: return the priors and confusion matrices that fit the posteriors best. weights: posteriors times numbers
    of pictures."""
    prior = weights[is_judged].sum(axis=0) + SMOOTHING
    confusion = np.einsum("pk,apj->akj", weights, given) + SMOOTHING
    return prior / prior.sum(), confusion / confusion.sum(axis=2, keepdims=True)
