"""The networks that can be trained, in torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torchvision
from PIL import Image

from ingest.errors import EngineError
from ingest.images.pixels import Pixels
from scoring.engines.detectors.features import NUM_FEATURES
from scoring.similarity.card import Network

HEAD_DIMENSIONS = 128

_MEAN, _DEVIATION = 127.5, 63.75
"""Pixels become numbers around 0."""


def made(network: Network) -> torch.nn.Module:
    """A network with random weights: a batch of its inputs -> features, shape (batch, dimensions)."""
    if network == "head":
        return torch.nn.Linear(NUM_FEATURES, HEAD_DIMENSIONS)
    whole: torch.nn.Module = getattr(torchvision.models, network)(weights=None)
    whole.fc = torch.nn.Identity()
    return whole


def square(pixels: Pixels, side_px: int) -> Pixels:
    """The picture as a whole network takes it, shape (side_px, side_px, 3)."""
    return np.asarray(Image.fromarray(pixels).resize((side_px, side_px), Image.Resampling.BILINEAR, reducing_gap=2.0))


def as_batch(inputs: npt.NDArray[Any]) -> torch.Tensor:
    """Frozen features, float32 of shape (batch, 1024), or squares, uint8 of shape (batch, side, side, 3)."""
    if inputs.dtype == np.uint8:
        scaled = (inputs.astype(np.float32) - _MEAN) / _DEVIATION
        return torch.from_numpy(np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)))
    return torch.from_numpy(inputs)


def loaded(
    network: Network, side_px: int, tensors: dict[str, Any], name: str
) -> Callable[[Pixels], npt.NDArray[np.float32]]:
    """A whole network with stored weights, as a function of pixels. EngineError, with `name`, if they do not fit."""
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
