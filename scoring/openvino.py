"""OpenVINO, a library that runs networks in less time than onnxruntime on processors with AMX, where it is installed.

AMX multiplies matrices of bfloat16, numbers of 16 bits, so that a few answers differ (`docs/measured/detectors.md`).
OpenVINO prepares a network for each new shape of input, in about 0.05 s. So inputs are padded to few shapes.
"""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError

PACKAGE = "openvino"
_PROCESSORS = Path("/proc/cpuinfo")

Array = npt.NDArray[Any]
Padding = Literal["edge", "constant"]


@cache
def in_use() -> str | None:
    """Return version and precision, "2026.4.1 bf16", since both change answers. None if OpenVINO is not installed, or
    the processor has no AMX: without, it takes more time than onnxruntime."""
    try:
        return f"{version(PACKAGE)} bf16" if "amx_bf16" in _PROCESSORS.read_text().split() else None
    except (PackageNotFoundError, OSError):  # or this is not Linux
        return None


class OpenVinoNetwork:
    """A network on one CPU thread. Call it with its input, in one thread at a time, to get the outputs of the file."""

    def __init__(self, file: Path, sides_px: Sequence[int] = (), padding: Padding = "edge"):
        """Read an ONNX file.

        sides_px: heights and widths to which inputs of shape (1, channels, height, width) are padded, ascending; a
        longer one is left as it is, as all are without them. padding: the last row and column, or zeros.
        """
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # it would call Google Analytics
        try:
            from openvino import Core
        except (ImportError, OSError) as error:
            raise EngineError("OpenVINO cannot be loaded: install the package openvino again, or remove it") from error
        settings = {
            "INFERENCE_NUM_THREADS": 1,
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # processes beside each other would share a core
            "INFERENCE_PRECISION_HINT": "bf16",
        }
        self._request = Core().compile_model(file, "CPU", settings).create_infer_request()
        self._sides_px, self._padding = sides_px, padding

    def __call__(self, inputs: Array) -> list[Array]:
        """Return the outputs. Those with a height and a width also show the padding, at the lower and right edge."""
        return list(self._request.infer({0: self._padded(inputs)}, share_inputs=True).to_tuple())

    def _padded(self, inputs: Array) -> Array:
        lengths = inputs.shape[2:]
        more = [next((side for side in self._sides_px if side >= length), length) - length for length in lengths]
        return np.pad(inputs, [(0, 0), (0, 0), *((0, n) for n in more)], mode=self._padding) if any(more) else inputs
