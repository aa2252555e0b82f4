"""Modalities: ways to look at a picture for a screen, and what each says of it, as numbers.

- `thumbnail`, `frozen`, `detectors`: `detected.py`.
- `caption`: hashed words and pairs of words, and the kinds of evidence in the caption. Words are hashed, so a screen
  holds weights of places in a table and no word. The table can be asked for a word, though: who has the screen can see
  how it weighs a word that they name.
- `encoder`, `encoder-2`, `encoder-3`: models that the user names, such as the picture part of a CLIP or DINO model. An
  ONNX file must take one input of one RGB picture, (1, 3, side, side) float32. Its first output is the embedding:
  (1, d), or more axes, over which the mean is taken. Names and sizes of any fixed side are accepted. Models in the
  format of transformers: `transformers_model.py`.
- `text-encoder`: `text_encoder.py`.
"""

import hashlib
import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError, NoFeaturesError
from ingest.images.pixels import Pixels
from ingest.machine import install_command
from scoring.assessment import View
from scoring.captions import CAPTION_KINDS, caption_kinds
from scoring.engines.detectors.models import LOGS_NOTHING, session_of


@dataclass(frozen=True)
class Features:
    """A vector, in full or by its entries that are not 0."""

    values: npt.NDArray[np.float32]
    """Shape (d,), or (k,) if only k entries are given."""

    places: npt.NDArray[np.int64] | None = None
    """Shape (k,), rising: which entries these are; None if all are given."""


@dataclass(frozen=True)
class PictureView:
    """A view of a picture, and the size of the picture that it is of."""

    view: View
    width: int
    """Displayed width of the picture in pixels, before any downscaling."""

    height: int
    """Displayed height, as `width`."""


class Modality(Protocol):
    """One way to look at a picture, its models loaded."""

    @property
    def length(self) -> int:
        """Number of entries of a vector."""
        ...

    def features(self, picture: PictureView) -> Features | None:
        """Return None if the picture lacks what the modality looks at, such as a caption. NoFeaturesError if looking at
        it fails."""
        ...


CAPTION_VERSION = "caption-1"
"""Changes with any of the features: a screen of another version is refused."""

NUM_PLACES = 2**16
"""Entries of the table of words and pairs of words."""

_WORD = re.compile(r"\w+")


def caption_identity() -> dict[str, str]:
    """Return what decides the features."""
    return {"features": CAPTION_VERSION}


class Caption:
    """Words and pairs of words, whatever their case, and `scoring.captions.CAPTION_KINDS`."""

    length = NUM_PLACES + len(CAPTION_KINDS)

    def features(self, picture: PictureView) -> Features | None:
        return None if picture.view.caption is None else caption_features(picture.view.caption)


def caption_features(caption: str) -> Features:
    """Return the places of its words, each with 1 / √(number of places), and a 1 for each kind of evidence."""
    words = _WORD.findall(caption.lower())
    grams = {*words, *(f"{first} {second}" for first, second in pairwise(words))}
    places = sorted({crc32(gram.encode()) % NUM_PLACES for gram in grams})
    present = set(caption_kinds(caption))
    kinds = [NUM_PLACES + number for number, kind in enumerate(CAPTION_KINDS) if kind in present]
    values = [1 / max(1, len(places)) ** 0.5] * len(places) + [1.0] * len(kinds)
    return Features(np.array(values, dtype=np.float32), np.array([*places, *kinds], dtype=np.int64))


ENCODER_VERSION = "encoder-1"
"""Changes with the preparation of pictures: a screen of another version is refused."""

DEFAULT_SIDE_PX = 224
"""For a file whose input may have any side."""

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)
"""Statistics of ImageNet, in RGB, for values 0–1; what most encoders were trained with."""

MAX_ENCODER_BYTES = 2**31


def encoder_identity(content: bytes) -> dict[str, str]:
    """Return what decides the features. content: of the ONNX file."""
    return {"features": ENCODER_VERSION, "encoder": hashlib.sha256(content).hexdigest()}


class OnnxEncoder:
    """Embeddings of an ONNX model on one CPU thread."""

    def __init__(self, content: bytes) -> None:
        """content: of the ONNX file; files that it refers to are not read. EngineError if the file is no model of this
        kind."""
        try:
            self._session: Any = session_of(content, LOGS_NOTHING)
        except ImportError as error:
            raise EngineError(f"an encoder needs the package onnxruntime: {install_command('detectors')}") from error
        except Exception as error:  # the edge: a foreign file makes the library raise anything
            raise EngineError(
                f"the encoder cannot be opened as an ONNX model ({type(error).__name__}); give one .onnx file that "
                "holds its own weights"
            ) from None
        self._side = _side(self._session.get_inputs())
        self._name = self._session.get_inputs()[0].name
        self.length = len(self._embedding(np.zeros((8, 8, 3), np.uint8)))

    def features(self, picture: PictureView) -> Features:
        return Features(self._embedding(picture.view.pixels))

    def _embedding(self, pixels: Pixels) -> npt.NDArray[np.float32]:
        from PIL import Image

        small = Image.fromarray(np.ascontiguousarray(pixels)).resize((self._side, self._side), Image.Resampling.BICUBIC)
        inputs = (np.asarray(small, dtype=np.float32) / 255 - MEAN) / DEVIATION
        try:
            outputs = self._session.run(None, {self._name: np.ascontiguousarray(inputs.transpose(2, 0, 1)[None])})
        except Exception as error:  # the edge: what a foreign model raises
            raise NoFeaturesError(f"the encoder cannot look at a picture ({type(error).__name__})") from None
        return pooled(np.asarray(outputs[0], dtype=np.float32))


def pooled(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the embedding in the output of a model, shape (d,).

    The output is (1, d); or, from a transformer, (1, tokens, d), or, from a convolutional network, (1, d, height,
    width): then the mean over the other axes is taken. EngineError for another output.
    """
    if values.ndim < 2 or values.shape[0] != 1 or not values.size or not np.isfinite(values).all():
        raise EngineError("the first output of the encoder is no embedding: it must be (1, d) and finite")
    axes = (2, 3) if values.ndim == 4 else tuple(range(1, values.ndim - 1))
    return np.ascontiguousarray(values.mean(axis=axes).ravel())


def _side(inputs: Any) -> int:
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type != "tensor(float)":
        raise EngineError("the encoder must take one float32 picture, (1, 3, side, side), and nothing else")
    batch, channels, height, width = inputs[0].shape
    fixed = [side for side in (height, width) if isinstance(side, int)]
    if (isinstance(batch, int) and batch != 1) or (isinstance(channels, int) and channels != 3) or len(set(fixed)) > 1:
        raise EngineError(f"the encoder takes {inputs[0].shape}; it must take one RGB picture, (1, 3, side, side)")
    return fixed[0] if fixed else DEFAULT_SIDE_PX


class CachedModality:
    """A modality that looks at a picture once: its features are kept in a folder of this machine. Its vectors are given
    in full."""

    def __init__(self, modality: Modality, folder: Path, identity: Mapping[str, str]):
        """identity: what decides the features; those of another one are not read."""
        self.length = modality.length
        self._modality = modality
        self._folder = folder / hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]

    def features(self, picture: PictureView) -> Features | None:
        file = self._file(picture)
        values = _cached(file)
        if values is not None and values.shape == (self.length,):
            return Features(values)
        features = self._modality.features(picture)
        if features is not None:
            _write_cached(file, features.values)
        return features

    def _file(self, picture: PictureView) -> Path:
        """Return where its vector is kept. The frames of a picture share its hash, so the bytes of a frame are part of
        the name."""
        pixels = picture.view.pixels
        name = hashlib.sha256(f"{picture.view.sha256} {pixels.shape}".encode() + pixels.tobytes()).hexdigest()
        return self._folder / name[:2] / f"{name}.npy"


def _cached(file: Path) -> npt.NDArray[np.float32] | None:
    """Return None without the file, or if it is damaged; it is then written again."""
    try:
        return np.asarray(np.load(file, allow_pickle=False), dtype=np.float32)
    except (OSError, ValueError, EOFError):
        return None


def _write_cached(file: Path, values: npt.NDArray[np.float32]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{uuid.uuid4().hex}.npy")
    np.save(aside, values, allow_pickle=False)
    os.replace(aside, file)
