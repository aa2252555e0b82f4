"""Heads: features of one modality -> a number that rises with the probability of private, here called its logit.

- `logistic`: a logistic regression.
- `svm`: a linear support vector machine with the squared hinge loss, as Zhao et al. put on the features of objects,
  scenes and tags ("PrivacyAlert: A Dataset for Image Privacy Prediction", table 3). Its logit is the margin.
- `hidden`: a network with one hidden layer. It is for features that are given in full: for the table of words it would
  have a million weights and a few thousand captions to learn them from.

Both classes weigh the same while a head is fitted, whatever their numbers, since private pictures are few; a curve that
is fitted afterwards makes probabilities of the logits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scoring.screen.modalities import Features

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

HeadKind = Literal["logistic", "svm", "hidden"]
HEAD_KINDS: tuple[HeadKind, ...] = ("logistic", "svm", "hidden")

NUM_UNITS = 16

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
"""Weights of the squared weights in the loss that are tried."""

MAX_STEPS = 400
MIN_SCALE = 1e-6
"""A feature with a smaller standard deviation is treated as constant, and is not scaled up."""


@dataclass(frozen=True)
class Head:
    """Weights. A picture is scored on its own, so that its logit does not depend on which others it is scored with."""

    mean: Numbers
    """Shape (d,), of the features; (0,) if they are taken as they are."""

    scale: Numbers
    """Shape as `mean`."""

    hidden: Numbers
    """Shape (d + 1, units), the last row the biases; (0, 0) for `logistic` and `svm`."""

    output: Numbers
    """Shape (d + 1,) or (units + 1,), the last the bias."""

    def logit(self, features: Features) -> float:
        if features.places is not None:
            return float((features.values * self.output[features.places]).sum() + self.output[-1])
        inputs = (features.values - self.mean) / self.scale
        if self.hidden.size:
            inputs = np.tanh((inputs[:, None] * self.hidden[:-1]).sum(axis=0) + self.hidden[-1])
        return float((inputs * self.output[:-1]).sum() + self.output[-1])

    def fits(self, length: int) -> bool:
        """Return whether the shapes belong to features of this length."""
        is_scaled = self.mean.shape == self.scale.shape and self.mean.shape in ((0,), (length,))
        width = self.output.size - 1 if self.hidden.size else length
        is_hidden = not self.hidden.size or self.hidden.shape == (length + 1, width)
        return is_scaled and is_hidden and self.output.shape == (width + 1,)


def balanced(truth: Flags, weights: Numbers) -> Numbers:
    """Return weights of which each class has half; shape (n,). truth must hold both classes."""
    of_private, of_public = weights[truth].sum(), weights[~truth].sum()
    return np.asarray(np.where(truth, weights / of_private, weights / of_public) / 2, dtype=np.float64)


@dataclass(frozen=True)
class FittedHead:
    kind: HeadKind
    penalty: float
    """One of `PENALTIES`."""

    head: Head

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.penalty:g}"


def fitted_heads(
    pictures: Sequence[Features],
    length: int,
    truth: Flags,
    weights: Numbers,
    seed: int,
    kinds: Sequence[HeadKind] = HEAD_KINDS,
) -> list[FittedHead]:
    """Return the heads that are worth a comparison, none if no kind is for these features.

    pictures: n of one modality, all given alike. length: of their vectors. truth: shape (n,), private; both classes.
    weights: shape (n,), how many pictures each one represents. seed: of the network's first weights.
    """
    masses = balanced(truth, weights)
    inputs: Any
    if pictures[0].places is not None:
        inputs, mean, scale = _sparse(pictures, length), np.empty(0), np.empty(0)
        kinds = [kind for kind in kinds if kind != "hidden"]
    else:
        stacked = np.stack([picture.values for picture in pictures]).astype(np.float64)
        mean, scale = scaling(stacked)
        inputs = (stacked - mean) / scale
    heads = list[FittedHead]()
    for penalty in PENALTIES:
        for kind in kinds:
            if kind == "hidden":
                hidden, output = _network(inputs, truth, masses, penalty, seed)
            else:
                loss = cross_entropy if kind == "logistic" else squared_hinge
                hidden, output = np.empty((0, 0)), linear_weights(inputs, truth, masses, penalty, loss)
            heads.append(FittedHead(kind, penalty, Head(mean, scale, hidden, output)))
    return heads


def scaling(stacked: Numbers) -> tuple[Numbers, Numbers]:
    """Return mean and scale of each feature, shape (d,). stacked: shape (n, d)."""
    scale = stacked.std(axis=0)
    return stacked.mean(axis=0), np.where(scale < MIN_SCALE, 1.0, scale)


def _sparse(pictures: Sequence[Features], length: int) -> Any:
    from scipy.sparse import csr_matrix

    places = [np.empty(0, np.int64) if each.places is None else each.places for each in pictures]
    ends = np.cumsum([0, *(len(each) for each in places)])
    values = np.concatenate([each.values for each in pictures]).astype(np.float64)
    return csr_matrix((values, np.concatenate(places), ends), shape=(len(pictures), length))


Loss = Callable[[Numbers, Flags, Numbers], tuple[float, Numbers]]
"""Logits, truth and weights that sum to 1, all of shape (n,) -> the loss, and its slope by each logit, shape (n,)."""


def linear_weights(inputs: Any, truth: Flags, weights: Numbers, penalty: float, of_logits: Loss) -> Numbers:
    """Fit weights and a bias; shape (d + 1,). inputs: shape (n, d), dense or sparse. weights: sum to 1."""

    def loss(parameters: Numbers) -> tuple[float, Numbers]:
        error, slopes = of_logits(inputs @ parameters[:-1] + parameters[-1], truth, weights)
        gradient = np.append(inputs.T @ slopes, slopes.sum())
        gradient[:-1] += penalty * parameters[:-1]
        return error + penalty / 2 * float(parameters[:-1] @ parameters[:-1]), gradient

    return minimised(loss, np.zeros(inputs.shape[1] + 1))


def _network(inputs: Numbers, truth: Flags, weights: Numbers, penalty: float, seed: int) -> tuple[Numbers, Numbers]:
    """Return hidden, shape (d + 1, NUM_UNITS), and output, shape (NUM_UNITS + 1,)."""
    length = inputs.shape[1]
    shape = (length + 1, NUM_UNITS)
    num_hidden = shape[0] * shape[1]
    generator = np.random.default_rng(seed)
    first = np.append(
        generator.normal(scale=1 / np.sqrt(length), size=num_hidden), generator.normal(scale=0.25, size=NUM_UNITS + 1)
    )

    def loss(parameters: Numbers) -> tuple[float, Numbers]:
        hidden, output = parameters[:num_hidden].reshape(shape), parameters[num_hidden:]
        units = np.tanh(inputs @ hidden[:-1] + hidden[-1])
        error, slopes = cross_entropy(units @ output[:-1] + output[-1], truth, weights)
        inner = slopes[:, None] * output[:-1] * (1 - units**2)
        of_hidden = np.vstack([inputs.T @ inner + penalty * hidden[:-1], inner.sum(axis=0)])
        of_output = np.append(units.T @ slopes + penalty * output[:-1], slopes.sum())
        size = float((hidden[:-1] ** 2).sum() + (output[:-1] ** 2).sum())
        return error + penalty / 2 * size, np.append(of_hidden.ravel(), of_output)

    parameters = minimised(loss, first)
    return parameters[:num_hidden].reshape(shape), parameters[num_hidden:]


def cross_entropy(logits: Numbers, truth: Flags, weights: Numbers) -> tuple[float, Numbers]:
    """The loss of a logistic regression, as `Loss`."""
    from scipy.special import expit

    error = float((weights * (np.logaddexp(0, logits) - truth * logits)).sum())
    return error, np.asarray(weights * (expit(logits) - truth), dtype=np.float64)


def squared_hinge(margins: Numbers, truth: Flags, weights: Numbers) -> tuple[float, Numbers]:
    """The loss of a support vector machine, as `Loss`: the square of what a margin lacks to 1 on its own side."""
    sides = np.where(truth, 1.0, -1.0)
    lacking = np.maximum(0.0, 1 - sides * margins)
    return float((weights * lacking**2).sum()), np.asarray(-2 * weights * sides * lacking, dtype=np.float64)


def minimised(loss: Callable[[Numbers], tuple[float, Numbers]], first: Numbers) -> Numbers:
    """Return the parameters of least loss, by L-BFGS (Liu and Nocedal 1989). loss: parameters -> loss and gradient."""
    from scipy.optimize import minimize

    minimum = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS})
    return np.asarray(minimum.x, dtype=np.float64)
