"""The modality `encoder`: embeddings by an ONNX model that the user names, such as the picture part of CLIP.

The model takes one RGB picture, (1, 3, side, side) float32, normalised as for ImageNet. Its first output is the
embedding: (1, d), or more axes, over which the mean is taken. Names, and sizes of any fixed side, are accepted.

A screen may come from a stranger, and a file of 300 bytes can describe a loop without end or an array of any size. So
the model runs in child processes with limits. These are given pixels, and answer with numbers of a known count.
"""

import hashlib
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.child import Ask, LimitedChild, LimitError, Limits
from ingest.errors import EngineError, NoFeaturesError
from ingest.images.pixels import Pixels
from ingest.machine import install_command
from scoring.engines.detectors.models import LOGS_NOTHING, session_of
from scoring.screen.modalities import Features, PictureView
from scoring.taxonomy import CARRIED_VARIABLES

ENCODER_FILE = "encoder.onnx"
"""In the folder of a screen."""

ENCODER_VERSION = "encoder-1"
"""Changes with the preparation of pictures: a screen of another version is refused."""

DEFAULT_SIDE_PX, MAX_SIDE_PX = 224, 1_024
"""Side for a file whose input may have any, and limit of that of others."""

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)
"""Statistics of ImageNet, in RGB, for values 0–1; what most encoders were trained with."""

MAX_ENCODER_BYTES = 2**31
MAX_FEATURES = 2**16

MAX_CPU_S = 30
"""For loading a model, and for each view. Large models take a few seconds on one thread."""

MEMORY_BYTES, MEMORY_OF_FILE = 4 * 2**30, 4
"""Memory for one view, and multiple of the size of the file, which is converted and copied while it is loaded."""

_COUNTS, _NUMBERS = np.dtype("<i4"), np.dtype("<f4")
"""Types of the answers of a child: side and number of features once, then the features of each picture."""


def encoder_identity(content: bytes) -> dict[str, str]:
    """Return what decides the features. content: of the ONNX file."""
    return {"features": ENCODER_VERSION, "encoder": hashlib.sha256(content).hexdigest()}


class Encoder:
    """A model with its children: each thread that asks at the same time has one of its own."""

    def __init__(self, content: bytes):
        """content: of the ONNX file; files that it refers to are not read. EngineError if it is no model of this kind,
        a package is missing, or loading the model takes too much."""
        self._content = content
        num_bytes = MEMORY_BYTES + MEMORY_OF_FILE * len(content)
        self._limits = Limits(MAX_CPU_S, num_bytes, answer_bytes=_NUMBERS.itemsize * MAX_FEATURES)
        child, self._side, self.length = self._started()
        self._idle = [child]

    def features(self, picture: PictureView) -> Features:
        from PIL import Image

        pixels = Image.fromarray(np.ascontiguousarray(picture.view.pixels))
        small = pixels.resize((self._side, self._side), Image.Resampling.BICUBIC).tobytes()
        try:
            child = self._idle.pop()
        except IndexError:
            child, *_ = self._started()
        try:
            answer = child.ask(small)
        except LimitError as error:
            raise NoFeaturesError(f"the modality encoder {error}") from None
        finally:
            if child.is_alive:
                self._idle.append(child)
        values = np.frombuffer(answer, _NUMBERS) if len(answer) == self.length * _NUMBERS.itemsize else None
        if values is None or not np.isfinite(values).all():
            raise NoFeaturesError("the encoder gives embeddings of different lengths, or no numbers")
        return Features(values)

    def _started(self) -> tuple[LimitedChild, int, int]:
        """Return a child that has loaded the model, the side of its pictures in pixels, and the number of features."""
        try:
            child = LimitedChild(_prepared, self._limits, CARRIED_VARIABLES)
            side, length = np.frombuffer(child.ask(self._content), _COUNTS).tolist()
        except LimitError as error:
            raise EngineError(f"loading the encoder {error}; choose another model") from None
        except ValueError:
            raise EngineError("the encoder gives no embedding; choose another model") from None
        if not (0 < side <= MAX_SIDE_PX and 0 < length <= MAX_FEATURES):
            raise EngineError(
                f"the encoder takes pictures of {side:,} px and gives {length:,} numbers; at most {MAX_SIDE_PX:,} px "
                f"and {MAX_FEATURES:,} numbers are taken"
            )
        return child, side, length


def _prepared(_: Ask) -> "_Model":
    """Import what ONNX models need. Runs in the child, as all below."""
    with suppress(ImportError):  # the model says so
        import_module("onnxruntime")
    return _Model()


class _Model:
    """Loads the content of a file, and returns its side and the number of its features; then those of pictures."""

    _session: Any = None
    _side = 0

    def __call__(self, content: bytes) -> bytes:
        if self._session is not None:
            pixels = np.frombuffer(content, np.uint8).reshape(self._side, self._side, 3)
            return self._embedding(pixels).astype(_NUMBERS).tobytes()
        try:
            session = session_of(content, LOGS_NOTHING)
        except ImportError as error:
            raise EngineError(f"an encoder needs the package onnxruntime: {install_command('detectors')}") from error
        except Exception as error:  # the edge: a foreign file makes the library raise anything
            raise EngineError(
                f"the encoder cannot be opened as an ONNX model ({type(error).__name__}); give one .onnx file that "
                "holds its own weights"
            ) from None
        self._side = _side(session.get_inputs())
        self._session, self._name = session, session.get_inputs()[0].name
        length = len(self._embedding(np.zeros((self._side, self._side, 3), np.uint8)))
        return np.array([self._side, length], _COUNTS).tobytes()

    def _embedding(self, pixels: Pixels) -> npt.NDArray[np.float32]:
        inputs = (pixels.astype(np.float32) / 255 - MEAN) / DEVIATION
        try:
            outputs = self._session.run(None, {self._name: np.ascontiguousarray(inputs.transpose(2, 0, 1)[None])})
        except Exception as error:  # the edge: what a foreign model raises
            raise NoFeaturesError(f"the encoder cannot look at a picture ({type(error).__name__})") from None
        return _pooled(np.asarray(outputs[0], dtype=np.float32))


def _pooled(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the embedding in the output of a model, shape (d,).

    The output is (1, d); or, from a transformer, (1, tokens, d), or, from a convolutional network, (1, d, height,
    width): then the mean over the other axes is taken. NoFeaturesError for another output.
    """
    if values.ndim < 2 or values.shape[0] != 1 or not values.size or not np.isfinite(values).all():
        raise NoFeaturesError("the first output of the encoder is no embedding: it must be (1, d) and finite")
    axes = (2, 3) if values.ndim == 4 else tuple(range(1, values.ndim - 1))
    return np.asarray(values.mean(axis=axes).ravel(), dtype=np.float32)


def _side(inputs: Any) -> int:
    """Return the side of the pictures that a model takes, in pixels. EngineError if it takes something else."""
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type != "tensor(float)":
        raise EngineError("the encoder must take one float32 picture, (1, 3, side, side), and nothing else")
    batch, channels, height, width = inputs[0].shape
    fixed = {side for side in (height, width) if isinstance(side, int)}
    if (isinstance(batch, int) and batch != 1) or (isinstance(channels, int) and channels != 3) or len(fixed) > 1:
        raise EngineError(f"the encoder takes {inputs[0].shape}; it must take one RGB picture, (1, 3, side, side)")
    side: int = fixed.pop() if fixed else DEFAULT_SIDE_PX
    if not 0 < side <= MAX_SIDE_PX:
        raise EngineError(f"the encoder takes pictures of {side:,} px; at most {MAX_SIDE_PX:,} px are taken")
    return side
