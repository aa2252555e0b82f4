"""One image of a run in words: what its row says, and what policies do with it and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ingest.errors import QueryError, number_of
from ingest.sample import printable
from reports.opened import OpenRun
from reports.report.severe import MAX_RATIONALE, boxes_in_words, may_hold_own_words
from scoring.policies.policy import UNREADABLE, Policy
from scoring.sql.expressions import columns_of, shown
from scoring.sql.names import literal
from scoring.table import SCHEMA
from scoring.taxonomy import ATTRIBUTES, LEVELS

MAX_LISTED = 10
"""Rows with the same key that an error names."""

MAX_NEAR = 3
MAX_VALUES = 6
"""Columns of a condition whose values are said."""


@dataclass(frozen=True)
class Decision:
    """What one policy does with the image."""

    policy: str
    action: str

    rule: str
    """Its name; in brackets where no rule of the policy decided."""

    reason: str

    condition: str | None
    """SQL of the rule; None where no rule decided."""

    values: tuple[tuple[str, str], ...]
    """Columns of the condition and what this image has there, those that are 0 left out."""


@dataclass(frozen=True)
class Explanation:
    """One row of a run."""

    shard: str
    index: int
    key: str
    category: str | None
    sha256: str | None
    format: str | None
    width: int | None
    height: int | None
    num_bytes: int | None
    status: str

    reason: str | None
    """Why it is quarantined."""

    level: int | None
    level_name: str | None
    score: float | None
    score_high: float | None
    s_lex: int | None

    present: tuple[str, ...]
    """Titles of attributes; so are the next three."""

    doubtful: tuple[str, ...]
    absent: tuple[str, ...]
    not_judged: tuple[str, ...]

    rationale: str | None
    """None where it may hold a model's own words."""

    boxes: tuple[str, ...]
    unseen: tuple[str, ...]
    decisions: tuple[Decision, ...]


def explain(run: OpenRun, key: str, shard: str | None, policies: Sequence[Policy]) -> Explanation:
    """The image with this key or sha256. QueryError in one line where there is none, or several.

    shard: as the column of that name has it; needed where several images have the key.
    """
    found = _places(run, key, shard)
    if not found:
        raise QueryError(_unknown(run, key, shard))
    if len(found) > 1:
        places = ", ".join(f"{printable(place['shard'])} #{place['index']}" for place in found[:MAX_LISTED])
        more = " and more" if len(found) > MAX_LISTED else ""
        what = number_of(len(found), "image")
        how = "choose one with --shard" if shard is None else "choose one by its sha256"
        at_least = "at least " if len(found) > MAX_LISTED else ""
        raise QueryError(f'{at_least}{what} have the key "{shown(key)}": {places}{more}; {how}')
    where = f'shard = {literal(found[0]["shard"])} AND "index" = {found[0]["index"]}'
    rows = run.sql(f"SELECT * FROM images WHERE {where}")
    row = rows.to_pylist()[0]
    engine = run.record.engine
    return _explained(
        row, may_hold_own_words(engine), tuple(_decision(one.for_engine(engine), rows) for one in policies)
    )


def _places(run: OpenRun, key: str, shard: str | None) -> list[dict[str, Any]]:
    in_shard = "" if shard is None else f" AND shard = {literal(shard)}"
    named = f"(key = {literal(key)} OR sha256 = {literal(key.lower())}){in_shard}"
    asked = f'SELECT shard, "index" FROM images WHERE {named} ORDER BY ALL LIMIT {MAX_LISTED + 1}'
    rows: list[dict[str, Any]] = run.sql(asked).to_pylist()
    return rows


def _unknown(run: OpenRun, key: str, shard: str | None) -> str:
    """With the nearest keys, where some differ in a few characters only."""
    where = "" if shard is None else f' in the shard "{shown(shard)}"'
    most = max(1, min(3, len(key) // 4))
    distance = f"levenshtein(key, {literal(key)})"
    in_shard = "true" if shard is None else f"shard = {literal(shard)}"
    near = (
        f"SELECT key FROM images WHERE {in_shard} AND abs(len(key) - {len(key)}) <= {most} AND {distance} <= {most} "
        f"GROUP BY key ORDER BY {distance}, key LIMIT {MAX_NEAR}"
    )
    keys = [f'"{shown(printable(row["key"]))}"' for row in run.sql(near).to_pylist()] if len(key) < 1000 else []
    meant = f" (did you mean {' or '.join(keys)}?)" if keys else ""
    return f'the run has no image with the key "{shown(key)}"{where}{meant}; keys are those of its column "key"'


def _explained(row: Mapping[str, Any], hides_rationale: bool, decisions: tuple[Decision, ...]) -> Explanation:
    def titles(value: float | None) -> tuple[str, ...]:
        return tuple(one.title for one in ATTRIBUTES if row[one.key] == value) if row["status"] == "scored" else ()

    def text(name: str) -> str | None:
        return None if row[name] is None else printable(row[name])

    return Explanation(
        shard=printable(row["shard"]),
        index=row["index"],
        key=printable(row["key"]),
        category=text("category"),
        sha256=text("sha256"),
        format=text("format"),
        width=row["width"],
        height=row["height"],
        num_bytes=row["num_bytes"],
        status=printable(row["status"]),
        reason=None if row["reason"] is None else f"{text('reason')}: {text('error_message') or 'no more is known'}",
        level=row["level"],
        level_name=None if row["level"] is None else LEVELS[row["level"]],
        score=row["score"],
        score_high=row["score_high"],
        s_lex=row["s_lex"],
        present=titles(1),
        doubtful=titles(0.5),
        absent=titles(0),
        not_judged=titles(None),
        rationale=None if hides_rationale else (text("rationale") or "")[: 2 * MAX_RATIONALE],
        boxes=boxes_in_words(row["boxes"] or ()),
        unseen=tuple(map(printable, row["unseen"] or ())),
        decisions=decisions,
    )


def _decision(policy: Policy, rows: pa.Table) -> Decision:
    """rows: the image's one row of the view `images`."""
    decided = policy.decide(rows.select(SCHEMA.names)).to_pylist()[0]
    row = rows.to_pylist()[0]
    if row["sha256"] is None and decided["action"] != "drop":
        return Decision(policy.name, "drop", UNREADABLE, "it has no readable bytes, so it cannot be copied", None, ())
    rule = next((one for one in policy.rules if one.name == decided["rule"]), None)
    values: list[tuple[str, str]] = []
    if rule is not None:
        used = columns_of(rule.when, rows.schema)
        # What is 0 or null made no condition of the shipped kind true.
        held = [name for name in rows.column_names if name in used and row[name] not in (None, 0)]
        values = [(name, _value(row[name])) for name in held[:MAX_VALUES]]
    condition = None if rule is None else " ".join(rule.when.split())
    return Decision(
        policy.name, decided["action"], decided["rule"], str(decided["reason"] or ""), condition, tuple(values)
    )


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(printable(str(one))[:40] for one in value[:3])
    return printable(str(value))[:80]
