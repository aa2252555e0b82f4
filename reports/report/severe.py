"""The most severe images of a run, in words: no picture, no found text."""

from collections.abc import Mapping, Sequence
from typing import Any

from ingest.sample import printable
from reports.run.figures import SevereImage
from reports.run.warehouse import Run
from scoring.severity import WEIGHTS
from scoring.table import Col
from scoring.taxonomy import ATTRIBUTES

NUM_SEVEREST = 20

MAX_BOXES = 8
"""Boxes listed per image; more would add nothing."""

MAX_RATIONALE = 400
"""Characters."""

OWN_WORDS = ("two-pass", "binary")
"""Protocols that can store a model's own words as the rationale (`scan --keep-rationale`), which may hold what it saw.
run.json does not say whether they were kept, so their rationales are never shown."""


def may_hold_own_words(engine: Mapping[str, Any]) -> bool:
    return str(engine.get("protocol") or "").startswith(OWN_WORDS)


def severest(run: Run, most: int = NUM_SEVEREST) -> tuple[SevereImage, ...]:
    """Highest `s_lex` first. Inside `run.patterns_kept` it takes one pass over few columns."""
    weights = " ".join(f"WHEN {level} THEN {weight}" for level, weight in enumerate(WEIGHTS.tolist(), 1))
    tallied = run.ask("s_lex", weight=f"CASE attribute_level {weights} END")
    least = _least({row[Col.S_LEX]: row["num_images"] for row in tallied}, most)
    if least is None:
        return ()
    ordered = sorted(ATTRIBUTES, key=lambda attribute: attribute.level)
    shown = ", ".join(f"CASE WHEN {item.key} = 1 THEN '{item.key}' END" for item in ordered)
    rows = run.ask("severest", attributes=f"[{shown}]", least=str(least), most=str(most))
    hides = may_hold_own_words(run.record.engine)
    return tuple(severe_image(row, hides) for row in rows)


def severe_image(row: Mapping[str, Any], hides_rationale: bool) -> SevereImage:
    """From a row with the columns of `queries/severest.sql`."""
    return SevereImage(
        shard=printable(row[Col.SHARD]),
        index=row[Col.INDEX],
        key=printable(row[Col.KEY]),
        category=None if row[Col.CATEGORY] is None else printable(row[Col.CATEGORY]),
        level=row[Col.LEVEL],
        s_lex=row[Col.S_LEX],
        score=round(row[Col.SCORE], 4),
        attributes=tuple(key for key in row["attributes"] if key),
        rationale=None if hides_rationale else printable(row[Col.RATIONALE] or "")[:MAX_RATIONALE],
        boxes=boxes_in_words(whole_boxes(row[Col.BOXES])),
    )


def whole_boxes(boxes: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """Those with four sides: DuckDB may read a page that is damaged on disk (`privsieve status --verify` finds it)."""
    return [box for box in boxes or () if None not in (box["x_min"], box["x_max"], box["y_min"], box["y_max"])]


def boxes_in_words(boxes: Any) -> tuple[str, ...]:
    """Kind and place of each box, such as "face, top left"; equal ones once, with their number."""
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


def _least(tallied: Mapping[int, int], most: int) -> int | None:
    """The lowest s_lex above 0 among the `most` highest images; None where nothing was found in any image."""
    left, least = most, None
    for s_lex in sorted(tallied, reverse=True):
        if s_lex == 0 or left <= 0:
            break
        least, left = s_lex, left - tallied[s_lex]
    return least
