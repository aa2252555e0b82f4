"""Pictures that are written again: cleaned, or covered until a detector finds nothing more to cover.

Covering goes in rounds. The first covers the boxes of the row that the policy's rule names; a run without such boxes
(of a model that gives none) gets them from the detectors engine. Then the engine looks at the picture as it would be
released. What it still finds is covered too, all areas grow, and it looks again. A picture in which something is left
after `MAX_LOOKS` is not released. So a covered picture in a release is always one in which that engine found nothing of
what the rule covers; what the engine cannot see stays.
Where faces are covered, all is covered that may be one, also what is too small or too unsure to count in a row.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ingest.errors import PolicyError
from ingest.fault import Fault
from ingest.formats.released import Rewritten
from ingest.images.cleaning import FORMATS as CLEANED_FORMATS
from ingest.images.cleaning import cleaned
from ingest.images.covering import FORMATS as COVERED_FORMATS
from ingest.images.covering import Area, CoverMethod, covered
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from scoring.assessment import Assessment, EngineDescription, EngineOptions, View
from scoring.engines import detectors
from scoring.engines.detectors.findings import fractions
from scoring.policies.policy import NOT_CLEANED, NOT_COVERED, WHOLE_IMAGE, Policy, Rule
from scoring.taxonomy import KEYS

if TYPE_CHECKING:
    from scoring.engines.detectors.engine import DetectorsEngine

MAX_LOOKS = 4
"""How often the engine looks at one picture at most."""

FACES = "biometrics"

_MARGIN = 0.15
"""Share of the shorter side of an area that is added on each side, …"""
_MIN_MARGIN = 0.004
"""… at least this share of the picture."""
_END_MARGIN = 0.5
"""Share of its height by which a plate grows to the left and right: the last sign is often outside of the box."""
_GROWTH = 1.6
"""Factor of the margins in each further round."""


@dataclass(frozen=True)
class Rewriter:
    """Writes the pictures of one shard again, as a policy wants it."""

    policy: Policy
    decisions: Mapping[int, Mapping[str, Any]]
    """Index of each released image -> its rule, its status, number of scanned frames, and boxes."""

    def __call__(self, index: int, encoded: bytes) -> Rewritten | Fault:
        decided = self.decisions[index]
        rule = next((r for r in self.policy.rules if r.name == decided["rule"] and r.then == "redact"), None)
        if rule is not None:
            return _redacted(encoded, rule, decided["boxes"] or (), self.policy.cover_method)
        if self.policy.files == "as-is":
            return Rewritten(encoded)
        if decided["status"] != "scored":
            return Fault(NOT_CLEANED, "it was not scanned, so it cannot be cleaned")
        content = cleaned(encoded, decided["num_frames_scanned"] or 1)
        if content is None:
            formats = ", ".join(CLEANED_FORMATS)
            return Fault(NOT_CLEANED, f"its file cannot be cleaned without a change of its pixels ({formats} can be)")
        return Rewritten(content)


def rewriter_of(policy: Policy, rows: pa.Table, decisions: pa.Table) -> Rewriter:
    """rows: of one shard, as many as decisions, with what `Policy.columns` names."""
    names = [name for name in ("status", "num_frames_scanned", "boxes") if name in rows.column_names]
    kept = {
        index: {"rule": rule, "boxes": None} | row
        for index, rule, action, row in zip(
            decisions["index"].to_pylist(),
            decisions["rule"].to_pylist(),
            decisions["action"].to_pylist(),
            rows.select(names).to_pylist(),
            strict=True,
        )
        if action != "drop"
    }
    return Rewriter(policy, kept)


@cache
def second_look() -> EngineDescription:
    """The engine that looks at covered pictures. EngineError if it cannot run here."""
    return detectors.describe(EngineOptions())


def refuse_uncoverable(policy: Policy) -> None:
    """PolicyError for a rule that covers what the second look cannot judge. EngineError if there can be no look."""
    if not any(name != WHOLE_IMAGE for rule in policy.rules for name in rule.cover):
        return
    engine = second_look()
    for rule in policy.rules:
        for name in rule.cover:
            if name not in (*engine.assessed, WHOLE_IMAGE):
                raise PolicyError(
                    f'{policy.file}: rule "{rule.name}" covers {name}, and the {engine.name} engine, which looks at '
                    f"covered pictures, does not judge it; there are: {', '.join([*engine.assessed, WHOLE_IMAGE])}"
                )


@cache
def _engine() -> "DetectorsEngine":
    return detectors.load(EngineOptions())


@dataclass(frozen=True)
class _Look:
    """What the engine found of the attributes that are to be covered."""

    is_found: bool
    """Whether it found one, or could not judge one."""

    areas: tuple[Area, ...]


def _redacted(encoded: bytes, rule: Rule, boxes: Sequence[Mapping[str, Any]], method: CoverMethod) -> Rewritten | Fault:
    if WHOLE_IMAGE in rule.cover:
        return _made(covered(encoded, [(0.0, 0.0, 1.0, 1.0)], method), num_areas=1, num_looks=0)
    areas = [
        _with_margin((box["x_min"], box["y_min"], box["x_max"], box["y_max"]), box["kind"])
        for box in boxes
        if box["attribute"] in rule.cover
    ]
    num_looks = 0
    if not areas:
        seen = _look(encoded, rule.cover)
        num_looks += 1
        if isinstance(seen, Fault):
            return seen
        areas = list(seen.areas)
    if FACES in rule.cover:
        areas += _possible_faces(encoded)
    if not areas:
        return Fault(NOT_COVERED, f"the detectors do not say where it shows {', '.join(rule.cover)}")
    while num_looks < MAX_LOOKS:
        content = covered(encoded, areas, method)
        if content is None:
            return _made(content, 0, 0)
        seen = _look(content, rule.cover)
        num_looks += 1
        if isinstance(seen, Fault):
            return seen
        if not seen.is_found:
            return _made(content, len(areas), num_looks)
        areas = [_grown(area) for area in areas] + list(seen.areas)
    names = ", ".join(rule.cover)
    return Fault(NOT_COVERED, f"after {num_looks} looks the detectors still find {names}, or cannot judge it")


def _made(content: bytes | None, num_areas: int, num_looks: int) -> Rewritten | Fault:
    if content is None:
        formats = ", ".join(COVERED_FORMATS)
        return Fault(NOT_COVERED, f"a file of this kind cannot be covered ({formats} of one frame can be)")
    return Rewritten(content, num_areas, num_looks)


def _look(encoded: bytes, attributes: Collection[str]) -> _Look | Fault:
    image = decode(encoded, ImageLimits(max_side_px=second_look().max_side_px))
    if not isinstance(image, DecodedImage):
        return Fault(NOT_COVERED, f"it cannot be looked at again ({image.reason})")
    sha256 = hashlib.sha256(encoded).hexdigest()
    is_found, areas = False, list[Area]()
    for outcome in _engine().assess([View(pixels, image.metadata, sha256) for pixels in image.views]):
        if not isinstance(outcome, Assessment):
            return Fault(NOT_COVERED, f"it cannot be looked at again ({outcome.reason})")
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
