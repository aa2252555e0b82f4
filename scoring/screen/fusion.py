"""Fusion: the probabilities of several modalities -> one, by their mean or by a gate, which learns per picture how much
each modality counts (Zhao et al., "PrivacyAlert: A Dataset for Image Privacy Prediction", table 4).

A modality that a picture lacks has no part: its weight is 0, and the others share what is left.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from scoring.screen.heads import Flags, Numbers, minimised

FusionKind = Literal["mean", "gate"]
KINDS: tuple[FusionKind, ...] = ("mean", "gate")

EDGE = 1e-6
"""Probabilities nearer to 0 or 1 count as this near."""

GATE_UNITS = 16
PENALTY = 1e-3
"""Weight of the squared weights in the loss of the gate."""


@dataclass(frozen=True)
class Gate:
    """A network with one hidden layer, from p and 1 − p of each of M modalities to a score of each."""

    hidden: Numbers
    """Shape (2 M + 1, GATE_UNITS), the last row the biases."""

    output: Numbers
    """Shape (GATE_UNITS + 1, M), as `hidden`."""

    def fits(self, num_modalities: int) -> bool:
        """Return whether the shapes belong to this number of modalities."""
        of_hidden, of_output = _shapes(num_modalities)
        return self.hidden.shape == of_hidden and self.output.shape == of_output


def joined(probabilities: Numbers, gate: Gate | None) -> Numbers:
    """Join probabilities, shape (n, M), NaN where a modality is missing, to shape (n,), NaN where all are.

    gate: None for the mean.
    """
    is_missing = np.isnan(probabilities)
    if gate is None:
        num = (~is_missing).sum(axis=1, keepdims=True)
        shares = ~is_missing / np.maximum(num, 1)
    else:
        shares, _ = _shares(_inputs(probabilities), is_missing, gate)
    total = (shares * np.where(is_missing, 0.0, probabilities)).sum(axis=1)
    return np.where(is_missing.all(axis=1), np.nan, total)


def log_loss(probabilities: Numbers, truth: Flags, weights: Numbers) -> float:
    """Return the mean log loss, by weight. All shape (n,)."""
    inside = np.clip(probabilities, EDGE, 1 - EDGE)
    return float(-(weights * np.log(np.where(truth, inside, 1 - inside))).sum() / weights.sum())


def fitted_gate(probabilities: Numbers, truth: Flags, weights: Numbers, seed: int) -> Gate:
    """Fit a gate by the log loss of the joined probability.

    probabilities: shape (n, M), NaN where missing. truth: shape (n,), both classes. weights: shape (n,).
    The paper names a gate over the single predictions; layers, activation and loss are our own choice, since it prints
    none.
    """
    weights = weights / weights.sum()
    of_hidden, of_output = _shapes(probabilities.shape[1])
    num_hidden = of_hidden[0] * of_hidden[1]
    inputs, is_missing = _inputs(probabilities), np.isnan(probabilities)
    filled = np.where(is_missing, 0.0, probabilities)

    def made(parameters: Numbers) -> Gate:
        return Gate(parameters[:num_hidden].reshape(of_hidden), parameters[num_hidden:].reshape(of_output))

    def loss(parameters: Numbers) -> tuple[float, Numbers]:
        gate = made(parameters)
        shares, units = _shares(inputs, is_missing, gate)
        together = np.clip((shares * filled).sum(axis=1), EDGE, 1 - EDGE)
        slopes = weights * np.where(truth, -1 / together, 1 / (1 - together))
        by_score = slopes[:, None] * shares * (filled - together[:, None])
        inner = (by_score @ gate.output[:-1].T) * (1 - units**2)
        by_output = np.vstack([units.T @ by_score + PENALTY * gate.output[:-1], by_score.sum(axis=0)])
        by_hidden = np.vstack([inputs.T @ inner + PENALTY * gate.hidden[:-1], inner.sum(axis=0)])
        size = float((gate.hidden[:-1] ** 2).sum() + (gate.output[:-1] ** 2).sum())
        error = log_loss(together, truth, weights)
        return error + PENALTY / 2 * size, np.append(by_hidden.ravel(), by_output.ravel())

    num_output = of_output[0] * of_output[1]
    return made(minimised(loss, np.random.default_rng(seed).normal(scale=0.3, size=num_hidden + num_output)))


def _shapes(num_modalities: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (2 * num_modalities + 1, GATE_UNITS), (GATE_UNITS + 1, num_modalities)


def _inputs(probabilities: Numbers) -> Numbers:
    """Return, shape (n, 2 M), p and 1 − p of each modality, both 0 where missing."""
    return np.asarray(np.nan_to_num(np.concatenate([probabilities, 1 - probabilities], axis=1)), dtype=np.float64)


def _shares(inputs: Numbers, is_missing: Flags, gate: Gate) -> tuple[Numbers, Numbers]:
    """Return the weight of each modality, shape (n, M), 0 where missing; and the units, shape (n, GATE_UNITS)."""
    units = np.tanh((inputs[:, :, None] * gate.hidden[:-1]).sum(axis=1) + gate.hidden[-1])
    scores = (units[:, :, None] * gate.output[:-1]).sum(axis=1) + gate.output[-1]
    scores = np.where(is_missing, -np.inf, scores)
    highest = np.max(scores, axis=1, keepdims=True, initial=-1e9)
    powers = np.exp(scores - highest)
    return powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-300), units
