"""LPIPS by an ONNX file of the user's: its weights are trained on pictures of unclear licence, so none are installed.

Source: Zhang et al., "The unreasonable effectiveness of deep features as a perceptual metric", 2018.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError
from ingest.images.pixels import Pixels
from ingest.machine import install_command

MIN_SIDE_PX = 64
"""Smaller pictures are enlarged, since the layers of the usual networks would have nothing left of them."""


class Lpips:
    """A model with two inputs of shape (1, 3, height, width), float32 from −1 to 1, and one number as output: as
    `torch.onnx.export` writes the `LPIPS` of the package lpips."""

    def __init__(self, path: Path):
        """EngineError if onnxruntime is not installed, or the file is no such model."""
        try:
            import onnxruntime
        except ImportError as error:
            raise EngineError(f"LPIPS needs the package {error.name}: {install_command('detectors')}") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            content = path.read_bytes()
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except OSError as error:
            raise EngineError(f"{path} cannot be read: {error.strerror}") from None
        except Exception:  # the edge: onnxruntime has an exception for each way in which a file can be damaged
            raise EngineError(f"{path}: is no ONNX model that can be loaded") from None
        self._path, self._inputs = path, [given.name for given in self._session.get_inputs()]
        if len(self._inputs) != 2 or len(self._session.get_outputs()) != 1:
            raise EngineError(f"{path}: is no LPIPS; it has not two inputs and one output")

    def distance(self, a: Pixels, b: Pixels) -> float:
        """Return the distance, 0 for equal pictures. EngineError if the model does not take their size.

        a, b: of the same shape; small ones are enlarged.
        """
        given = {name: _scaled(pixels) for name, pixels in zip(self._inputs, (a, b), strict=True)}
        try:
            output = np.asarray(self._session.run(None, given)[0])
        except Exception:  # the edge, as above
            raise EngineError(
                f"{self._path}: does not take pictures of {a.shape[1]} x {a.shape[0]} pixels; "
                "export it for any height and width"
            ) from None
        if output.size != 1 or not np.isfinite(output).all():
            raise EngineError(f"{self._path}: is no LPIPS; its output is not one number")
        return float(output.reshape(-1)[0])


def _scaled(pixels: Pixels) -> npt.NDArray[np.float32]:
    times = -(-MIN_SIDE_PX // min(pixels.shape[:2]))
    pixels = pixels.repeat(times, axis=0).repeat(times, axis=1)
    return (pixels.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)[np.newaxis]
