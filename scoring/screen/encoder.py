"""Modality `encoder`: an ONNX file that the user names, such as the picture part of a CLIP or DINO model.

The file must take one input of one RGB picture, (1, 3, side, side) float32, and its first output is the embedding:
(1, d), or more axes, over which the mean is taken. Names and sizes of any fixed side are accepted.
"""

import hashlib
import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError
from ingest.images.pixels import Pixels
from ingest.machine import install_command
from scoring.screen.features import Features, PictureView

VERSION = "encoder-1"
"""Changes with the preparation of pictures: a screen of another version is refused."""

DEFAULT_SIDE_PX = 224
"""For a file whose input may have any side."""

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)
"""Statistics of ImageNet, in RGB, for values 0–1; what most encoders were trained with."""

MAX_ENCODER_BYTES = 2**31


def encoder_identity(content: bytes) -> dict[str, str]:
    """Return what decides the features. content: of the ONNX file."""
    return {"features": VERSION, "encoder": hashlib.sha256(content).hexdigest()}


class OnnxEncoder:
    """Embeddings of an ONNX model on one CPU thread."""

    def __init__(self, content: bytes, cache: Path | None = None) -> None:
        """content: of the ONNX file; files that it refers to are not read. cache: a folder that keeps the embeddings
        of each picture by its sha256; None keeps none. EngineError if the file is no model of this kind."""
        try:
            import onnxruntime
        except ImportError as error:
            raise EngineError(f"an encoder needs the package onnxruntime: {install_command('detectors')}") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session: Any = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the edge: a foreign file makes the library raise anything
            raise EngineError(
                f"the encoder cannot be opened as an ONNX model ({type(error).__name__}); give one .onnx file that "
                "holds its own weights"
            ) from None
        self._side = _side(self._session.get_inputs())
        self._name = self._session.get_inputs()[0].name
        self._cache = None if cache is None else cache / hashlib.sha256(content).hexdigest()[:32] / VERSION
        self.length = len(self._embedding(np.zeros((8, 8, 3), np.uint8)))

    def features(self, seen: PictureView) -> Features:
        kept = self._kept_file(seen)
        if kept is not None and kept.exists():
            values = _read(kept)
            if values is not None and values.shape == (self.length,):
                return Features(values)
        values = self._embedding(seen.view.pixels)
        if kept is not None:
            _write(kept, values)
        return Features(values)

    def _kept_file(self, seen: PictureView) -> Path | None:
        """A picture of several frames has one hash: the bytes of a frame are part of the name."""
        if self._cache is None:
            return None
        pixels = seen.view.pixels
        name = hashlib.sha256(f"{seen.view.sha256} {pixels.shape}".encode() + pixels.tobytes()).hexdigest()
        return self._cache / name[:2] / f"{name}.npy"

    def _embedding(self, pixels: Pixels) -> npt.NDArray[np.float32]:
        from PIL import Image

        small = Image.fromarray(np.ascontiguousarray(pixels)).resize((self._side, self._side), Image.Resampling.BICUBIC)
        inputs = (np.asarray(small, dtype=np.float32) / 255 - MEAN) / DEVIATION
        try:
            outputs = self._session.run(None, {self._name: np.ascontiguousarray(inputs.transpose(2, 0, 1)[None])})
        except Exception as error:  # the edge: what a foreign model raises
            raise EngineError(f"the encoder cannot look at a picture ({type(error).__name__})") from None
        values = np.asarray(outputs[0], dtype=np.float32)
        if values.ndim < 2 or values.shape[0] != 1 or not values.size or not np.isfinite(values).all():
            raise EngineError("the first output of the encoder is no embedding: it must be (1, d) and finite")
        # (1, tokens, d) of a transformer, (1, d, height, width) of a convolutional network.
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


def _read(file: Path) -> npt.NDArray[np.float32] | None:
    """Return None for a file that is damaged, which is then written again."""
    try:
        return np.asarray(np.load(file, allow_pickle=False), dtype=np.float32)
    except (OSError, ValueError, EOFError):
        return None


def _write(file: Path, values: npt.NDArray[np.float32]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{uuid.uuid4().hex}.npy")
    np.save(aside, values, allow_pickle=False)
    os.replace(aside, file)
