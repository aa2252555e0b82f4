"""Modalities by the models of the detectors.

- `thumbnail`: a look at a copy of at most 480 px. No text is read, which is most of what the detectors do.
- `frozen`: 1,024 features of a network that was trained for something else.
- `detectors`: all that the detectors say, for the price of a scan with them. It is for a screen before a more
  expensive engine.
"""

import math
from threading import Lock

import numpy as np

from ingest.errors import EngineError, NoFeaturesError
from ingest.machine import install_command
from scoring import openvino
from scoring.assessment import Assessment, EngineOptions, Unscored
from scoring.engines import detectors
from scoring.engines.detectors.findings import ASSESSED
from scoring.engines.detectors.nudity import NUM_FEATURES, PictureFeatures
from scoring.screen.modalities import Features, PictureView
from scoring.taxonomy import KEYS

THUMBNAIL_VERSION, FROZEN_VERSION, DETECTORS_VERSION = "thumbnail-1", "frozen-1", "detectors-1"
"""Each changes with any of its features: a screen of another version is refused."""

LONGER_SIDE_PX = 480

METADATA_KINDS = ("artist", "camera", "copyright", "datetime", "description", "gps", "serial", "unread")
"""Kinds of embedded metadata, which decoding finds anyway."""

NUM_TEXTURE = 14
NUM_OF_FILE = 3 + len(METADATA_KINDS)


class Thumbnail:
    """Faces, people, things, a nudity signal, entropy, edges and colour; the picture's size and kinds of metadata."""

    @staticmethod
    def identity() -> dict[str, str]:
        try:
            from scoring.engines.detectors.glance import glance_models
        except ImportError as error:
            raise _missing("thumbnail", error) from error
        return {"features": THUMBNAIL_VERSION, **glance_models()}

    def __init__(self) -> None:
        try:
            from scoring.engines.detectors.glance import NUM_GLANCE, Glance, texture, thumbnail
        except ImportError as error:
            raise _missing("thumbnail", error) from error
        self._glance = Glance()
        self._texture, self._thumbnail = texture, thumbnail
        self.length = NUM_GLANCE + NUM_TEXTURE + NUM_OF_FILE

    def features(self, picture: PictureView) -> Features:
        small = self._thumbnail(picture.view.pixels, LONGER_SIDE_PX)
        width, height = max(picture.width, 1), max(picture.height, 1)
        of_file = [math.log(width / height), math.log(width * height), float(max(width, height) > LONGER_SIDE_PX)]
        kinds = [float(kind in picture.view.metadata) for kind in METADATA_KINDS]
        values = np.array([*self._glance.numbers(small), *self._texture(small), *of_file, *kinds], dtype=np.float32)
        assert len(values) == self.length
        return Features(values)


class Frozen:
    """The 1,024 numbers before the last layer of the network for nudity, which `similarity` compares pictures by."""

    length = NUM_FEATURES

    @staticmethod
    def identity() -> dict[str, str]:
        return {"features": FROZEN_VERSION, "open-nsfw.onnx": PictureFeatures.sha256}

    def __init__(self) -> None:
        try:
            self._features = PictureFeatures()
        except ImportError as error:
            raise _missing("frozen", error) from error

    def features(self, picture: PictureView) -> Features:
        # They are 0 or above, and a few are large.
        return Features(np.log1p(self._features.of(picture.view.pixels)))


class DetectorAnswers:
    """What the engine `detectors` says of a picture, for each attribute that it judges: its value, whether it has none,
    and the number, the confidence and the area of what was found."""

    length = 5 * len(ASSESSED)

    @staticmethod
    def identity() -> dict[str, str]:
        described = detectors.describe(EngineOptions())
        identity = {"features": DETECTORS_VERSION, "protocol": described.protocol, **described.weights}
        return identity | ({openvino.PACKAGE: version} if (version := openvino.in_use()) else {})

    def __init__(self) -> None:
        self._engine = detectors.load(EngineOptions())
        self._lock = Lock()  # the engine remembers the lines of a picture while it reads

    def features(self, picture: PictureView) -> Features:
        with self._lock:
            (outcome,) = self._engine.assess([picture.view])
        if isinstance(outcome, Unscored):
            raise NoFeaturesError(outcome.message)
        return answer_features(outcome)


def answer_features(answer: Assessment) -> Features:
    """Return 5 numbers for each attribute of `ASSESSED`, in its order: the value, 0 if it has none; whether it has
    none; log(1 + number of places); the highest confidence there; their share of the picture, 1 at most."""
    values = list[float]()
    for key in ASSESSED:
        value = float(answer.values[KEYS.index(key)])
        boxes = [box for box in answer.boxes if box.attribute == key]
        confidence = max((box.confidence for box in boxes), default=0.0)
        area = sum((box.x_max - box.x_min) * (box.y_max - box.y_min) for box in boxes)
        is_unknown = math.isnan(value)
        values += [0.0 if is_unknown else value, float(is_unknown), math.log1p(len(boxes)), confidence, min(1.0, area)]
    return Features(np.array(values, dtype=np.float32))


def _missing(name: str, error: ImportError) -> EngineError:
    return EngineError(
        f"the modality {name} of a screen needs the package {error.name}: {install_command('detectors')}"
    )
