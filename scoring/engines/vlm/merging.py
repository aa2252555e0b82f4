"""What is computed on a model's weights while they are loaded, so that it costs nothing per picture.

Both engines add a LoRA adapter here: W + B·A·alpha/r, added in float32 and stored in the precision of the weight.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file

from scoring.engines.vlm.adapter import HALF, WEIGHTS, plain
from scoring.engines.vlm.checkpoint import ADAPTER_CONFIG, read_json

PLAIN = (torch.float32, torch.bfloat16, torch.float16)
"""Types of numbers that mean what they say, without a scale that is stored elsewhere."""

DEFAULT_ALPHA = 8
"""Of peft."""

PATCH_DIMENSIONS = 5
"""Of the weight of patches; no other has as many."""


class AdapterDeltas:
    """What an adapter in a folder (`scoring.engines.vlm.adapter`) adds to each weight of its model."""

    def __init__(self, folder: Path):
        config = read_json(folder / ADAPTER_CONFIG, f'the adapter "{folder}"')
        self._halves: dict[str, dict[str, torch.Tensor]] = {}
        self._scales: dict[str, float] = {}
        for name, matrix in load_file(folder / WEIGHTS).items():
            if match := HALF.fullmatch(name):
                module = plain(match["module"])
                self._halves.setdefault(module, {})[match["half"]] = matrix
                if match["half"] == "A":
                    rank = math.sqrt(len(matrix)) if config.get("use_rslora") else len(matrix)
                    self._scales[module] = float(config.get("lora_alpha", DEFAULT_ALPHA) / rank)

    def delta(self, weight: str, rows: Sequence[int] | None = None) -> torch.Tensor | None:
        """Return what is added to a weight of this name, in float32; None if nothing is. rows: return only these."""
        module = plain(weight.removesuffix(".weight"))
        if module not in self._halves or not weight.endswith(".weight"):
            return None
        halves = self._halves[module]
        up = halves["B"] if rows is None else halves["B"][list(rows)]
        return up.float() @ halves["A"].float() * self._scales[module]

    def merged(self, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield all weights, with the adapter added. ValueError if a weight is quantized, or one of the adapter's is
        missing."""
        missing = set(self._halves)
        for name, weight in weights:
            delta = self.delta(name)
            if delta is None:
                yield name, weight
                continue
            if weight.dtype not in PLAIN:
                raise ValueError(
                    f"{name} is quantized, so that no adapter can be added; merge it into the model before"
                )
            missing.discard(plain(name.removesuffix(".weight")))
            yield name, (weight.float() + delta.to(weight.device)).to(weight.dtype)
        if missing:
            raise ValueError(f"the model has no module {min(missing)}, which the adapter changes")


def for_stills(weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all weights; that of the patches, shape (features, colours, frames, height, width), for one frame.

    A still picture is a video of equal frames, so that the sum over the frames answers as they do. ValueError if that
    weight is quantized.
    """
    for name, weight in weights:
        if weight.dim() == PATCH_DIMENSIONS:
            if weight.dtype not in PLAIN:
                raise ValueError(f"{name} is quantized, so that its frames cannot be added")
            weight = weight.float().sum(2, keepdim=True).to(weight.dtype)
        yield name, weight
