"""Covers what a rule names in a picture, until the detectors find nothing more of it.

Covering goes in rounds. The first covers the boxes of the row. A run without such boxes, of a model that gives none,
gets them from the detectors. Then these examine the picture as it would be released. What they still find is covered
too, all areas grow, and the next round begins. A picture in which something is left after `MAX_LOOKS` is not released.

So a covered picture in a release is always one in which the detectors found nothing of what the rule covers; what they
cannot see stays. Where faces are covered, all is covered that may be one, also what is too small or too unsure to count
in a row.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ingest.errors import Fault
from ingest.formats.released import Rewritten
from ingest.images.covering import FORMATS, Area, CoverMethod, covered
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from scoring.assessment import Assessment, EngineDescription, EngineOptions, View
from scoring.engines import detectors
from scoring.engines.detectors.findings import fractions
from scoring.taxonomy import KEYS

if TYPE_CHECKING:
    from scoring.engines.detectors.engine import DetectorsEngine

NOT_COVERED = "not_covered"
"""The reason of a `Fault` of `covered_until_gone`."""

MAX_LOOKS = 4
"""How often the detectors examine one picture at most."""

FACES = "biometrics"

_MARGIN = 0.15
"""Share of the shorter side of an area that is added on each side, …"""
_MIN_MARGIN = 0.004
"""… at least this share of the picture."""
_END_MARGIN = 0.5
"""Share of its height by which a plate grows to the left and right: the last sign is often outside of the box."""
_GROWTH = 1.6
"""Factor of the margins in each further round."""


@cache
def second_look() -> EngineDescription:
    """Describe the engine that examines covered pictures. EngineError if it cannot run here."""
    return detectors.describe(EngineOptions())


@cache
def _engine() -> "DetectorsEngine":
    return detectors.load(EngineOptions())


@dataclass(frozen=True)
class _Look:
    """What the detectors found of the attributes that are to be covered."""

    is_found: bool
    """Whether it found one, or could not judge one."""

    areas: tuple[Area, ...]


def cover_whole(encoded: bytes, method: CoverMethod) -> Rewritten | Fault:
    return _made(covered(encoded, [(0.0, 0.0, 1.0, 1.0)], method), num_areas=1, num_looks=0)


def cover_attributes(
    encoded: bytes, attributes: Sequence[str], boxes: Sequence[Mapping[str, Any]], method: CoverMethod
) -> Rewritten | Fault:
    """attributes: of the taxonomy. boxes: of the picture's row, see `scoring.table.BOX_TYPE`."""
    areas = [
        _with_margin((box["x_min"], box["y_min"], box["x_max"], box["y_max"]), box["kind"])
        for box in boxes
        if box["attribute"] in attributes
    ]
    num_looks = 0
    if not areas:
        seen = _look(encoded, attributes)
        num_looks += 1
        if isinstance(seen, Fault):
            return seen
        areas = list(seen.areas)
    if not areas:
        return Fault(NOT_COVERED, f"the detectors do not say where it shows {', '.join(attributes)}")
    if FACES in attributes:
        areas += _possible_faces(encoded)
    while num_looks < MAX_LOOKS:
        content = covered(encoded, areas, method)
        if content is None:
            return _made(content, 0, 0)
        seen = _look(content, attributes)
        num_looks += 1
        if isinstance(seen, Fault):
            return seen
        if not seen.is_found:
            return _made(content, len(areas), num_looks)
        areas = [_grown(area) for area in areas] + list(seen.areas)
    names = ", ".join(attributes)
    return Fault(NOT_COVERED, f"after {num_looks} looks the detectors still find {names}, or cannot judge it")


def _made(content: bytes | None, num_areas: int, num_looks: int) -> Rewritten | Fault:
    if content is None:
        formats = ", ".join(FORMATS)
        return Fault(NOT_COVERED, f"a file of this kind cannot be covered ({formats} of one frame can be)")
    return Rewritten(content, num_areas, num_looks)


def _look(encoded: bytes, attributes: Collection[str]) -> _Look | Fault:
    image = decode(encoded, ImageLimits(max_side_px=second_look().max_side_px))
    if not isinstance(image, DecodedImage):
        return Fault(NOT_COVERED, f"it cannot be examined again ({image.reason})")
    sha256 = hashlib.sha256(encoded).hexdigest()
    is_found, areas = False, list[Area]()
    for outcome in _engine().assess([View(pixels, image.metadata, sha256) for pixels in image.views]):
        if not isinstance(outcome, Assessment):
            return Fault(NOT_COVERED, f"it cannot be examined again ({outcome.reason})")
        for key in attributes:
            value = outcome.values[KEYS.index(key)]
            is_unknown = bool(np.isnan(value)) and key not in second_look().presence_only
            is_found |= is_unknown or value > 0
        areas += [
            _with_margin((box.x_min, box.y_min, box.x_max, box.y_max), box.kind)
            for box in outcome.boxes
            if box.attribute in attributes
        ]
    return _Look(is_found, tuple(areas))


def _possible_faces(encoded: bytes) -> list[Area]:
    image = decode(encoded, ImageLimits(max_side_px=second_look().max_side_px))
    if not isinstance(image, DecodedImage):
        return []
    return [
        _with_margin(fractions(face.x_min, face.y_min, face.x_max, face.y_max, *pixels.shape[1::-1]), "face")
        for pixels in image.views
        for face in _engine().faces.possible(pixels)
    ]


def _with_margin(area: Area, kind: str) -> Area:
    width, height = area[2] - area[0], area[3] - area[1]
    margin = max(_MIN_MARGIN, _MARGIN * min(width, height))
    ends = _END_MARGIN * height if "plate" in kind else 0.0
    return (area[0] - margin - ends, area[1] - margin, area[2] + margin + ends, area[3] + margin)


def _grown(area: Area) -> Area:
    across, down = ((area[n + 2] - area[n]) * (_GROWTH - 1) / 2 for n in (0, 1))
    return (area[0] - across, area[1] - down, area[2] + across, area[3] + down)
