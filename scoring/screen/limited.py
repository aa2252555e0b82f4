"""The models that people name, as modalities: each runs in child processes, within limits of time and memory.

A screen may come from a stranger, and a file of 300 bytes can describe a loop without end or an array of any size.
"""

import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from importlib import import_module
from threading import Lock

import numpy as np

from ingest.child import Ask, LimitedChild, LimitError, Limits
from ingest.errors import EngineError, NoFeaturesError
from scoring.screen.modalities import Features, Modality, OnnxEncoder, PictureView
from scoring.screen.record import ENCODERS, MODEL_FILES, OF_CAPTIONS, ModalityName
from scoring.screen.text_encoder import OnnxTextModel, TextEncoder
from scoring.screen.transformers_model import TransformersEncoder, TransformersTextModel
from scoring.taxonomy import CARRIED_VARIABLES

Encoders = Mapping[str, bytes]
"""File of `MODEL_FILES` -> its content."""

MAX_CPU_S = 30
"""For loading a model, and for each view. Large models take a few seconds on one thread."""

MEMORY_BYTES, MEMORY_OF_FILES = 4 * 2**30, 4
"""Memory for one view, and multiple of the size of the files, which are converted and copied while they are loaded."""


class LimitedModality:
    """A model of the user's. Of an ONNX model, each thread that asks at the same time has a child of its own."""

    def __init__(self, name: ModalityName, files: Encoders):
        """files: those of this model. EngineError if they are no model of this kind, a package is missing, or loading
        the model takes too much."""
        self._name, self._files = name, files
        num_bytes = sum(map(len, files.values()))
        self._limits = Limits(MAX_CPU_S, MEMORY_BYTES + MEMORY_OF_FILES * num_bytes)
        self._idle = list[LimitedChild]()
        # A child with PyTorch takes too long to start, and too much memory, for one for each thread.
        self._turn = nullcontext() if _is_onnx(name, files) else Lock()
        child, self.length = self._started()
        self._idle.append(child)

    def features(self, picture: PictureView) -> Features | None:
        if self._name in OF_CAPTIONS:
            picture = replace(picture, view=replace(picture.view, pixels=np.zeros((1, 1, 3), np.uint8)))
        with self._turn:
            return self._asked(picture)

    def _asked(self, picture: PictureView) -> Features | None:
        try:
            child = self._idle.pop()
        except IndexError:
            child, _ = self._started()
        try:
            features: Features | None = child.ask(picture)
        except LimitError as error:
            raise NoFeaturesError(f"the modality {self._name} {error}") from None
        finally:
            if child.is_alive:
                self._idle.append(child)
        return features

    def _started(self) -> tuple[LimitedChild, int]:
        """Return a child that has loaded the model, and the number of its features."""
        try:
            prepare = _onnx if _is_onnx(self._name, self._files) else _transformers
            child = LimitedChild(prepare, self._limits, CARRIED_VARIABLES)
            return child, child.ask((self._name, self._files))
        except LimitError as error:
            raise EngineError(f"loading the model of the modality {self._name} {error}; choose another model") from None


def _onnx(_: Ask) -> "_Model":
    """Import what ONNX models need. Runs in the child, as all below."""
    with suppress(ImportError):  # the model says so
        import_module("onnxruntime")
        import_module("tokenizers")
    return _Model()


def _transformers(_: Ask) -> "_Model":
    os.environ["OMP_NUM_THREADS"] = "1"  # the other cores have pictures of their own
    with suppress(ImportError):
        import_module("scoring.engines.vlm.loading")
    return _Model()


class _Model:
    """Loads a model, and returns the number of its features; then answers of pictures."""

    _loaded: Modality

    def __call__(self, request: tuple[ModalityName, Encoders] | PictureView) -> int | Features | None:
        if isinstance(request, PictureView):
            return self._loaded.features(request)
        self._loaded = _loaded(*request)
        return self._loaded.length


def _loaded(name: ModalityName, files: Encoders) -> Modality:
    is_onnx = _is_onnx(name, files)
    if name in ENCODERS:
        return OnnxEncoder(*files.values()) if is_onnx else TransformersEncoder(*files.values())
    *model, tokenizer = files.values()
    return TextEncoder(OnnxTextModel(*model) if is_onnx else TransformersTextModel(*model), tokenizer)


def _is_onnx(name: ModalityName, files: Encoders) -> bool:
    return set(files) == set(MODEL_FILES[name][0])
