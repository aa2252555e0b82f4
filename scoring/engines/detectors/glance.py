"""What the detectors see in a small copy of a picture, as numbers: a cheap first look without any reading of text."""

from collections.abc import Sequence
from math import log, log1p, sqrt

import cv2
import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Pixels
from scoring.engines.detectors.faces import FACE_CONFIDENCE, Face, FaceFinder
from scoring.engines.detectors.models import SHA256, checked_path, with_onnxruntime
from scoring.engines.detectors.nudity import NudityClassifier
from scoring.engines.detectors.objects import PERSON, ObjectFinder, Thing

NUM_KINDS = 80
"""COCO's classes."""

MODELS = ("centerface.onnx", "nanodet_g_coco.onnx", "open-nsfw.onnx")

NUM_GLANCE = 5 + 7 + NUM_KINDS + 1
"""Length of `Glance.numbers`."""


def glance_models() -> dict[str, str]:
    """Return model file -> sha256 in hex. EngineError if one is missing or another file."""
    return {name: SHA256[name] for name in MODELS if checked_path(name)}


class Glance:
    def __init__(self) -> None:
        # A screen has learnt these numbers, and asks in several threads.
        self._faces = FaceFinder(with_onnxruntime)
        self._objects = ObjectFinder(with_onnxruntime)
        self._nudity = NudityClassifier(with_onnxruntime)

    def numbers(self, small: Pixels) -> npt.NDArray[np.float32]:
        """Return shape (NUM_GLANCE,), float32: 5 of people, 7 of faces, the confidence of each class, nudity.

        small: a copy of the picture; positions do not matter, and areas are shares of it.
        """
        area = float(small.shape[0] * small.shape[1])
        things, faces = self._objects.find(small), self._faces.possible(small)
        confidences = np.zeros(NUM_KINDS)
        for thing in things:
            confidences[thing.kind] = max(confidences[thing.kind], thing.confidence)
        nudity = min(max(self._nudity.score(small), 1e-4), 1 - 1e-4)
        values = [*_people(things, area), *_faces(faces, area), *confidences, log(nudity / (1 - nudity))]
        return np.array(values, dtype=np.float32)


def _people(things: Sequence[Thing], area: float) -> list[float]:
    people = sorted((thing for thing in things if thing.kind == PERSON), key=lambda thing: -thing.num_pixels)
    shares = [person.num_pixels / area for person in people]
    others = len(things) - len(people)
    return [log1p(len(people)), log1p(others), max(shares, default=0.0), sum(shares[1:4]), float(bool(people))]


def _faces(faces: Sequence[Face], area: float) -> list[float]:
    sure = [face for face in faces if face.confidence >= FACE_CONFIDENCE]
    largest = max(sure, key=lambda face: face.width, default=None)
    if largest is None:
        measured = [0.0, 0.0, 0.0]
    else:
        share = largest.width * largest.height / area
        measured = [sqrt(share), log1p(largest.sharpness), largest.flatness]
    highest = max((face.confidence for face in faces), default=0.0)
    return [log1p(len(sure)), log1p(len(faces)), highest, *measured, float(largest is not None)]


def thumbnail(pixels: Pixels, longer_side_px: int) -> Pixels:
    """Return a copy of at most this size, averaged over areas; the picture itself if it is no larger."""
    scale = longer_side_px / max(pixels.shape[:2])
    if scale >= 1:
        return np.ascontiguousarray(pixels)
    size = [max(1, round(side * scale)) for side in (pixels.shape[1], pixels.shape[0])]
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def texture(small: Pixels) -> list[float]:
    """Return 14 statistics of a small copy: entropy, contrast, edges and colour, about 1 ms."""
    grey = cv2.cvtColor(np.ascontiguousarray(small), cv2.COLOR_RGB2GRAY)
    counts = np.bincount(grey.ravel(), minlength=256) / grey.size
    entropy = float(-(counts[counts > 0] * np.log2(counts[counts > 0])).sum())
    kernel = np.ones((3, 3), np.uint8)
    contrast = cv2.dilate(grey, kernel) - cv2.erode(grey, kernel)
    laplacian = cv2.Laplacian(grey, cv2.CV_64F)
    is_edge = contrast > 40
    red, green, blue = (small[..., channel].astype(np.float64) for channel in range(3))
    opponents = (red - green, (red + green) / 2 - blue)
    saturation = small.max(axis=2).astype(np.float64) - small.min(axis=2)
    return [
        entropy,
        float(grey.mean()) / 255,
        float(grey.std()) / 255,
        float(counts[245:].sum()),
        float(counts[:10].sum()),
        float(is_edge.mean()),
        float((contrast <= 2).mean()),
        log1p(float(laplacian.var())),
        float(is_edge.mean(axis=1).std()),  # lines of text and forms are rows of edges
        float(is_edge.mean(axis=0).std()),
        *(float(part.std()) / 255 for part in opponents),
        float(saturation.mean()) / 255,
        float((saturation < 8).mean()),
    ]
