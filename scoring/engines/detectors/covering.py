"""Covers targets in a picture, such as faces, until the detectors find nothing more of them.

Covering goes in steps. "boxes" covers what the row and the detectors found, with a margin. Then the detectors examine
the picture as it would be released. If something is left, "wider" covers it too and enlarges all areas, twice at most.
If something is still left, "image" covers the whole picture where the rule allows that; else the picture is not
released.

So a covered picture in a release is always one in which the detectors found nothing of the targets, except for what
people or the rule have spared (`Judged`); what the detectors cannot see stays. Where faces are covered, all is covered
that may be one, also what is too small or too unsure to count in a row.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from ingest.formats.released import CoverStep, NotReleased, Rewritten
from ingest.images.files import formats
from ingest.images.pixels import TARGETS, Area, CoverMethod, ImageLimits
from scoring.assessment import Assessment, EngineDescription, EngineOptions, Outcome, View
from scoring.engines import detectors
from scoring.engines.detectors.findings import holds_middle
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
def examiner() -> EngineDescription:
    """Describe the engine that examines covered pictures. EngineError if it cannot run here."""
    return detectors.describe(EngineOptions())


@cache
def _engine() -> "DetectorsEngine":
    return detectors.load(EngineOptions())


@dataclass(frozen=True)
class _Findings:
    """What the detectors saw of the targets."""

    left: tuple[str, ...]
    """Targets of which they found one, or which they could not judge."""

    areas: tuple[Area, ...]
    """With margins; also of what is too unsure to be `left`."""

    has_spared: bool
    """Whether there is evidence of the targets that `Judged` spares."""


@dataclass(frozen=True)
class Judged:
    """What is known of a picture and wins over what the detectors see in it."""

    covered: tuple[Area, ...] = ()
    """Areas that people have marked. They are covered as they are, without a margin."""

    spared: tuple[tuple[str | None, Area], ...] = ()
    """Attribute and area of boxes that people have removed: such evidence there is not covered, and is not `left`."""

    kinds: frozenset[str] = frozenset()
    """Kinds of evidence that the rule spares, and whatever is in the same place. `face` spares `face, sharp`, too."""

    def spares(self, attribute: str | None, kind: str | None, area: Area) -> bool:
        """Return whether this evidence is spared."""
        return self.has_kind(kind) or any(
            attribute == other and _is_same_place(area, place) for other, place in self.spared
        )

    def has_kind(self, kind: str | None) -> bool:
        return kind is not None and (kind in self.kinds or kind.partition(",")[0] in self.kinds)


NOTHING_JUDGED = Judged()


@dataclass(frozen=True)
class Demands:
    """What a covered picture must pass, besides that the detectors find none of the targets."""

    absent: tuple[str, ...] = ()
    """Keys of attributes that must be absent, whatever the rule covers."""

    verifier: Callable[[View], Outcome] | None = None
    """Another engine that looks once the detectors find nothing."""

    verifies: EngineDescription | None = None
    """Facts about that engine."""

    def verified(self, targets: Sequence[str]) -> tuple[str, ...]:
        """Return the keys of the attributes that the other engine must not see."""
        named = ["biometrics"] if "faces" in targets else []
        keys = {*named, *targets, *self.absent}
        return tuple(key for key in self.verifies.assessed if key in keys) if self.verifies else ()


DETECTORS_ALONE = Demands()


def _is_same_place(first: Area, second: Area) -> bool:
    """Return whether each area holds the middle of the other."""
    return holds_middle(first, second) and holds_middle(second, first)


class _NotExaminedError(Exception):
    """The picture cannot be examined; the message says why."""


def cover_whole(encoded: bytes, method: CoverMethod) -> Rewritten | NotReleased:
    """Cover all of a picture, and do not examine it: with `pixelate` and `blur`, it may still show something."""
    from ingest.images.rewriting import covered  # most releases need no decoder

    made = covered(encoded, [_WHOLE], method)
    if made is None:
        return _not_coverable(())
    return Rewritten(made.content, (CoverStep("image", 1, 1.0, is_examined=False),), colours=made.colours)


def cover_targets(
    encoded: bytes,
    targets: Sequence[str],
    boxes: Sequence[Mapping[str, Any]],
    method: CoverMethod,
    falls_back: bool,
    judged: Judged = NOTHING_JUDGED,
    demands: Demands = DETECTORS_ALONE,
) -> Rewritten | NotReleased:
    """Cover all that shows one of the targets, as the module says.

    targets: of `TARGETS`, and keys of attributes. boxes: of the picture's row, see `scoring.table.BOX_TYPE`.
    falls_back: whether the whole picture is covered if something is left, or nothing was found. If all that there is to
    cover is spared, the picture is released with nothing covered.
    """
    from ingest.images.rewriting import covered, share_of

    steps: list[CoverStep] = []
    absent = tuple(key for key in demands.absent if key in examiner().assessed)
    examined = tuple(dict.fromkeys((*targets, *absent)))
    try:
        first = _examined(encoded, targets, (), judged)
        shown = [box for box in boxes if _shows(box, targets)]
        of_row = [box for box in shown if not judged.spares(box["attribute"], box["kind"], _area_of(box))]
        areas = [*judged.covered, *(_with_margin(_area_of(box), box["kind"]) for box in of_row), *first.areas]
        is_spared = not first.left and (first.has_spared or len(of_row) < len(shown))
        for name in STEPS if areas or is_spared else ():
            made = covered(encoded, areas, method)
            if made is None:
                return _not_coverable(steps)
            findings = _examined(made.content, examined, areas, judged)
            if not findings.left and demands.verifier is not None:
                findings = _verified(made.content, demands, targets, judged)
            steps.append(CoverStep(name, len(areas), share_of(areas), findings.left))
            if not findings.left:
                return Rewritten(made.content, tuple(steps), colours=made.colours)
            areas = [_grown(area) for area in areas] + list(findings.areas)
    except _NotExaminedError as error:
        return NotReleased(NOT_COVERED, str(error), tuple(steps))
    if falls_back:
        # It is not examined again, and the targets are known to be in it: `pixelate` and `blur` could still show them.
        made = covered(encoded, [_WHOLE], "solid")
        if made is not None:
            steps.append(CoverStep("image", 1, 1.0, is_examined=False))
            return Rewritten(made.content, tuple(steps), colours=made.colours)
    message = f"the detectors do not say where it shows {', '.join(targets)}"
    if steps:
        still = ", ".join(steps[-1].left)
        message = f"after {len(steps)} steps the second look still finds {still}, or cannot judge it"
    return NotReleased(NOT_COVERED, message, tuple(steps))


def _not_coverable(steps: Sequence[CoverStep]) -> NotReleased:
    can_be = f"{', '.join(formats.COVERED)} of one frame can be, if it takes at most 1 GiB of memory"
    message = f"a file of this kind or size cannot be covered ({can_be})"
    return NotReleased(NOT_COVERED, message, tuple(steps))


def _examined(encoded: bytes, targets: Sequence[str], hidden: Sequence[Area], judged: Judged) -> _Findings:
    """Examine the picture. hidden: areas that are covered already; none at first."""
    remains, areas, has_spared = dict[str, None](), list[Area](), False
    for view in _views(encoded, examiner()):
        findings = _findings_in(view, targets, hidden, judged)
        remains |= dict.fromkeys(findings.left)
        areas += findings.areas
        has_spared = has_spared or findings.has_spared
    return _Findings(tuple(remains), tuple(areas), has_spared)


def _views(encoded: bytes, engine: EngineDescription) -> list[View]:
    from ingest.images.decode import DecodedImage, decode

    image = decode(encoded, ImageLimits(max_side_px=engine.max_side_px))
    if not isinstance(image, DecodedImage):
        raise _NotExaminedError(f"it cannot be examined again ({image.reason})")
    sha256 = hashlib.sha256(encoded).hexdigest()
    return [View(pixels, image.metadata, sha256) for pixels in image.views]


def _verified(encoded: bytes, demands: Demands, targets: Sequence[str], judged: Judged) -> _Findings:
    """Let the other engine examine the picture. What people have spared in a picture is not asked."""
    assert demands.verifier is not None
    assert demands.verifies is not None
    spared = {attribute for attribute, _ in judged.spared}
    keys = [key for key in demands.verified(targets) if key not in spared]
    remains, areas = list[str](), list[Area]()
    for view in _views(encoded, demands.verifies):
        outcome = demands.verifier(view)
        if not isinstance(outcome, Assessment):
            raise _NotExaminedError(f"the engine of the second look gives no answer ({outcome.reason})")
        for key in keys:
            value = outcome.values[KEYS.index(key)]
            is_unknown = bool(np.isnan(value)) and key not in demands.verifies.presence_only
            remains += [key] if is_unknown or value > 0 else []
        areas += [_with_margin(_area_of(vars(box)), box.kind) for box in outcome.boxes if box.attribute in remains]
    return _Findings(tuple(dict.fromkeys(remains)), tuple(areas), has_spared=False)


def _findings_in(view: View, targets: Sequence[str], hidden: Sequence[Area], judged: Judged) -> _Findings:
    # Here, since they need packages of the detectors, which `filter` does without where nothing is covered.
    from scoring.engines.detectors.faces import FACE_CONFIDENCE, HEAD_CONFIDENCE, face_findings
    from scoring.engines.detectors.objects import PERSON
    from scoring.engines.detectors.scene import PERSON_CONFIDENCE, VEHICLE_CONFIDENCE, VEHICLES

    [outcome] = _engine().assess([view])
    if not isinstance(outcome, Assessment):
        raise _NotExaminedError(f"it cannot be examined again ({outcome.reason})")
    evidence = [vars(box) for box in outcome.boxes]
    of_kinds = [_area_of(box) for box in evidence if judged.has_kind(box["kind"])]

    def is_spared(attribute: str | None, area: Area) -> bool:
        return judged.spares(attribute, None, area) or any(_is_same_place(area, place) for place in of_kinds)

    unspared = [box for box in evidence if not is_spared(box["attribute"], _area_of(box))]
    boxes = [box for box in unspared if _shows(box, targets)]
    remains = [target for target in TARGETS if target in targets and any(_shows(box, [target]) for box in boxes)]
    all_spared = {box["attribute"] for box in evidence} - {box["attribute"] for box in unspared}
    for key in targets:
        value = outcome.values[KEYS.index(key)] if key in KEYS else 0.0
        is_unknown = bool(np.isnan(value)) and key not in examiner().presence_only
        remains += [key] if is_unknown or (value > 0 and key not in all_spared) else []
    areas = [_with_margin(_area_of(box), box["kind"]) for box in boxes]
    if {"faces", "biometrics"} & set(targets):
        size = view.pixels.shape[1::-1]
        upright, turned = (_WIDER_CONFIDENCE, HEAD_CONFIDENCE) if hidden else (HEAD_CONFIDENCE, FACE_CONFIDENCE)
        places = list[Area]()  # of faces as the picture stands; turned, a large one is seen again, a little elsewhere
        for quarters, least in enumerate((upright, turned, turned, turned)):
            faces = _engine().faces.possible_turned(view.pixels, quarters, least)
            faces = [face for face in faces if not is_spared("biometrics", face.box_in(size))]
            # The engine judges the picture as it stands; it turns it only if it sees no face so.
            if quarters and face_findings(faces, size):
                remains += [target for target in ("faces", "biometrics") if target in targets]
            boxes_of_faces = [face.box_in(size) for face in faces]
            places = places if quarters else boxes_of_faces
            is_new = [not quarters or not any(_is_same_place(box, place) for place in places) for box in boxes_of_faces]
            areas += [_with_margin(box, "face") for box in compress(boxes_of_faces, is_new)]
    if "text" in targets:
        lines = [line for line in _engine().text.read(view.pixels) if _is_line(line, hidden)]
        lines = [line for line in lines if not is_spared(None, line.area)]
        _engine().text.forget()
        areas += [_with_margin(line.area, "text") for line in lines]
        remains += ["text"] if any(line.text for line in lines) else []
    for thing in _engine().objects.find(view.pixels) if {"vehicles", "persons"} & set(targets) else ():
        target = "persons" if thing.kind == PERSON else "vehicles" if thing.kind in VEHICLES else ""
        if target in targets:
            areas.append(_with_margin(thing.box_in(view.pixels.shape[1::-1]), target))
            is_sure = thing.confidence >= (PERSON_CONFIDENCE if target == "persons" else VEHICLE_CONFIDENCE)
            remains += [target] if is_sure else []
    has_spared = len(boxes) < sum(_shows(box, targets) for box in evidence)
    return _Findings(tuple(dict.fromkeys(remains)), tuple(areas), has_spared)


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
    attribute, kind = box["attribute"], box["kind"] or ""
    return (
        attribute in targets
        or ("faces" in targets and attribute == "biometrics")
        or ("plates" in targets and "plate" in kind)
        or ("codes" in targets and "barcode" in kind)
    )


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
