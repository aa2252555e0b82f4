"""The networks that can be trained, in torch.

An encoder is trained with a triplet loss: a version that people recognised must come nearer to the original than one
that they did not.

Source: Sun et al., "Privacy Assessment on Reconstructed Images: Are Existing Evaluation Metrics Faithful to Human
Perception?", 2023: max(0, d(x, x⁺) − d(x, x⁻) + α) with α = 1, learning rate 0.1, batches of 128, 200 epochs. Momentum
and weight decay are those of the authors' code. Features have length 1, in training and afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torchvision
from PIL import Image

from ingest.errors import EngineError, IncompleteError
from ingest.images.pixels import Pixels
from scoring.engines.detectors.nudity import NUM_FEATURES
from scoring.similarity.triplets import Triplets

HEAD_DIMENSIONS = 128

_MEAN, _DEVIATION = 127.5, 63.75
"""Pixels become numbers around 0."""


def made(network: str) -> torch.nn.Module:
    """Make a network (`encoders.Network`) with random weights: a batch of its inputs -> features, shape (batch,
    dimensions)."""
    if network == "head":
        return torch.nn.Linear(NUM_FEATURES, HEAD_DIMENSIONS)
    whole: torch.nn.Module = getattr(torchvision.models, network)(weights=None)
    whole.fc = torch.nn.Identity()
    return whole


def square(pixels: Pixels, side_px: int) -> Pixels:
    """Fit the picture to what a whole network takes, shape (side_px, side_px, 3)."""
    return np.asarray(Image.fromarray(pixels).resize((side_px, side_px), Image.Resampling.BILINEAR, reducing_gap=2.0))


def as_batch(inputs: npt.NDArray[Any]) -> torch.Tensor:
    """Convert frozen features, float32 of shape (batch, 1024), or squares, uint8 of shape (batch, side, side, 3)."""
    if inputs.dtype == np.uint8:
        scaled = (inputs.astype(np.float32) - _MEAN) / _DEVIATION
        return torch.from_numpy(np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)))
    return torch.from_numpy(inputs)


def loaded(
    network: str, side_px: int, tensors: dict[str, Any], name: str
) -> Callable[[Pixels], npt.NDArray[np.float32]]:
    """Load stored weights into a network, as a function of pixels. EngineError, with `name`, if they do not fit."""
    model = made(network)
    try:
        model.load_state_dict({key: torch.from_numpy(tensor) for key, tensor in tensors.items()})
    except (RuntimeError, TypeError):
        raise EngineError(f"{name}: its tensors are not those of {network}") from None
    model.eval()

    def features(pixels: Pixels) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            batch = as_batch(square(pixels, side_px)[np.newaxis])
            result: npt.NDArray[np.float32] = torch.nn.functional.normalize(model(batch))[0].numpy()
        return result

    return features


MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4


@dataclass(frozen=True)
class TripletTraining:
    network: str
    margin: float
    learning_rate: float
    batch_size: int
    epochs: int
    seed: int


@dataclass(frozen=True)
class TrainedEncoder:
    tensors: dict[str, npt.NDArray[Any]]
    num_dimensions: int
    in_order: float
    """Share of all triplets whose recognised version is nearer than the unrecognised one, 0 to 1."""

    in_order_held_back: float | None


def train(
    how: TripletTraining,
    inputs: npt.NDArray[Any],
    triplets: Sequence[Triplets],
    held_back: Sequence[Triplets],
    on_epoch: Callable[[int], None],
) -> TrainedEncoder:
    """Train a network. inputs: of all pictures, as `as_batch` takes them. on_epoch: takes the number of epochs done.

    The same inputs and seed give the same weights on one machine. IncompleteError if the loss is no number.
    """
    torch.manual_seed(how.seed)
    random = np.random.default_rng(how.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = made(how.network).to(device)
    optimizer = torch.optim.SGD(model.parameters(), how.learning_rate, MOMENTUM, weight_decay=WEIGHT_DECAY)
    for epoch in range(how.epochs):
        order = random.permutation(len(triplets))
        for start in range(0, len(order), how.batch_size):
            batch = [triplets[n] for n in order[start : start + how.batch_size]]
            numbers = [
                [each.original for each in batch],
                [each.recognised for each in batch],
                [int(random.choice(each.unrecognised)) for each in batch],
            ]
            features = torch.nn.functional.normalize(model(as_batch(inputs[np.concatenate(numbers)]).to(device)))
            original, recognised, unrecognised = features.chunk(3)
            loss = torch.nn.functional.triplet_margin_loss(original, recognised, unrecognised, margin=how.margin)
            if not torch.isfinite(loss):
                raise IncompleteError(f"the loss is no number in epoch {epoch + 1}; use a smaller --learning-rate")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        on_epoch(epoch + 1)
    model.eval()
    features = _features(model, inputs, how.batch_size, device)
    if not np.isfinite(features).all():
        raise IncompleteError("the weights are no numbers after the last epoch; use a smaller --learning-rate")
    tensors = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
    in_order_held_back = _in_order(features, held_back) if held_back else None
    return TrainedEncoder(tensors, features.shape[1], _in_order(features, triplets), in_order_held_back)


def _features(model: Any, inputs: npt.NDArray[Any], batch_size: int, device: str) -> npt.NDArray[np.float32]:
    parts = []
    with torch.inference_mode():
        for start in range(0, len(inputs), batch_size):
            batch = as_batch(inputs[start : start + batch_size]).to(device)
            parts.append(torch.nn.functional.normalize(model(batch)).cpu().numpy())
    return np.concatenate(parts)


def _in_order(features: npt.NDArray[np.float32], triplets: Sequence[Triplets]) -> float:
    """Return the share of unrecognised versions that are farther than the recognised one, mean over the triplets."""
    shares = []
    for each in triplets:
        near = np.linalg.norm(features[each.recognised] - features[each.original])
        far = np.linalg.norm(features[list(each.unrecognised)] - features[each.original], axis=1)
        shares.append(float((far > near).mean()))
    return float(np.mean(shares))
