"""Evidence, by its kind and never with its content, and the values of attributes that follow from it.

A value is 0 only if these detectors would have found the attribute.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ingest.images.pixels import Area
from scoring.assessment import Assessment, Box, not_assessed
from scoring.taxonomy import KEYS


@dataclass(frozen=True)
class Finding:
    attribute: str
    """A taxonomy key."""

    value: float
    """1 clear, 0.5 ambiguous."""

    kind: str
    """Kind of evidence, in plain words."""

    area: Area | None = None
    confidence: float = 1.0
    """Confidence of the model, 0–1."""


def fractions(x_min: float, y_min: float, x_max: float, y_max: float, width: int, height: int) -> Area:
    """Convert a box in pixels of a view of width x height to an `Area`, cut at the borders."""

    def cut(value: float, size: int) -> float:
        return float(min(max(value / size, 0.0), 1.0))

    return cut(x_min, width), cut(y_min, height), cut(x_max, width), cut(y_max, height)


def holds_middle(area: Area, other: Area) -> bool:
    """Return whether an area holds the middle of another one."""
    x, y = (other[0] + other[2]) / 2, (other[1] + other[3]) / 2
    return area[0] <= x <= area[2] and area[1] <= y <= area[3]


@dataclass(frozen=True)
class Detection:
    """What a model has found in a view. Coordinates are pixels of the view, y down."""

    x_min: float
    y_min: float
    x_max: float
    y_max: float
    confidence: float
    """Confidence, 0–1."""

    @property
    def width(self) -> float:
        return self.x_max - self.x_min

    @property
    def height(self) -> float:
        return self.y_max - self.y_min

    @property
    def num_pixels(self) -> float:
        """Size of its box, in pixels of the view."""
        return self.width * self.height

    def num_pixels_within(self, other: "Detection") -> float:
        """Return how many pixels its box has in common with that of another one."""
        width = min(self.x_max, other.x_max) - max(self.x_min, other.x_min)
        height = min(self.y_max, other.y_max) - max(self.y_min, other.y_min)
        return max(0.0, width) * max(0.0, height)

    def box_in(self, size: tuple[int, int]) -> Area:
        """Return its box. size: (width, height) of the view in pixels."""
        return fractions(self.x_min, self.y_min, self.x_max, self.y_max, *size)


ABSENT_UNLESS_FOUND = (
    "biometrics",
    "gov_ids",
    "contact_details",
    "full_legal_name",
    "non_unique_id",
    "financial_data",
    "nudity",
    "documents",
    "metadata",
    "background_people",
)
"""Attributes that are 0 if nothing was found; the others are null, since these detectors miss most of their cases."""

ASSESSED = (
    *ABSENT_UNLESS_FOUND,
    "medical_data",
    "beliefs",
    "age",
    "gender",
    "location",
    "activities",
    "property_assets",
)
"""Attributes that can get a value."""

_EMBEDDED: tuple[tuple[str, str, float, str], ...] = (
    ("gps", "location", 1.0, "embedded coordinates"),
    ("gps", "metadata", 1.0, "embedded coordinates"),
    ("serial", "metadata", 1.0, "embedded serial number"),
    ("artist", "metadata", 1.0, "embedded author"),
)
"""Kind of metadata, attribute, value, kind of evidence.

The make of a camera and the time of a picture, which nearly every photo carries, say nothing of a person.
"""


def embedded_findings(kinds: Iterable[str]) -> list[Finding]:
    present = set(kinds)
    return [Finding(attribute, value, evidence) for kind, attribute, value, evidence in _EMBEDDED if kind in present]


def embedded_unread(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the attributes that are unknown if metadata could not be read."""
    return ("metadata",) if "unread" in kinds else ()


def decide(findings: Sequence[Finding], unread: Sequence[str] = ()) -> Assessment:
    """Decide the values. unread: attributes that are null instead of absent, since there is text or metadata that
    could not be read."""
    values = not_assessed()
    for key in ABSENT_UNLESS_FOUND:
        values[KEYS.index(key)] = np.nan if key in unread else 0.0
    for finding in findings:
        index = KEYS.index(finding.attribute)
        values[index] = max(finding.value, np.nan_to_num(values[index]))
    order = sorted(findings, key=lambda finding: (-finding.value, KEYS.index(finding.attribute)))
    evidence = dict.fromkeys(finding.kind for finding in order)
    boxes: dict[tuple[object, ...], Box] = {}  # one per attribute and area, named by the clearest kind of evidence
    for finding in sorted(findings, key=lambda finding: -finding.value):
        if finding.area is not None:
            box = Box(finding.attribute, finding.kind, *finding.area, confidence=round(finding.confidence, 3))
            boxes.setdefault((finding.attribute, finding.area), box)
    return Assessment(values, tuple(evidence), tuple(boxes.values()))
