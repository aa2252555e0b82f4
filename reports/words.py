"""Figures in words: shares, intervals, p-values, tables, documents. All texts and pages write figures this way.

Also evidence of a picture as it may be shown: boxes, in words or on the first frame, and kinds; never found text.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scoring.taxonomy import KEYS

NO_GROUP = "(none)"
"""Name of the group of images without a category or class, also in `reports/run/queries`."""

MAX_DECIMALS = 6

ROUNDING = 1e-7
"""Ends of an interval, 0–1, that are nearer to each other differ only by the arithmetic."""

MAX_SHOWN_CHARACTERS = 200
"""Limit of a group's name in the text and the page. A category can be pages long; JSON and CSV hold all of it."""


@dataclass(frozen=True)
class Table:
    """Cells of text, with a title."""

    title: str
    """Title, with what a reader must know to read the table."""

    heads: list[str]
    rows: list[list[str]]
    """Cells; "–" if a metric is not defined."""

    columns_of_words: tuple[int, ...] = (0,)
    """Indices of the columns that do not hold numbers."""


Cell = str | float | None
"""A text as it is; a whole number is shown with thousands separators, another number with three digits, None as "–"."""


def table(
    title: str, heads: Sequence[str], rows: Iterable[Iterable[Cell]], columns_of_words: tuple[int, ...] = (0,)
) -> Table:
    """Return a table of values. Arguments as the fields of `Table`."""
    return Table(title, list(heads), [list(map(_shown, row)) for row in rows], columns_of_words)


def _shown(cell: Cell) -> str:
    return cell if isinstance(cell, str) else number(cell, ",d" if isinstance(cell, int) else ".3f")


@dataclass(frozen=True)
class Document:
    """Output of a command: the lines that a reader needs before any figure, then tables, then notes."""

    headlines: Sequence[str]
    tables: Sequence[Table]
    notes: Sequence[str]


def number(value: float | None, form: str = ".3f") -> str:
    """Return a number with three digits, "–" if it is not defined."""
    return "–" if value is None else format(value, form).replace("-", "−")


def p_text(p_value: float | None) -> str:
    return "–" if p_value is None else "< 0.0001" if p_value < 0.0001 else f"{p_value:.4f}"


def percent(share: float | None, is_lower_bound: bool = False, decimals: int | None = None) -> str:
    """Return a share, 0–1, in per cent; "–" where it is not known.

    is_lower_bound: the engine can find the subject but not rule it out. decimals: None for one, and for more if the
    share is so near to 0 or 1 that one would show nothing of it.

    >>> percent(0.482), percent(0.00017), percent(0.99983), percent(0.0), percent(None)
    ('48.2 %', '0.017 %', '99.983 %', '0.0 %', '–')
    """
    if share is None:
        return "–"
    rest = min(share, 1 - share)
    if decimals is None:
        decimals = 1 if not 0 < rest < 0.0005 else min(MAX_DECIMALS, 1 - math.floor(math.log10(100 * rest)))
    return f"{'≥ ' if is_lower_bound else ''}{100 * share:.{decimals}f} %"


def spread(low: float | None, high: float | None) -> str:
    """Return both ends of an interval in per cent, the unit once; "–" where there is none.

    >>> spread(0.434, 0.552), spread(0.004375, 0.00544)
    ('43.4 – 55.2 %', '0.44 – 0.54 %')
    """
    if low is None or high is None:
        return "–"
    decimals = decimals_of(low, high)
    return f"{100 * low:.{decimals}f} – {100 * high:.{decimals}f} %"


def percent_within(share: float | None, low: float | None, high: float | None) -> str:
    """Return a share with the decimals of its interval, which is shown next to it.

    >>> percent_within(0.0044, 0.00405, 0.00489), percent_within(0.482, None, None)
    ('0.440 %', '48.2 %')
    """
    return percent(share) if low is None or high is None else percent(share, decimals=decimals_of(low, high))


def decimals_of(low: float, high: float) -> int:
    """Return the decimals for an interval in per cent: at least one, and enough to give its length two digits.

    >>> decimals_of(0.43, 0.55), decimals_of(1 - 1e-16, 1.0)
    (1, 1)
    """
    length = 100 * abs(high - low)
    # Ends that differ only by rounding of the arithmetic are no interval.
    return 1 if length < 100 * ROUNDING else min(MAX_DECIMALS, max(1, 1 - math.floor(math.log10(length))))


def shortened(name: str, most: int = MAX_SHOWN_CHARACTERS) -> str:
    """Return the name in at most `most` characters, with an ellipsis if it is cut."""
    return name if len(name) <= most else name[: most - 1] + "…"


MAX_BOXES = 8
"""Boxes listed per image; more would add nothing."""

MAX_RATIONALE = 400
"""Number of characters."""

MAX_SHOWN_BOXES = 64
"""Number of boxes of one picture that a page shows."""

SIDES = ("x_min", "y_min", "x_max", "y_max")


def whole_boxes(boxes: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """Return the boxes that have four sides, since DuckDB may read a page that is damaged on disk.

    `privsieve status --verify` finds such a page.
    """
    return [box for box in boxes or () if None not in (box["x_min"], box["x_max"], box["y_min"], box["y_max"])]


def boxes_in_words(boxes: Any) -> tuple[str, ...]:
    """Return kind and place of each box, such as "face, top left"; equal ones once, with their number."""
    from ingest.sample import printable  # loads pyarrow, and report --help answers at once

    counted: dict[str, int] = {}
    for box in boxes:
        words = f"{printable(box['kind'] or box['attribute'])[:60]}, {_where(box)}"
        counted[words] = counted.get(words, 0) + 1
    listed = [words if count == 1 else f"{count} × {words}" for words, count in counted.items()]
    num_more = len(listed) - MAX_BOXES
    return tuple(listed if num_more <= 0 else [*listed[:MAX_BOXES], f"{num_more} more"])


def _where(box: Mapping[str, Any]) -> str:
    across = (box["x_min"] + box["x_max"]) / 2
    down = (box["y_min"] + box["y_max"]) / 2
    if (box["x_max"] - box["x_min"]) * (box["y_max"] - box["y_min"]) > 0.5:
        return "most of the picture"
    column = "left" if across < 1 / 3 else "right" if across > 2 / 3 else ""
    line = "top" if down < 1 / 3 else "bottom" if down > 2 / 3 else ""
    return " ".join(filter(None, (line, column))) or "centre"


def first_frame_boxes(boxes: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Return the first boxes of the first frame: attribute and four sides, in fractions (0–1) of the picture.

    boxes: as in the column of that name. Sides are within the picture and attributes are known or None, whatever a
    run holds.
    """
    shown = [box for box in boxes or () if box["view"] in (0, None)]
    return [
        {"attribute": box["attribute"] if box["attribute"] in KEYS else None}
        | {name: _within(box[name]) for name in SIDES}
        for box in shown[:MAX_SHOWN_BOXES]
    ]


def _within(side: float | None) -> float:
    """Return a side limited to 0–1. In plain Python, since an export has hundreds of thousands of sides."""
    return 0.0 if side is None or math.isnan(side) else round(min(max(side, 0.0), 1.0), 4)
