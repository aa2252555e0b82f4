"""Encoders of pictures: the frozen one, which is installed with the detectors, and those of `similarity train`."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError
from ingest.images.pixels import Pixels
from ingest.machine import install_command
from ingest.storage.file_format import FORMAT, refuse_other_format
from scoring.engines.detectors.nudity import NUM_FEATURES, PictureFeatures

Network = Literal["head", "resnet18", "resnet50"]
"""`head` is one linear layer over the frozen features; the others are whole networks over pixels."""

FOOTER_KEY = "privsieve"
"""Name of the JSON in the metadata of the file."""


@dataclass(frozen=True)
class EncoderCard:
    """What is stored in the file of a trained encoder."""

    network: Network
    side_px: int
    """Side of the square to which a whole network resizes pictures; 0 for a head."""

    num_dimensions: int
    num_originals: int
    num_triplets: int
    """Pictures that people recognised, each of which made a triplet in every epoch."""

    margin: float
    learning_rate: float
    batch_size: int
    epochs: int
    seed: int
    features_sha256: str
    """Hash of the frozen model below a head; empty for others."""

    in_order: float
    """Share of training triplets whose recognised version is nearer than the unrecognised one."""

    in_order_held_back: float | None
    """The same for originals that were held back; None if none were."""

    def as_metadata(self) -> dict[str, str]:
        return {FOOTER_KEY: json.dumps({"format": FORMAT, **asdict(self)})}


FROZEN_SHA256 = PictureFeatures.sha256
"""Hash of the model whose features are frozen, in hex."""

MAX_FILE_BYTES = 2**30

HEAD_WEIGHT, HEAD_BIAS = "weight", "bias"
"""Tensors of a head, of shape (outputs, 1024) and (outputs,)."""


@dataclass(frozen=True)
class PictureEncoder:
    """Pixels -> features of length 1, so that distances go from 0 to 2."""

    name: str
    """With the beginning of the sha256 of its weights."""

    num_dimensions: int
    of: Callable[[Pixels], npt.NDArray[np.float32]]


def frozen_encoder() -> PictureEncoder:
    """Return the features that are installed with the detectors. EngineError if they are not installed."""
    features = PictureFeatures()
    return PictureEncoder(
        f"frozen features of open_nsfw ({FROZEN_SHA256[:12]})",
        NUM_FEATURES,
        lambda pixels: unit(features.of(pixels)),
    )


def trained_encoder(path: Path) -> PictureEncoder:
    """Load an encoder of `similarity train`. EngineError if the file is none, or a package that it needs is missing."""
    card, tensors, sha256 = _read(path)
    name = f"{path.name}, {card.network} ({sha256[:12]})"
    if card.network == "head":
        return PictureEncoder(name, card.num_dimensions, _head(path, card, tensors))
    try:
        from scoring.similarity.networks import loaded
    except ImportError as error:
        raise _missing(error) from None
    return PictureEncoder(name, card.num_dimensions, loaded(card.network, card.side_px, tensors, str(path)))


def _read(path: Path) -> tuple[EncoderCard, dict[str, Any], str]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise _missing(error) from None
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise EngineError(f"{path}: is too large for an encoder of similarity train")
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        with safe_open(path, framework="np") as file:
            fields = json.loads((file.metadata() or {})[FOOTER_KEY])
            refuse_other_format(fields, str(path), "train the encoder again", EngineError)
            card = EncoderCard(**{name: value for name, value in fields.items() if name != "format"})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        raise EngineError(f"{path}: is no encoder that similarity train wrote") from None
    return card, tensors, sha256


def _head(path: Path, card: EncoderCard, tensors: dict[str, Any]) -> Callable[[Pixels], npt.NDArray[np.float32]]:
    features = PictureFeatures()
    if card.features_sha256 != FROZEN_SHA256:
        raise EngineError(f"{path}: was trained on other features than those that are installed; train it again")
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    if shapes != {HEAD_WEIGHT: (card.num_dimensions, NUM_FEATURES), HEAD_BIAS: (card.num_dimensions,)}:
        raise EngineError(f"{path}: its tensors do not have the shapes of a head")
    weight, bias = tensors[HEAD_WEIGHT], tensors[HEAD_BIAS]
    return lambda pixels: unit(weight @ unit(features.of(pixels)) + bias)


def unit(features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the same direction with length 1; zeros stay zeros."""
    length = float(np.linalg.norm(features))
    return features if length == 0 else np.asarray(features / length, dtype=np.float32)


def _missing(error: ImportError) -> EngineError:
    return EngineError(f"an encoder of similarity train needs the package {error.name}: {install_command('tune')}")
