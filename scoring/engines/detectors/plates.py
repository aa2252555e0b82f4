"""Licence plates: a number of a plate's form on a vehicle, or alone in a picture with little else to read."""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from scoring.engines.detectors.findings import Area, Finding
from scoring.engines.detectors.objects import Thing
from scoring.engines.detectors.ocr import READABLE, Line
from scoring.engines.detectors.page import Page
from scoring.engines.detectors.scene import VEHICLES
from scoring.engines.detectors.vocabulary import rows

MIN_SIGNS, MAX_SIGNS = 5, 10
MAX_SIGNS_BESIDE = 90
"""In a picture with more to read a number of this form is something else."""
MIN_SHAPE, MAX_SHAPE = 2.0, 11.0
"""Width to height of a plate in one line."""
MARGIN = 0.5
"""In heights of the line, at both ends: the last sign must lie inside of the box."""


def plate_findings(page: Page, things: Sequence[Thing]) -> list[Finding]:
    """things: what was found in the view, in its pixels."""
    vehicles = [_area_of(thing, page) for thing in things if thing.kind in VEHICLES]
    on_vehicles = [line for line in page.readable if any(_is_inside(line.area, vehicle) for vehicle in vehicles)]
    alone = page.readable if page.num_chars <= MAX_SIGNS_BESIDE and not any(f.values for f in page.fields) else ()
    found: dict[Area, Finding] = {}
    for lines in (tuple(on_vehicles), tuple(alone)):
        for finding in _plates(lines):
            if finding.area is not None:
                found.setdefault(finding.area, finding)
    return list(found.values())


def plate_lines(lines: Sequence[Line]) -> list[Finding]:
    """Of lines that were read on a vehicle."""
    return list(_plates([line for line in lines if line.confidence >= READABLE]))


def _plates(lines: Sequence[Line]) -> Iterator[Finding]:
    for line in lines:
        if MIN_SHAPE <= line.width / max(line.height, 1.0) <= MAX_SHAPE and is_plate(line.text):
            yield _finding([line])
    for upper in lines:
        for lower in lines:
            if _is_stacked(upper, lower) and not is_plate(upper.text) and not is_plate(lower.text):
                if is_plate(upper.text + lower.text):
                    yield _finding([upper, lower])


def is_plate(text: str) -> bool:
    """Whether a text has the form of a licence plate of a country that is known here.

    >>> is_plate("AB12 CDE"), is_plate("TAXI"), is_plate("2024")
    (True, False, False)
    """
    compact = re.sub(r"[\s.·•:*-]", "", text)
    return MIN_SIGNS <= len(compact) <= MAX_SIGNS and any(form.fullmatch(compact) for form in _forms())


@cache
def _forms() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row.split("\t")[1]) for row in rows("plate_patterns.txt"))


def _is_stacked(upper: Line, lower: Line) -> bool:
    """One below the other, of about the same height, as on plates of motorcycles."""
    common = min(upper.right, lower.right) - max(upper.left, lower.left)
    distance = lower.y - upper.y
    is_near = 0.7 * upper.height <= distance <= 2.0 * max(upper.height, lower.height)
    alike = 0.5 <= upper.height / max(lower.height, 1.0) <= 2.0
    return is_near and alike and common >= 0.5 * min(upper.width, lower.width)


def _finding(lines: Sequence[Line]) -> Finding:
    areas = [line.area for line in lines]
    x_min, y_min = min(area[0] for area in areas), min(area[1] for area in areas)
    x_max, y_max = max(area[2] for area in areas), max(area[3] for area in areas)
    margin = MARGIN * max((area[3] - area[1]) for area in areas)
    area = (max(0.0, x_min - margin), y_min, min(1.0, x_max + margin), y_max)
    return Finding("non_unique_id", 1.0, "licence plate", area, min(line.confidence for line in lines))


def _area_of(thing: Thing, page: Page) -> Area:
    return (thing.x_min / page.width, thing.y_min / page.height, thing.x_max / page.width, thing.y_max / page.height)


def _is_inside(area: Area, around: Area) -> bool:
    """Whether the middle of an area lies in the other one."""
    x, y = (area[0] + area[2]) / 2, (area[1] + area[3]) / 2
    return around[0] <= x <= around[2] and around[1] <= y <= around[3]
