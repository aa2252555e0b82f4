"""Fusion: the probabilities of several modalities -> one. Validation decides which one is used.

Of those that Zhao et al. compare ("PrivacyAlert: A Dataset for Image Privacy Prediction", tables 3 and 4), these are
built: the best single modality, the plain mean, stacking, and gated fusion, which learns per picture how much each
modality counts. Not built: Concat (one classifier over all features together), PCNH (two joined networks), DMFP (votes
weighted by the competence among neighbours) and ViLBERT (one network over regions and words).

A modality that a picture lacks has no part: its weight is 0, and the others share what is left.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scoring.screen.heads import Flags, Numbers, cross_entropy, linear_weights, minimised

FusionKind = Literal["single", "mean", "mean of logits", "stacking", "gate"]
KINDS: tuple[FusionKind, ...] = ("single", "mean", "mean of logits", "stacking", "gate")
"""From the simplest on."""

EDGE = 1e-6
"""Probabilities nearer to 0 or 1 count as this near."""

GATE_UNITS = 16
PENALTY = 1e-3
"""Weight of the squared weights in the losses of stacking and gate."""


@dataclass(frozen=True)
class Fusion:
    """How probabilities are joined."""

    kind: FusionKind
    parameters: Mapping[str, Numbers]
    """single: `modality`, shape (1,), its number. stacking: `weights`, shape (2 M + 1,). gate: `hidden`,
    shape (2 M + 1, GATE_UNITS), and `output`, shape (GATE_UNITS + 1, M). The others have none."""

    def joined(self, probabilities: Numbers) -> Numbers:
        """Join probabilities, shape (n, M), NaN where a modality is missing, to shape (n,), NaN where all are."""
        return np.asarray(_JOIN[self.kind](probabilities, self.parameters), dtype=np.float64)

    def fits(self, num_modalities: int) -> bool:
        """Return whether the parameters belong to this number of modalities."""
        shapes: dict[FusionKind, dict[str, tuple[int, ...]]] = {
            "single": {"modality": (1,)},
            "stacking": {"weights": (2 * num_modalities + 1,)},
            "gate": {"hidden": (2 * num_modalities + 1, GATE_UNITS), "output": (GATE_UNITS + 1, num_modalities)},
        }
        if {name: value.shape for name, value in self.parameters.items()} != shapes.get(self.kind, {}):
            return False
        return self.kind != "single" or int(self.parameters["modality"][0]) in range(num_modalities)


def fitted_fusion(kind: FusionKind, probabilities: Numbers, truth: Flags, weights: Numbers, seed: int) -> Fusion:
    """Fit how modalities are joined.

    probabilities: shape (n, M), NaN where missing. truth: shape (n,), both classes. weights: shape (n,).
    """
    weights = weights / weights.sum()
    if kind == "single":
        errors = [log_loss(column, truth, weights) for column in probabilities.T]
        return Fusion(kind, {"modality": np.array([float(np.argmin(errors))])})
    if kind == "stacking":
        inputs = _stacked_inputs(probabilities)
        return Fusion(kind, {"weights": linear_weights(inputs, truth, weights, PENALTY, cross_entropy)})
    if kind == "gate":
        return Fusion(kind, _gate(probabilities, truth, weights, seed))
    return Fusion(kind, {})


def log_loss(probabilities: Numbers, truth: Flags, weights: Numbers) -> float:
    """Return the log loss, a missing probability counting as ½. weights: sum to 1."""
    inside = np.clip(np.where(np.isnan(probabilities), 0.5, probabilities), EDGE, 1 - EDGE)
    return float(-(weights * np.log(np.where(truth, inside, 1 - inside))).sum())


def _logits(probabilities: Numbers) -> Numbers:
    inside = np.clip(probabilities, EDGE, 1 - EDGE)
    return np.asarray(np.log(inside / (1 - inside)), dtype=np.float64)


def _logistic(logits: Numbers) -> Numbers:
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -50, 50))), dtype=np.float64)


def _mean(values: Numbers) -> Numbers:
    """Return the mean of those that are there; NaN without any."""
    is_there = ~np.isnan(values)
    num = is_there.sum(axis=1)
    total = np.where(is_there, values, 0.0).sum(axis=1)
    return np.where(num > 0, total / np.maximum(num, 1), np.nan)


def _single(probabilities: Numbers, parameters: Mapping[str, Numbers]) -> Numbers:
    """Take the best modality, or the mean of the others where that is missing."""
    chosen = probabilities[:, int(parameters["modality"][0])]
    return np.where(np.isnan(chosen), _mean(probabilities), chosen)


def _stacked_inputs(probabilities: Numbers) -> Numbers:
    """Return, shape (n, 2 M), the logits, 0 where missing, and whether each is missing."""
    is_missing = np.isnan(probabilities)
    return np.concatenate([np.where(is_missing, 0.0, _logits(probabilities)), is_missing.astype(np.float64)], axis=1)


def _stacking(probabilities: Numbers, parameters: Mapping[str, Numbers]) -> Numbers:
    weights = parameters["weights"]
    joined = _logistic((_stacked_inputs(probabilities) * weights[:-1]).sum(axis=1) + weights[-1])
    return np.where(np.isnan(probabilities).all(axis=1), np.nan, joined)


def _gate_inputs(probabilities: Numbers) -> Numbers:
    """Return, shape (n, 2 M), p and 1 − p of each modality, both 0 where missing."""
    is_missing = np.isnan(probabilities)
    return np.concatenate(
        [np.where(is_missing, 0.0, probabilities), np.where(is_missing, 0.0, 1 - probabilities)], axis=1
    )


def _shares(inputs: Numbers, is_missing: Flags, hidden: Numbers, output: Numbers) -> tuple[Numbers, Numbers]:
    """Return the weight of each modality, shape (n, M), 0 where missing; and the units, shape (n, GATE_UNITS)."""
    units = np.tanh((inputs[:, :, None] * hidden[:-1]).sum(axis=1) + hidden[-1])
    scores = (units[:, :, None] * output[:-1]).sum(axis=1) + output[-1]
    scores = np.where(is_missing, -np.inf, scores)
    highest = np.max(scores, axis=1, keepdims=True, initial=-1e9)
    powers = np.exp(scores - highest)
    return powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-300), units


def _gated(probabilities: Numbers, parameters: Mapping[str, Numbers]) -> Numbers:
    is_missing = np.isnan(probabilities)
    shares, _ = _shares(_gate_inputs(probabilities), is_missing, parameters["hidden"], parameters["output"])
    joined = (shares * np.where(is_missing, 0.0, probabilities)).sum(axis=1)
    return np.where(is_missing.all(axis=1), np.nan, joined)


def _gate(probabilities: Numbers, truth: Flags, weights: Numbers, seed: int) -> dict[str, Numbers]:
    """Fit the gate by the log loss of the joined probability. Source of the network: the paper names a gate over the
    single predictions; layers, activation and loss are our own choice, since it prints none."""
    num = probabilities.shape[1]
    shapes = ((2 * num + 1, GATE_UNITS), (GATE_UNITS + 1, num))
    num_hidden = shapes[0][0] * shapes[0][1]
    inputs, is_missing = _gate_inputs(probabilities), np.isnan(probabilities)
    filled = np.where(is_missing, 0.0, probabilities)

    def loss(parameters: Numbers) -> tuple[float, Numbers]:
        hidden, output = parameters[:num_hidden].reshape(shapes[0]), parameters[num_hidden:].reshape(shapes[1])
        shares, units = _shares(inputs, is_missing, hidden, output)
        joined = np.clip((shares * filled).sum(axis=1), EDGE, 1 - EDGE)
        error = float(-(weights * np.log(np.where(truth, joined, 1 - joined))).sum())
        slopes = weights * np.where(truth, -1 / joined, 1 / (1 - joined))
        of_scores = slopes[:, None] * shares * (filled - joined[:, None])
        inner = (of_scores @ output[:-1].T) * (1 - units**2)
        of_output = np.vstack([units.T @ of_scores + PENALTY * output[:-1], of_scores.sum(axis=0)])
        of_hidden = np.vstack([inputs.T @ inner + PENALTY * hidden[:-1], inner.sum(axis=0)])
        size = float((hidden[:-1] ** 2).sum() + (output[:-1] ** 2).sum())
        return error + PENALTY / 2 * size, np.append(of_hidden.ravel(), of_output.ravel())

    first = np.random.default_rng(seed).normal(scale=0.3, size=num_hidden + shapes[1][0] * num)
    parameters = minimised(loss, first)
    return {"hidden": parameters[:num_hidden].reshape(shapes[0]), "output": parameters[num_hidden:].reshape(shapes[1])}


_JOIN: dict[FusionKind, Callable[[Numbers, Mapping[str, Numbers]], Numbers]] = {
    "single": _single,
    "mean": lambda probabilities, _: _mean(probabilities),
    "mean of logits": lambda probabilities, _: _logistic(_mean(_logits(probabilities))),
    "stacking": _stacking,
    "gate": _gated,
}
