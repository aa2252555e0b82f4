"""Heads: features of one modality -> a number that rises with the probability of private, here called its logit.

A head is a logistic regression. Both classes weigh the same while it is fitted, whatever their numbers, since private
pictures are few; a curve that is fitted afterwards makes probabilities of the logits.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.screen.modalities import Features

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
"""Weights of the squared weights in the loss that are tried."""

MAX_STEPS = 400
MIN_SCALE = 1e-6
"""A feature with a smaller standard deviation is treated as constant, and is not scaled up."""


def logit(features: Features, head: Numbers) -> float:
    """Return the logit. head: weights, and the bias last; shape (d + 1,). A picture is scored on its own, so that its
    logit does not depend on which others it is scored with."""
    weights = head[:-1] if features.places is None else head[features.places]
    return float((features.values * weights).sum() + head[-1])


def fitted_heads(pictures: Sequence[Features], length: int, truth: Flags, weights: Numbers) -> dict[float, Numbers]:
    """Return the head, shape (d + 1,), for each of `PENALTIES`.

    pictures: n of one modality, all given alike. length: d, of their vectors. truth: shape (n,), private; both classes.
    weights: shape (n,), how many pictures each one represents.
    """
    masses = np.where(truth, weights / weights[truth].sum(), weights / weights[~truth].sum()) / 2
    inputs: Any
    if pictures[0].places is not None:
        inputs, mean, scale = _sparse(pictures, length), np.zeros(length), np.ones(length)
    else:
        stacked = np.stack([picture.values for picture in pictures]).astype(np.float64)
        mean, scale = stacked.mean(axis=0), stacked.std(axis=0)
        scale[scale < MIN_SCALE] = 1.0
        inputs = (stacked - mean) / scale
    heads = dict[float, Numbers]()
    for penalty in PENALTIES:
        fitted = _weights(inputs, truth, masses, penalty)
        of_features = fitted[:-1] / scale
        heads[penalty] = np.append(of_features, fitted[-1] - mean @ of_features)
    return heads


def _sparse(pictures: Sequence[Features], length: int) -> Any:
    from scipy.sparse import csr_matrix

    places = [np.empty(0, np.int64) if each.places is None else each.places for each in pictures]
    ends = np.cumsum([0, *(len(each) for each in places)])
    values = np.concatenate([each.values for each in pictures]).astype(np.float64)
    return csr_matrix((values, np.concatenate(places), ends), shape=(len(pictures), length))


def _weights(inputs: Any, truth: Flags, masses: Numbers, penalty: float) -> Numbers:
    """Fit weights and a bias; shape (d + 1,). inputs: shape (n, d), dense or sparse. masses: sum to 1."""
    from scipy.special import expit

    def loss(parameters: Numbers) -> tuple[float, Numbers]:
        weights = parameters[:-1]
        logits = inputs @ weights + parameters[-1]
        error = float((masses * (np.logaddexp(0, logits) - truth * logits)).sum())
        slopes = masses * (expit(logits) - truth)
        gradient = np.append(inputs.T @ slopes + penalty * weights, slopes.sum())
        return error + penalty / 2 * float(weights @ weights), gradient

    return minimised(loss, np.zeros(inputs.shape[1] + 1))


def minimised(loss: Callable[[Numbers], tuple[float, Numbers]], first: Numbers) -> Numbers:
    """Return the parameters of least loss, by L-BFGS (Liu and Nocedal 1989). loss: parameters -> loss and gradient."""
    from scipy.optimize import minimize

    minimum = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS})
    return np.asarray(minimum.x, dtype=np.float64)
