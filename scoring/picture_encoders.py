"""Encoders of pictures, whose features say how alike two pictures are: the frozen one of the detectors, and a trained
head over it."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError
from ingest.images.pixels import Pixels
from ingest.machine import install_command
from scoring.engines.detectors.nudity import NUM_FEATURES, PictureFeatures

FROZEN_SHA256 = PictureFeatures.sha256
"""Hash of the model whose features are frozen, in hex."""

FOOTER_KEY = "privsieve"
"""Name of the JSON in the metadata of a head's file; its `features_sha256` is the hash of the frozen model below."""

HEAD_WEIGHT, HEAD_BIAS = "weight", "bias"
"""Tensors of a head, of shape (outputs, 1024) and (outputs,)."""

MAX_FILE_BYTES = 2**26


@dataclass(frozen=True)
class PictureEncoder:
    """Pixels -> features of length 1, so that distances go from 0 to 2."""

    name: str
    """With the beginning of the sha256 of its weights."""

    of: Callable[[Pixels], npt.NDArray[np.float32]]


def frozen_encoder() -> PictureEncoder:
    """Return the features that are installed with the detectors. EngineError if they are not installed."""
    features = PictureFeatures()
    name = f"frozen features of open_nsfw ({FROZEN_SHA256[:12]})"
    return PictureEncoder(name, lambda pixels: unit(features.of(pixels)))


def trained_encoder(path: Path) -> PictureEncoder:
    """Load a linear layer over the frozen features. EngineError if the file has none, or safetensors is missing."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise EngineError(f"a trained head needs the package {error.name}: {install_command('tune')}") from None
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ValueError("too large")
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        with safe_open(path, framework="np") as file:
            below = json.loads((file.metadata() or {})[FOOTER_KEY])["features_sha256"]
            weight, bias = file.get_tensor(HEAD_WEIGHT), file.get_tensor(HEAD_BIAS)
        if weight.shape[1:] != (NUM_FEATURES,) or bias.shape != weight.shape[:1]:
            raise ValueError("other shapes")
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        raise EngineError(f"{path}: is no head over the frozen features (privsieve help similarity)") from None
    if below != FROZEN_SHA256:
        raise EngineError(f"{path}: was trained on other features than those that are installed; train it again")
    features = PictureFeatures()
    name = f"head {path.name} ({sha256[:12]})"
    return PictureEncoder(name, lambda pixels: unit(weight @ unit(features.of(pixels)) + bias))


def unit(features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the same direction with length 1; zeros stay zeros."""
    length = float(np.linalg.norm(features))
    return features if length == 0 else np.asarray(features / length, dtype=np.float32)
