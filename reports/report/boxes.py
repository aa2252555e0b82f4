"""Boxes of evidence on the frame that people see: the first, whole."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from scoring.taxonomy import KEYS

MAX_SHOWN_BOXES = 64
"""Limit for one picture on a page."""

SIDES = ("x_min", "y_min", "x_max", "y_max")


def first_frame_boxes(
    boxes: Iterable[Mapping[str, Any]] | None, most: int | None = MAX_SHOWN_BOXES
) -> list[dict[str, Any]]:
    """Attribute and four sides, in fractions (0–1) of the picture, of at most `most` boxes; None: of all.

    boxes: as in the column of that name. Sides lie within the picture and attributes are known or None, whatever the
    run holds.
    """
    shown = [box for box in boxes or () if box["view"] in (0, None)]
    return [_box(box) for box in shown[:most]]


def _box(box: Mapping[str, Any]) -> dict[str, Any]:
    attribute = box["attribute"] if box["attribute"] in KEYS else None
    return {"attribute": attribute} | {name: _within(box[name]) for name in SIDES}


def _within(side: float | None) -> float:
    """Plain Python: an export has hundreds of thousands of sides."""
    return 0.0 if side is None or math.isnan(side) else round(min(max(side, 0.0), 1.0), 4)
