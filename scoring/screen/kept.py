"""Keeps the features of pictures in a folder of this machine, so that the next fit need not look at them again."""

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scoring.screen.modalities import Features, Modality, PictureView


class KeptModality:
    """A modality that looks at a picture once. Its vectors are given in full."""

    def __init__(self, modality: Modality, folder: Path, identity: Mapping[str, str]):
        """identity: what decides the features; those of another one are not read."""
        self.length = modality.length
        self._modality = modality
        self._folder = folder / hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]

    def features(self, seen: PictureView) -> Features | None:
        file = self._file(seen)
        values = _read(file)
        if values is not None and values.shape == (self.length,):
            return Features(values)
        features = self._modality.features(seen)
        if features is not None:
            _write(file, features.values)
        return features

    def _file(self, seen: PictureView) -> Path:
        """Return where its vector is kept. The frames of a picture share its hash, so the bytes of a frame are part of
        the name."""
        pixels = seen.view.pixels
        name = hashlib.sha256(f"{seen.view.sha256} {pixels.shape}".encode() + pixels.tobytes()).hexdigest()
        return self._folder / name[:2] / f"{name}.npy"


def _read(file: Path) -> npt.NDArray[np.float32] | None:
    """Return None without the file, or if it is damaged; it is then written again."""
    try:
        return np.asarray(np.load(file, allow_pickle=False), dtype=np.float32)
    except (OSError, ValueError, EOFError):
        return None


def _write(file: Path, values: npt.NDArray[np.float32]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{uuid.uuid4().hex}.npy")
    np.save(aside, values, allow_pickle=False)
    os.replace(aside, file)
