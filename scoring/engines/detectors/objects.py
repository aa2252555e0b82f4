"""People, vehicles and things with NanoDet (COCO's 80 classes); the model does not know who is depicted.

Model: NanoDet-g, github.com/RangiLyu/nanodet; output and classes as in its documentation.
"""

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Pixels
from scoring.engines.detectors.findings import Detection
from scoring.engines.detectors.models import Network, open_network

Floats = npt.NDArray[np.float32]

LONGER_SIDE_PX = 512
"""Size of the model's input: above 640 px one body is found twice."""

STRIDES_PX = (8, 16, 32)
NUM_STEPS = 11
"""The distance of a cell to each side of its box is a distribution over 0 … 10 strides."""

PERSON = 0
CONFIDENCE = 0.35
"""Minimum confidence of a detection; rules about one thing ask for more (`scene.py`)."""

MAX_OVERLAP = 0.45
"""Intersection over union from which two boxes of a class are one thing."""

MAX_INSIDE = 0.7
MIN_SIZE_OF_SECOND = 0.4
"""A box this far inside a surer one of its class, and at least this large relative to it, is the same thing."""


@dataclass(frozen=True)
class Thing(Detection):
    kind: int
    """Class of COCO, 0–79; 0 is a person."""


class ObjectFinder:
    def __init__(self, opened: Callable[[str], Network] = open_network) -> None:
        self._network = opened("nanodet_g_coco.onnx")

    def find(self, pixels: Pixels) -> list[Thing]:
        """Find things, surest first. pixels: uint8 RGB of shape (height, width, 3)."""
        height, width = pixels.shape[:2]
        if min(height, width) < 16:
            return []
        scale = LONGER_SIDE_PX / max(height, width)
        seen_size = [max(32, round(side * scale / 32) * 32) for side in (height, width)]
        image = cv2.resize(pixels, (seen_size[1], seen_size[0]), interpolation=cv2.INTER_AREA)
        scores, distances = self._network(image[None])
        cells = np.flatnonzero(scores[0].max(axis=1) >= CONFIDENCE)
        boxes = _boxes(distances[0, cells], cells, (seen_size[0], seen_size[1]))
        boxes *= np.array([width / seen_size[1], height / seen_size[0]] * 2, np.float32)
        return _distinct(scores[0, cells], boxes)


def _boxes(distances: Floats, cells: npt.NDArray[np.intp], size: tuple[int, int]) -> Floats:
    """Decode distances, (n, 44) -> (n, 4): x_min, y_min, x_max, y_max in pixels.

    cells: numbers of their cells, shape (n,). size: height and width of the picture as the model sees it.
    """
    of_strides = [_centres(size, stride) for stride in STRIDES_PX]
    centres = np.concatenate(of_strides)[cells]
    strides = np.repeat(STRIDES_PX, [len(part) for part in of_strides])[cells]
    logits = distances.reshape(-1, 4, NUM_STEPS)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    steps = (weights * np.arange(NUM_STEPS)).sum(axis=2) / weights.sum(axis=2)
    reach = steps * strides[:, None]
    boxes = np.concatenate([centres - reach[:, :2], centres + reach[:, 2:]], axis=1)
    clipped: Floats = np.clip(boxes, 0, np.array([size[1], size[0]] * 2)).astype(np.float32)
    return clipped


def _centres(size: tuple[int, int], stride: int) -> Floats:
    """Return x and y of the cells of one stride, row by row; shape (cells, 2)."""
    y, x = np.mgrid[0 : size[0] // stride, 0 : size[1] // stride]
    return ((np.stack([x, y], axis=-1).reshape(-1, 2) + 0.5) * stride).astype(np.float32)


def _distinct(scores: Floats, boxes: Floats) -> list[Thing]:
    """Return the sure boxes, one for each thing."""
    things: list[Thing] = []
    cells, kinds = np.nonzero(scores >= CONFIDENCE)
    for index in np.argsort(-scores[cells, kinds], kind="stable"):
        cell, kind = cells[index], int(kinds[index])
        x_min, y_min, x_max, y_max = map(float, boxes[cell])
        thing = Thing(x_min, y_min, x_max, y_max, float(scores[cell, kind]), kind)
        if not any(_is_same(thing, other) for other in things):
            things.append(thing)
    return things


def _is_same(thing: Thing, surer: Thing) -> bool:
    if thing.kind != surer.kind:
        return False
    common = thing.num_pixels_within(surer)
    union = thing.num_pixels + surer.num_pixels - common
    is_second = (
        common >= MAX_INSIDE * max(thing.num_pixels, 1.0) and thing.num_pixels >= MIN_SIZE_OF_SECOND * surer.num_pixels
    )
    return common >= MAX_OVERLAP * union or is_second
