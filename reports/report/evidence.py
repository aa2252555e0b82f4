"""Evidence of a picture as a report may show it: boxes, in words or on the first frame, and kinds; never found text."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ingest.sample import printable
from scoring.taxonomy import KEYS

MAX_BOXES = 8
"""Boxes listed per image; more would add nothing."""

MAX_RATIONALE = 400
"""Number of characters."""

OWN_WORDS = ("two-pass", "binary")
"""Protocols whose rationales are never shown. Versions before 0.2.0 could store a model's own words in them (`scan
--keep-rationale`), which may hold what it saw; run.json does not say whether they did."""

MAX_SHOWN_BOXES = 64
"""Number of boxes of one picture that a page shows."""

SIDES = ("x_min", "y_min", "x_max", "y_max")


def may_hold_own_words(engine: Mapping[str, Any]) -> bool:
    return str(engine.get("protocol") or "").startswith(OWN_WORDS)


def whole_boxes(boxes: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """Return the boxes that have four sides, since DuckDB may read a page that is damaged on disk.

    `privsieve status --verify` finds such a page.
    """
    return [box for box in boxes or () if None not in (box["x_min"], box["x_max"], box["y_min"], box["y_max"])]


def boxes_in_words(boxes: Any) -> tuple[str, ...]:
    """Return kind and place of each box, such as "face, top left"; equal ones once, with their number."""
    counted: dict[str, int] = {}
    for box in boxes:
        words = f"{printable(box['kind'] or box['attribute'])[:60]}, {_where(box)}"
        counted[words] = counted.get(words, 0) + 1
    listed = [words if count == 1 else f"{count} × {words}" for words, count in counted.items()]
    left = len(listed) - MAX_BOXES
    return tuple(listed if left <= 0 else [*listed[:MAX_BOXES], f"{left} more"])


def _where(box: Mapping[str, Any]) -> str:
    across = (box["x_min"] + box["x_max"]) / 2
    down = (box["y_min"] + box["y_max"]) / 2
    if (box["x_max"] - box["x_min"]) * (box["y_max"] - box["y_min"]) > 0.5:
        return "most of the picture"
    column = "left" if across < 1 / 3 else "right" if across > 2 / 3 else ""
    line = "top" if down < 1 / 3 else "bottom" if down > 2 / 3 else ""
    return " ".join(filter(None, (line, column))) or "centre"


def first_frame_boxes(
    boxes: Iterable[Mapping[str, Any]] | None, most: int | None = MAX_SHOWN_BOXES
) -> list[dict[str, Any]]:
    """Return the boxes of the first frame: attribute and four sides, in fractions (0–1) of the picture.

    boxes: as in the column of that name. most: number of boxes; None: all. Sides are within the picture and attributes
    are known or None, whatever the run holds.
    """
    shown = [box for box in boxes or () if box["view"] in (0, None)]
    return [_box(box) for box in shown[:most]]


def _box(box: Mapping[str, Any]) -> dict[str, Any]:
    attribute = box["attribute"] if box["attribute"] in KEYS else None
    return {"attribute": attribute} | {name: _within(box[name]) for name in SIDES}


def _within(side: float | None) -> float:
    """Return a side limited to 0–1. In plain Python, since an export has hundreds of thousands of sides."""
    return 0.0 if side is None or math.isnan(side) else round(min(max(side, 0.0), 1.0), 4)
