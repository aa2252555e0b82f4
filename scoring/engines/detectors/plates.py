"""Licence plates: a number of a plate's form on a vehicle, or alone in a picture with little else to read.

Alone it is ambiguous, since many other things have this form, unless the name of a state that issues plates is there or
letters and digits alternate.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from ingest.images.pixels import Pixels
from scoring.engines.detectors.findings import Area, Finding, holds_middle
from scoring.engines.detectors.objects import Thing
from scoring.engines.detectors.ocr import READABLE, TextLine
from scoring.engines.detectors.page import Page
from scoring.engines.detectors.scene import VEHICLES
from scoring.text_rules.vocabulary import rows, squashed, words

MIN_DISTINCT = 7
"""Signs of a number such as "AB12CDE", whose letters are before and after digits or the reverse: few other
things have this form. "RTX4090" is a product, "CFA7360" a plate."""
_GROUPS = re.compile(r"\d+|[^\W\d_]+")
MIN_SIGNS, MAX_SIGNS = 5, 10
MAX_SIGNS_BESIDE = 90
"""Limit of signs on a picture: with more text a number of this form is something else."""
CLOSE_UP = 0.05
"""Share of the view's height from which a plate fills the picture without a vehicle around it."""
MIN_SHAPE, MAX_SHAPE = 2.0, 11.0
"""Width to height of a plate in one line."""
MIN_VEHICLE_PX = 80
"""Width of a vehicle; the plate takes about a fifth of it."""
MAX_VEHICLES = 3
MARGIN = 0.5
"""Margin in heights of the line, at both ends: the last sign must be inside the box."""

_LETTERS = re.compile(r"[^\W\d_]+")
"""Four letters in a row are a word: plates with as many letters have a gap between them."""
_YEAR = re.compile(r"\w{1,3}[ .'-]{1,2}(19|20)\d\d")
"""An event or a date: "CES 2024"."""


def plate_findings(page: Page, things: Sequence[Thing]) -> list[Finding]:
    """Return evidence of plates. things: detections in the view, in its pixels."""
    vehicles = [thing.area_in((page.width, page.height)) for thing in things if thing.kind in VEHICLES]
    on_vehicles = [line for line in page.readable if any(holds_middle(vehicle, line.area) for vehicle in vehicles)]
    has_little_text = page.num_chars <= MAX_SIGNS_BESIDE and not any(field.values for field in page.fields)
    alone = [line for line in page.readable if has_little_text and line.height >= CLOSE_UP * page.height]
    by_area: dict[Area, Finding] = {}
    names_region = any(squashed(line.text) in _regions() for line in page.readable)
    for lines, is_sure in ((on_vehicles, True), (alone, names_region)):
        for finding in _plates(lines, is_sure):
            if finding.area is not None:
                by_area.setdefault(finding.area, finding)
    return list(by_area.values())


def vehicles_to_read(things: Sequence[Thing], pixels: Pixels, plates: Sequence[Finding]) -> list[tuple[slice, slice]]:
    """Return rows and columns of the largest vehicles without a plate so far, for a closer look."""
    height, width = pixels.shape[:2]
    large = [thing for thing in things if thing.kind in VEHICLES and thing.width >= MIN_VEHICLE_PX]
    large.sort(key=lambda thing: -thing.area)
    read = [plate.area for plate in plates if plate.area is not None]
    unread = [thing for thing in large if not any(holds_middle(thing.area_in((width, height)), area) for area in read)]
    return [
        (slice(int(thing.y_min), int(thing.y_max) + 1), slice(int(thing.x_min), int(thing.x_max) + 1))
        for thing in unread[:MAX_VEHICLES]
    ]


def plates_in_close_up(lines: Sequence[TextLine]) -> list[Finding]:
    """Return evidence of plates. lines: text on a vehicle."""
    return list(_plates([line for line in lines if line.confidence >= READABLE], is_sure=True))


def _plates(lines: Sequence[TextLine], is_sure: bool) -> Iterator[Finding]:
    for line in lines:
        if MIN_SHAPE <= line.width / max(line.height, 1.0) <= MAX_SHAPE and is_plate(line.text):
            yield _finding([line], is_sure)
    parts = [line for line in lines if not is_plate(line.text)]
    for upper in parts:
        for lower in parts:
            if _is_stacked(upper, lower) and is_plate(upper.text + lower.text):
                yield _finding([upper, lower], is_sure)


def is_plate(text: str) -> bool:
    """Return whether a text has the form of a licence plate of a known country.

    >>> is_plate("AB12 CDE"), is_plate("TAXI"), is_plate("256 GB"), is_plate("CES 2024")
    (True, False, False, False)
    """
    groups = _LETTERS.findall(text.lower())
    if any(len(group) > 3 or group in words("not_plates.txt") for group in groups) or _YEAR.fullmatch(text.strip()):
        return False
    compact = _compact(text)
    is_mixed = bool(re.search(r"\d", compact) and re.search(r"[^\W\d_]", compact))
    return is_mixed and MIN_SIGNS <= len(compact) <= MAX_SIGNS and any(form.fullmatch(compact) for form in _forms())


def _compact(text: str) -> str:
    """Remove gaps and the sign of a Chinese province."""
    return re.sub(r"^[\u4e00-\u9fff]", "", re.sub(r"[\s.·•:*-]", "", text))


@cache
def _regions() -> frozenset[str]:
    return frozenset(squashed(name) for row in rows("plate_regions.txt") for name in row.split("|"))


@cache
def _forms() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row.split("\t")[1]) for row in rows("plate_patterns.txt"))


def _is_stacked(upper: TextLine, lower: TextLine) -> bool:
    """Return whether one line is below the other at about the same height, as on plates of motorcycles."""
    common = min(upper.right, lower.right) - max(upper.left, lower.left)
    distance = lower.y - upper.y
    is_near = 0.7 * upper.height <= distance <= 2.0 * max(upper.height, lower.height)
    is_same_height = 0.5 <= upper.height / max(lower.height, 1.0) <= 2.0
    return is_near and is_same_height and common >= 0.5 * min(upper.width, lower.width)


def _finding(lines: Sequence[TextLine], is_sure: bool) -> Finding:
    text = _compact("".join(line.text for line in lines))
    is_distinct = len(text) >= MIN_DISTINCT and len(_GROUPS.findall(text)) >= 3
    value = 1.0 if is_sure or is_distinct else 0.5
    areas = [line.area for line in lines]
    x_min, y_min = min(area[0] for area in areas), min(area[1] for area in areas)
    x_max, y_max = max(area[2] for area in areas), max(area[3] for area in areas)
    margin = MARGIN * max((area[3] - area[1]) for area in areas)
    area = (max(0.0, x_min - margin), y_min, min(1.0, x_max + margin), y_max)
    kind = "licence plate" if value == 1 else "what may be a licence plate"
    return Finding("non_unique_id", value, kind, area, min(line.confidence for line in lines))
