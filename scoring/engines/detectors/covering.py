"""Covers targets in a picture, such as faces, until the detectors find nothing more of them.

Covering goes in steps. "boxes" covers what the row and the detectors found, with a margin. Then the detectors examine
the picture as it would be released. If something is left, "wider" covers it too and enlarges all areas, twice at most.
If something is still left, "image" covers the whole picture where the rule allows that; else the picture is not
released.

So a covered picture in a release is always one in which the detectors found nothing of the targets; what they cannot
see stays. Where faces are covered, all is covered that may be one, also what is too small or too unsure to count in a
row.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ingest.formats.released import CoverStep, NotReleased, Rewritten
from ingest.images.covering import FORMATS, TARGETS, Area, CoverMethod, covered, share_of
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits, Pixels
from scoring.assessment import Assessment, EngineDescription, EngineOptions, View
from scoring.engines import detectors
from scoring.engines.detectors.findings import fractions
from scoring.taxonomy import KEYS

if TYPE_CHECKING:
    from scoring.engines.detectors.engine import DetectorsEngine
    from scoring.engines.detectors.ocr import TextLine

NOT_COVERED = "not_covered"
"""The reason of a `NotReleased`."""

STEPS = ("boxes", "wider", "wider")
"""Steps before the whole picture is covered."""

_WHOLE: Area = (0.0, 0.0, 1.0, 1.0)
_FACE_MARGIN = 0.15
"""Share of its width and height by which a face grows on each side: to 1.3 times its size."""
_TEXT_MARGIN = 0.15
"""Share of its height by which a line, and everything that is no face, grows on each side."""
_PLATE_END_MARGIN = 0.5
"""Share of its height by which a plate grows to the left and right as well: the last sign is often outside the box."""
_MIN_MARGIN = 0.004
"""Margins are at least this share of the picture."""
_GROWTH = 1.6
"""Factor of width and height of all areas in each wider step."""
_WIDER_CONFIDENCE = 0.1
"""Confidence of possible faces in the wider steps; in the first it is that of possible heads."""

_MIN_SIGNS = 2
_LARGE_LINE = 0.25
"""Share of the picture."""


@cache
def second_look() -> EngineDescription:
    """Describe the engine that examines covered pictures. EngineError if it cannot run here."""
    return detectors.describe(EngineOptions())


@cache
def _engine() -> "DetectorsEngine":
    return detectors.load(EngineOptions())


@dataclass(frozen=True)
class _Look:
    """What the detectors saw of the targets."""

    left: tuple[str, ...]
    """Targets of which they found one, or which they could not judge."""

    areas: tuple[Area, ...]
    """With margins; also of what is too unsure to be `left`."""


class _NotExaminedError(Exception):
    """The picture cannot be examined; the message says why."""


def cover_whole(encoded: bytes, method: CoverMethod) -> Rewritten | NotReleased:
    """Cover all of a picture, without a look: with `pixelate` and `blur`, it may still show something."""
    content = covered(encoded, [_WHOLE], method)
    if content is None:
        return _not_coverable(())
    return Rewritten(content, (CoverStep("image", 1, 1.0, is_examined=False),))


def cover_targets(
    encoded: bytes, targets: Sequence[str], boxes: Sequence[Mapping[str, Any]], method: CoverMethod, falls_back: bool
) -> Rewritten | NotReleased:
    """Cover all that shows one of the targets, as the module says.

    targets: of `TARGETS`, and keys of attributes. boxes: of the picture's row, see `scoring.table.BOX_TYPE`.
    falls_back: whether the whole picture is covered if something is left, or nothing was found.
    """
    steps: list[CoverStep] = []
    try:
        first = _look(encoded, targets, ())
        areas = [*(_with_margin(_area_of(box), box["kind"]) for box in boxes if _shows(box, targets)), *first.areas]
        for name in STEPS if areas else ():
            content = covered(encoded, areas, method)
            if content is None:
                return _not_coverable(steps)
            seen = _look(content, targets, areas)
            steps.append(CoverStep(name, len(areas), share_of(areas), seen.left))
            if not seen.left:
                return Rewritten(content, tuple(steps))
            areas = [_grown(area) for area in areas] + list(seen.areas)
    except _NotExaminedError as error:
        return NotReleased(NOT_COVERED, str(error), tuple(steps))
    if falls_back:
        content = covered(encoded, [_WHOLE], "solid")
        if content is not None:
            return Rewritten(content, (*steps, CoverStep("image", 1, 1.0, is_examined=False)))
    if not areas:
        message = f"the detectors do not say where it shows {', '.join(targets)}"
    else:
        message = f"after {len(steps)} steps the detectors still find {', '.join(steps[-1].left)}, or cannot judge it"
    return NotReleased(NOT_COVERED, message, tuple(steps))


def _not_coverable(steps: Sequence[CoverStep]) -> NotReleased:
    message = f"a file of this kind cannot be covered ({', '.join(FORMATS)} of one frame can be)"
    return NotReleased(NOT_COVERED, message, tuple(steps))


def _look(encoded: bytes, targets: Sequence[str], hidden: Sequence[Area]) -> _Look:
    """Examine the picture. hidden: areas that are covered already; none at the first look."""
    image = decode(encoded, ImageLimits(max_side_px=second_look().max_side_px))
    if not isinstance(image, DecodedImage):
        raise _NotExaminedError(f"it cannot be examined again ({image.reason})")
    sha256 = hashlib.sha256(encoded).hexdigest()
    left, areas = dict[str, None](), list[Area]()
    for view in [View(pixels, image.metadata, sha256) for pixels in image.views]:
        seen = _look_at(view, targets, hidden)
        left |= dict.fromkeys(seen.left)
        areas += seen.areas
    return _Look(tuple(left), tuple(areas))


def _look_at(view: View, targets: Sequence[str], hidden: Sequence[Area]) -> _Look:
    [outcome] = _engine().assess([view])
    if not isinstance(outcome, Assessment):
        raise _NotExaminedError(f"it cannot be examined again ({outcome.reason})")
    boxes = [box for box in map(vars, outcome.boxes) if _shows(box, targets)]
    left = [target for target in TARGETS if target in targets and any(_shows(box, [target]) for box in boxes)]
    for key in targets:
        value = outcome.values[KEYS.index(key)] if key in KEYS else 0.0
        is_unknown = bool(np.isnan(value)) and key not in second_look().presence_only
        left += [key] if is_unknown or value > 0 else []
    areas = [_with_margin(_area_of(box), box["kind"]) for box in boxes]
    if {"faces", "biometrics"} & set(targets):
        areas += _possible_faces(view.pixels, is_wider=bool(hidden))
    if "text" in targets:
        lines = [line for line in _engine().text.read(view.pixels) if _is_line(line, hidden)]
        _engine().text.forget()
        areas += [_with_margin(line.area, "text") for line in lines]
        left += ["text"] if any(line.text for line in lines) else []
    if {"vehicles", "persons"} & set(targets):
        things, things_left = _things(view.pixels, targets)
        areas += things
        left += things_left
    return _Look(tuple(dict.fromkeys(left)), tuple(areas))


def _is_line(line: "TextLine", hidden: Sequence[Area]) -> bool:
    """Return whether it is writing. A line without signs may be of another script. A single sign is a shape that looks
    like one, often a large one, and so are the covered areas of half a picture, read as one line."""
    if line.text and sum(map(str.isalnum, line.text)) < _MIN_SIGNS:
        return False
    left, upper, right, lower = line.area
    is_large = (right - left) * (lower - upper) > _LARGE_LINE
    middles = [((area[0] + area[2]) / 2, (area[1] + area[3]) / 2) for area in hidden]
    return not (is_large and any(left <= x <= right and upper <= y <= lower for x, y in middles))


def _shows(box: Mapping[str, Any], targets: Sequence[str]) -> bool:
    """Return whether a box of a row is of one of the targets."""
    attribute, kind = box["attribute"], box["kind"] or ""
    return (
        attribute in targets
        or ("faces" in targets and attribute == "biometrics")
        or ("plates" in targets and "plate" in kind)
        or ("codes" in targets and "barcode" in kind)
    )


def _possible_faces(pixels: Pixels, is_wider: bool) -> list[Area]:
    """Return all that may be a face in the picture or in its mirror image."""
    finder, width = _engine().faces, pixels.shape[1]
    least = {"least": _WIDER_CONFIDENCE} if is_wider else {}
    faces = [(face.x_min, face.y_min, face.x_max, face.y_max) for face in finder.possible(pixels, **least)]
    mirrored = finder.possible(np.ascontiguousarray(pixels[:, ::-1]), **least)
    faces += [(width - face.x_max, face.y_min, width - face.x_min, face.y_max) for face in mirrored]
    return [_with_margin(fractions(*face, *pixels.shape[1::-1]), "face") for face in faces]


def _things(pixels: Pixels, targets: Sequence[str]) -> tuple[list[Area], list[str]]:
    from scoring.engines.detectors.objects import PERSON
    from scoring.engines.detectors.scene import PERSON_CONFIDENCE, VEHICLE_CONFIDENCE, VEHICLES

    areas, left = list[Area](), list[str]()
    for thing in _engine().objects.find(pixels):
        target = "persons" if thing.kind == PERSON else "vehicles" if thing.kind in VEHICLES else ""
        if target in targets:
            box = fractions(thing.x_min, thing.y_min, thing.x_max, thing.y_max, *pixels.shape[1::-1])
            areas.append(_with_margin(box, target))
            is_sure = thing.confidence >= (PERSON_CONFIDENCE if target == "persons" else VEHICLE_CONFIDENCE)
            left += [target] if is_sure else []
    return areas, left


def _area_of(box: Mapping[str, Any]) -> Area:
    return box["x_min"], box["y_min"], box["x_max"], box["y_max"]


def _with_margin(area: Area, kind: str) -> Area:
    width, height = area[2] - area[0], area[3] - area[1]
    if kind.startswith("face"):
        across, down = _FACE_MARGIN * width, _FACE_MARGIN * height
    else:
        across = down = _TEXT_MARGIN * height
    ends = _PLATE_END_MARGIN * height if "plate" in kind else 0.0
    across, down = max(_MIN_MARGIN, across) + ends, max(_MIN_MARGIN, down)
    return (area[0] - across, area[1] - down, area[2] + across, area[3] + down)


def _grown(area: Area) -> Area:
    across, down = ((area[n + 2] - area[n]) * (_GROWTH - 1) / 2 for n in (0, 1))
    return (area[0] - across, area[1] - down, area[2] + across, area[3] + down)
