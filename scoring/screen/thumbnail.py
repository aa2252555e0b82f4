"""Modality `thumbnail`: a look at a copy of at most 480 px. No text is read, which is most of what the detectors do."""

import math

import numpy as np

from ingest.errors import EngineError
from ingest.machine import install_command
from scoring.screen.features import Features, PictureView

VERSION = "thumbnail-1"
"""Changes with any of the features: a screen of another version is refused."""

LONGER_SIDE_PX = 480

METADATA_KINDS = ("artist", "camera", "copyright", "datetime", "description", "gps", "serial", "unread")
"""Kinds of embedded metadata, which decoding finds anyway."""

NUM_TEXTURE = 14
NUM_OF_FILE = 3 + len(METADATA_KINDS)


def thumbnail_identity() -> dict[str, str]:
    """Return what decides the features: their version, and model file -> sha256. EngineError if a package or model
    file is missing."""
    try:
        from scoring.engines.detectors.glance import glance_models
    except ImportError as error:
        raise _missing(error) from error
    return {"features": VERSION, **glance_models()}


class Thumbnail:
    """Faces, people, things, a nudity signal, entropy, edges and colour; the picture's size and kinds of metadata."""

    def __init__(self) -> None:
        try:
            from scoring.engines.detectors.glance import NUM_GLANCE, Glance, texture, thumbnail
        except ImportError as error:
            raise _missing(error) from error
        self._glance = Glance()
        self._texture, self._thumbnail = texture, thumbnail
        self.length = NUM_GLANCE + NUM_TEXTURE + NUM_OF_FILE

    def features(self, seen: PictureView) -> Features:
        small = self._thumbnail(seen.view.pixels, LONGER_SIDE_PX)
        width, height = max(seen.width, 1), max(seen.height, 1)
        of_file = [math.log(width / height), math.log(width * height), float(max(width, height) > LONGER_SIDE_PX)]
        kinds = [float(kind in seen.view.metadata) for kind in METADATA_KINDS]
        values = np.array([*self._glance.numbers(small), *self._texture(small), *of_file, *kinds], dtype=np.float32)
        assert len(values) == self.length
        return Features(values)


def _missing(error: ImportError) -> EngineError:
    return EngineError(
        f"the modality thumbnail of a screen needs the package {error.name}: {install_command('detectors')}"
    )
