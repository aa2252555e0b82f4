"""Explains one image of a run in words: what its row says, and what policies do with it and why."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import pyarrow as pa

from ingest.errors import SHARD_REASONS, QueryError
from ingest.sample import printable
from reports.report.opened import OpenRun
from reports.words import MAX_RATIONALE, boxes_in_words, whole_boxes
from scoring.policies.policy import Policy
from scoring.policies.reserved import ReservedRule
from scoring.privacy import MEANINGS, private_condition, private_of_rows
from scoring.sql.expressions import columns_of, shown
from scoring.sql.names import literal
from scoring.table import GUARD, SCHEMA, SCREEN, Col
from scoring.taxonomy import ATTRIBUTES, LEVELS

PrivateState = Literal["private", "public", "unknown"]
STATE_OF_ANSWER: Mapping[float, PrivateState] = {1.0: "private", 0.0: "public"}

MAX_VALUES = 6
"""Number of columns of a condition whose values are shown."""


@dataclass(frozen=True)
class Decision:
    """What one policy does with the image."""

    policy: str

    action: str
    """keep, flag, redact or drop; none if `filter` refuses the policy for the run."""

    rule: str
    """Its name; in brackets where no rule of the policy decided."""

    reason: str

    condition: str | None = None
    """SQL of the rule; None where no rule decided."""

    values: tuple[tuple[str, str], ...] = ()
    """Columns of the condition and what this image has there, those that are 0 left out."""

    @property
    def condition_in_words(self) -> str:
        """Return the condition, such as "when level = 1; here level = 1"; empty where no rule decided."""
        here = ", ".join(f"{name} = {value}" for name, value in self.values)
        return f"when {self.condition}{f'; here {here}' if here else ''}" if self.condition else ""


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

    screened: str | None
    """What a screen said of it, in words; None without a screen."""

    reason: str | None
    private: PrivateState | None
    """As a report counts it; None if it is quarantined."""

    private_is: str
    """The condition for private, in words."""

    level: int | None
    level_name: str | None
    score: float | None
    score_high: float | None
    s_lex: int | None

    holistic_score: float | None
    """The severity score that the model gave itself, 0–1."""

    prob_private: float | None
    """Probability that the model gives for private, 0–1."""

    present: tuple[str, ...]
    """Titles of attributes; so are the next three."""

    doubtful: tuple[str, ...]
    absent: tuple[str, ...]
    not_judged: tuple[str, ...]

    rationale: str
    """None where it may hold a model's own words."""

    boxes: tuple[str, ...]
    unseen: tuple[str, ...]
    decisions: tuple[Decision, ...]


def row_named(run: OpenRun, name: str) -> pa.Table:
    """Return the row of the view `all_rows` that a name refers to.

    name: the first of these that any image has: its key, SHARD/KEY, SHARD#INDEX, its sha256.
    QueryError in one line if no image has the name, or several have it.
    """
    for condition in _ways(name):
        rows = run.sql(f"SELECT * FROM all_rows WHERE {condition} LIMIT 2")
        if rows.num_rows > 1:
            raise QueryError(
                f'several images have the name "{shown(name)}"; give SHARD/KEY or SHARD#INDEX, which sql lists: SELECT '
                'shard, key, "index" FROM images'
            )
        if rows.num_rows:
            return rows
    raise QueryError(f'the run has no image "{shown(name)}"; give its key, SHARD/KEY, SHARD#INDEX or sha256')


def explanation(run: OpenRun, rows: pa.Table, policies: Sequence[Policy]) -> Explanation:
    """Explain one image. rows: the image's one row of the view `all_rows`."""
    engine, row = run.record.engine, rows.to_pylist()[0]
    is_scored, as_stored = row[Col.STATUS] == "scored", {field.name for field in fields(Explanation)} & row.keys()
    text = {name: printable(row[name]) for name in as_stored if isinstance(row[name], str)}
    private = STATE_OF_ANSWER.get(private_of_rows(rows.select(SCHEMA.names), engine)[0], "unknown")

    def titles(value: float | None) -> tuple[str, ...]:
        return tuple(attribute.title for attribute in ATTRIBUTES if is_scored and row[attribute.key] == value)

    computed: dict[str, Any] = {
        "screened": _screened(row[Col.STAGE], row[Col.PROB_SCREEN]),
        "private": private if is_scored else None,
        "private_is": MEANINGS[private_condition(engine)],
        "level_name": None if row[Col.LEVEL] is None else LEVELS[row[Col.LEVEL]],
        "present": titles(1),
        "doubtful": titles(0.5),
        "absent": titles(0),
        "not_judged": titles(None),
        "rationale": text.get(Col.RATIONALE, "")[: 2 * MAX_RATIONALE],
        "boxes": boxes_in_words(whole_boxes(row[Col.BOXES])),
        "unseen": tuple(map(printable, row[Col.UNSEEN] or ())),
        "decisions": tuple(_decision(policy, rows, run) for policy in policies),
    }
    if row[Col.REASON] is not None:
        computed["reason"] = f"{text[Col.REASON]}: {printable(row[Col.ERROR_MESSAGE] or 'no more is known')}"
    return Explanation(**{name: row[name] for name in as_stored} | text | computed)


def _screened(stage: str | None, probability: float | None) -> str | None:
    if probability is None:
        return None
    by = f"{probability:.4f} that it is private, by the screen"
    if stage == SCREEN:
        return f"left out, so the engine has not seen it: {by}"
    if stage == GUARD:
        return f"{by}, which would have left it out; its guard gave it to the engine"
    return f"{by}, so the engine was asked"


def facts_in_words(explained: Explanation) -> list[tuple[str, str]]:
    """Return name and value of all facts except the decisions; facts without a value are left out."""
    size = f"{explained.width} x {explained.height} px" if explained.width else None
    num_bytes = None if explained.num_bytes is None else f"{explained.num_bytes:,} bytes"
    own_score = None if explained.holistic_score is None else f"{explained.holistic_score:.3f}, as the model gave it"
    lines = [
        ("image", explained.key),
        ("where", f"shard {explained.shard}, index {explained.index}"),
        ("category", explained.category),
        ("file", ", ".join(filter(None, (explained.format, size, num_bytes)))),
        ("sha256", explained.sha256),
        ("maybe unseen", ", ".join(explained.unseen)),
        ("quarantined", explained.reason),
        ("screened", explained.screened),
        ("counted", explained.private and f"{explained.private}; private is: {explained.private_is}"),
        ("score", own_score),
        ("probability", None if explained.prob_private is None else f"{explained.prob_private:.3f} that it is private"),
        ("level", _level(explained)),
        ("shows", ", ".join(explained.present)),
        ("doubtful", ", ".join(explained.doubtful)),
        ("absent", ", ".join(explained.absent)),
        ("not judged", ", ".join(explained.not_judged)),
        ("evidence", explained.rationale),
        ("boxes", "; ".join(explained.boxes)),
    ]
    return [(name, value) for name, value in lines if value]


def _level(explained: Explanation) -> str | None:
    if explained.level is None or explained.score is None:
        return None
    more = ""
    if explained.score_high is not None and explained.score_high > explained.score:
        more = f", {explained.score_high:.3f} with what is doubtful"
    return f"{explained.level} {explained.level_name}, severity score {explained.score:.3f}{more}"


def _ways(name: str) -> Iterator[str]:
    """Yield the SQL conditions that find the image of a name, the most usual first."""
    yield f"key = {literal(name)}"
    if "/" in name:
        yield f"concat(shard, '/', key) = {literal(name)}"
    if re.fullmatch(r".+#[0-9]{1,18}", name, re.DOTALL):
        yield f"concat(shard, '#', \"index\") = {literal(name)}"
    if re.fullmatch(r"[0-9a-fA-F]{64}", name):
        yield f"sha256 = {literal(name.lower())}"


def _decision(policy: Policy, rows: pa.Table, run: OpenRun) -> Decision:
    """Return what a policy decides about the image. rows: the image's one row of the view `all_rows`."""
    name, refusal = policy.name, policy.refusal(run.unanswered(policy.asked), run.record.engine)
    if refusal is not None:
        return Decision(name, "none", "(none)", f"filter refuses this policy for the run: {refusal}")
    decided = policy.decide(rows.select(SCHEMA.names), run.record.engine).to_pylist()[0]
    row = rows.to_pylist()[0]
    if row[Col.REASON] in SHARD_REASONS:
        return Decision(name, "drop", ReservedRule.DAMAGED_SHARD, "it is a part of a damaged shard, not an image")
    if row[Col.SHA256] is None and decided["action"] != "drop":
        return Decision(name, "drop", ReservedRule.UNREADABLE, "it has no readable bytes, so it cannot be copied")
    rule = next((named_rule for named_rule in policy.rules if named_rule.name == decided["rule"]), None)
    decision = Decision(name, decided["action"], decided["rule"], str(decided["reason"] or ""))
    if rule is None:
        return decision
    used = columns_of(rule.when, rows.schema)
    # A 0 or null makes no condition of the shipped kind true.
    held = [name for name in rows.column_names if name in used and row[name] not in (None, 0)]
    values = tuple((name, _value(row[name])) for name in held[:MAX_VALUES])
    return replace(decision, condition=" ".join(rule.when.split()), values=values)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(printable(str(item))[:40] for item in value[:3])
    return printable(str(value))[:80]
