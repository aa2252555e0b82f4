"""Rules for private, public and unknown, for rows, SQL, labels and every protocol. No other module decides this.

A run calls a picture private by a SQL condition over its row. Unless the user gives one, it follows from what the
protocol of the run asks:

    binary    private_answer = 1         the model's own answer
    severity  holistic_score >= 0.514    the model's own score, from the lower edge of level 2 on
    others    level IN (1, 2)            an attribute of level 1 or 2 is present

A picture is private or public only if the row decides it. Levels and scores count attributes that were not judged as
absent, so if such an attribute could still make a picture private, the picture is unknown (null in SQL, NaN in
arrays). A label that leaves such an attribute open is unknown in the same way.

`computed_sql` gives policies, reports and views this answer as the column `private`, and a level as `severity_level`.

Source of the levels and of the edge: Tsaprazlis et al., "Rethinking Visual Privacy", appendix A.4. That levels 1 and 2
mean private is our own choice.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scoring.assessment import Assessment
from scoring.severity import BANDS
from scoring.sql.expressions import MAX_KEPT, boolean_expression, columns_of, row_cursor
from scoring.table import (
    IMAGE_SCHEMA,
    PRIVATE,
    SCORE_COLUMNS,
    SEVERITY_LEVEL,
    UNKNOWN_LEVEL,
    Col,
    Facts,
    not_presence_only,
    to_table,
    unknown_at_sql,
    unknown_level_sql,
)
from scoring.taxonomy import ATTRIBUTES, KEYS

Numbers = npt.NDArray[np.float64]
Engine = Mapping[str, Any]
"""An engine as run.json describes it."""

PRIVATE_LEVELS = (1, 2)
DECISIVE_KEYS = tuple(attribute.key for attribute in ATTRIBUTES if attribute.level in PRIVATE_LEVELS)
"""Attributes that each make a picture private on their own."""

IS_DECISIVE = np.array([attribute.level in PRIVATE_LEVELS for attribute in ATTRIBUTES])
"""Shape (attributes,), bool: the same attributes, in canonical order."""

MIN_PRIVATE_SCORE = BANDS[PRIVATE_LEVELS[-1] - 1][0]
"""The lowest severity score of the private levels."""

BY_LEVEL = f"{Col.LEVEL} IN {PRIVATE_LEVELS}"
BY_ANSWER = f"{Col.PRIVATE_ANSWER} = 1"
BY_SCORE = f"{Col.HOLISTIC_SCORE} >= {MIN_PRIVATE_SCORE}"
_BY_PROTOCOL = {"binary": BY_ANSWER, "severity": BY_SCORE}

MEANINGS = {
    BY_LEVEL: "an attribute of level 1 or 2 is present",
    BY_ANSWER: "the model answered yes when asked whether the picture is private",
    BY_SCORE: f"the model gave a severity of {MIN_PRIVATE_SCORE} or more, which is that of levels 1 and 2",
}
"""Condition -> its meaning, for people."""

SHOWS_PRIVATE = (
    "a unique identifier (level 1, such as a face or an identity document), or data that is sensitive or can be linked "
    "to a person (level 2, such as a name, a number plate or medical data)"
)
"""Content of a private picture, for people who do not know the levels."""

PRIVATE_CLASSES = {
    "card": ("a bank or credit card with readable numbers or names", "Art. 4"),
    "face": ("the face of a person who can be recognised", "Art. 4, 9"),
    "fingerprint": ("a fingerprint from near, with visible ridges", "Art. 4, 9"),
    "plate": ("a licence plate that can be read", "Art. 4"),
    "nudity": ("a naked person who can be recognised", "Art. 4"),
    "passport": (
        "a passport or visa that shows a name, a date of birth or other data; a closed one does not count",
        "Art. 4",
    ),
    "chat": ("an e-mail or messages that show names or numbers", "Art. 4"),
    "tattoo": ("a tattoo with a name, or religious or political content, or unique enough to identify", "Art. 4"),
}
"""Class of PrivBench -> when a picture is of it, in our words, and articles of the GDPR. Pictures of no class are
public. Source: Samson et al., "Privacy-Aware Visual Language Models"."""

ALL_JUDGED: Engine = {"only_affirmed": [], "protocol": "slots", "assessed": KEYS}
"""An engine that answers every attribute with yes or no."""

_ASKED_BY = {Col.HOLISTIC_SCORE: "severity", Col.PRIVATE_ANSWER: "binary", Col.PROB_PRIVATE: "binary"}
"""Column -> the only protocol that asks for it."""

SEVERITY_NAMES = frozenset(column.name for column in (*SCORE_COLUMNS, UNKNOWN_LEVEL)) - {Col.NUM_ASSESSED}
"""Columns that are computed from the attributes, with those that were not judged as absent."""

PROBABILITIES = frozenset([Col.PROB_PRIVATE, *map(Col.prob, KEYS), *map(Col.prob_ambiguous, KEYS)])
"""Columns that an engine may leave null although it judges what they are about."""

PROBABILITY_SQL = f"coalesce({Col.PROB_PRIVATE}, greatest({', '.join(map(Col.prob, DECISIVE_KEYS))}))"
"""P(private) of a row: the model's own, else the largest of its attributes. Null without any."""


def protocol_name(engine: Engine) -> str:
    """Return the protocol without its variants: "severity" for "severity:taxonomy"."""
    return str(engine["protocol"]).partition(":")[0]


def private_condition(engine: Engine) -> str:
    """Return the default condition for private in a run of this engine."""
    return _BY_PROTOCOL.get(protocol_name(engine), BY_LEVEL)


def score_column(engine: Engine) -> str | None:
    """Return the column of the score that the model itself gives, 0–1; None if its protocol asks for attributes."""
    return {"binary": Col.PROB_PRIVATE, "severity": Col.HOLISTIC_SCORE}.get(protocol_name(engine))


def severity_sql(engine: Engine) -> str:
    """Return SQL of a number that is larger for more severe images of a run; 0 or null where nothing was found."""
    yes = f"CASE WHEN {BY_ANSWER} THEN coalesce({Col.PROB_PRIVATE}, 1.0) END"
    return {"binary": yes, "severity": Col.HOLISTIC_SCORE}.get(protocol_name(engine), Col.S_LEX)


def follows_taxonomy(condition: str) -> bool:
    """Return whether the condition means levels 1 and 2, so that a label's attributes answer it as well as its own
    `private` does. For other conditions the attributes of a label say nothing."""
    return condition in MEANINGS or boolean_expression(condition, IMAGE_SCHEMA) in _checked_meanings()


@cache
def _checked_meanings() -> frozenset[str]:
    return frozenset(boolean_expression(condition, IMAGE_SCHEMA) for condition in MEANINGS)


def private_for_people(condition: str) -> str:
    """Explain "private" to a person who corrects a run with this condition."""
    return f"Private: it shows {SHOWS_PRIVATE}." if condition in MEANINGS else f"Private: {condition}"


def judges_private(engine: Engine, condition: str) -> bool:
    """Return whether the engine judges anything that the condition uses."""
    return not _asks_levels(condition, engine) or not set(DECISIVE_KEYS).isdisjoint(engine["assessed"])


def _asks_levels(condition: str, engine: Engine) -> bool:
    """Return whether the condition uses a number that counts attributes which were not judged as absent."""
    of_attributes = SEVERITY_NAMES | ({SEVERITY_LEVEL.name} if engine["assessed"] else set())
    return not columns_of(condition, IMAGE_SCHEMA).isdisjoint(of_attributes)


def private_sql(condition: str, engine: Engine) -> str:
    """Return checked SQL over the view `images`: true, false, or null if unknown.

    condition: of `private_condition`, or a user's. QueryError if it is not a condition over the row.
    """
    sql = boolean_expression(condition, IMAGE_SCHEMA)
    if not _asks_levels(condition, engine):
        return sql
    unknown = unknown_at_sql(PRIVATE_LEVELS, not_presence_only(engine)) if judges_private(engine, condition) else "true"
    return f"({sql}) OR CASE WHEN {unknown} THEN NULL ELSE false END"


def computed_sql(engine: Engine) -> str:
    """Return SQL for the columns `scoring.table.COMPUTED` of a row of a run of this engine."""
    bands = " ".join(
        f"WHEN {Col.HOLISTIC_SCORE} >= {low} THEN {level}" for level, (low, _) in enumerate(BANDS, 1) if low > 0
    )
    by_score = f"CASE {bands} WHEN {Col.HOLISTIC_SCORE} > 0 THEN {len(BANDS)} WHEN {Col.HOLISTIC_SCORE} = 0 THEN 0 END"
    sql_of = {
        UNKNOWN_LEVEL: unknown_level_sql(not_presence_only(engine)),
        PRIVATE: private_sql(private_condition(engine), engine),
        SEVERITY_LEVEL: f"CAST(coalesce({Col.LEVEL}, {by_score}) AS TINYINT)",
    }
    return ", ".join(f"({sql}) AS {column.name}" for column, sql in sql_of.items())


def unanswered_columns(engine: Engine) -> frozenset[str]:
    """Return the columns that are null in every row of a run of this engine, since it is not asked for them.

    Whether it gives `PROBABILITIES` of what it is asked for, only the rows say (`reports.report.opened`).
    """
    assessed, protocol = frozenset[str](engine["assessed"]), protocol_name(engine)
    not_judged = frozenset(KEYS) - assessed
    unanswered = not_judged.union(map(Col.prob, not_judged), map(Col.prob_ambiguous, not_judged))
    unanswered |= {column for column, asked_by in _ASKED_BY.items() if asked_by != protocol}
    if not assessed:
        unanswered |= SEVERITY_NAMES if protocol == "severity" else {*SEVERITY_NAMES, SEVERITY_LEVEL.name}
    if not judges_private(engine, private_condition(engine)):
        unanswered |= {PRIVATE.name}
    return unanswered


def protocols_that_answer(column: str) -> tuple[str, ...]:
    """Return the protocols of which a run may have a value in the column."""
    if column in _ASKED_BY:
        return (_ASKED_BY[column],)
    attributes = ("slots", "json") if column.startswith("prob_") else ("slots", "json", "two-pass")
    return (*attributes, "severity") if column == SEVERITY_LEVEL.name else attributes


def private_of_rows(rows: pa.Table, engine: Engine) -> Numbers:
    """Return 1 private, 0 public, NaN unknown or quarantined, shape (rows,), by `private_condition`.

    rows: with `ROW_COLUMNS`.
    """
    return _of_rows(rows, f"{PRIVATE.name}::DOUBLE", engine)


def probabilities_of_rows(rows: pa.Table, engine: Engine) -> Numbers:
    """Return P(private), 0–1, NaN if the engine gives none. Shape (rows,)."""
    return _of_rows(rows, f"{PROBABILITY_SQL}::DOUBLE", engine)


COMPUTED_FROM = (Col.STATUS, Col.LEVEL, Col.HOLISTIC_SCORE, Col.PRIVATE_ANSWER, *KEYS)
"""Columns that `computed_sql` reads."""

ROW_COLUMNS = (*COMPUTED_FROM, Col.PROB_PRIVATE, *map(Col.prob, DECISIVE_KEYS))
"""Columns that the default conditions and the probability read."""


def private_of_values(values: npt.NDArray[np.floating]) -> Numbers:
    """Return 1 if an attribute of level 1 or 2 is present, 0 if all of them were judged and none is, else NaN.

    values: shape (n, attributes) in canonical order, 0, 0.5, 1 or NaN. Shape (n,).
    """
    decisive = values[:, IS_DECISIVE]
    is_open = np.isnan(decisive).any(axis=1)
    return np.where((decisive == 1).any(axis=1), 1.0, np.where(is_open, np.nan, 0.0))


def private_of_labels(
    given: npt.NDArray[np.floating], values: npt.NDArray[np.floating], condition: str = BY_LEVEL
) -> Numbers:
    """Return what labels say: their column `private`, else their attributes, if the condition is about these.

    given: that column, shape (n,), 1, 0 or NaN. values: as in `private_of_values`. Shape (n,).
    """
    if not follows_taxonomy(condition):
        return np.asarray(given, dtype=np.float64)
    return np.where(np.isnan(given), private_of_values(values), given)


def _of_rows(rows: pa.Table, sql: str, engine: Engine) -> Numbers:
    connection = row_cursor()
    connection.register("score_rows", rows)
    source = f"(SELECT *, {computed_sql(engine)} FROM score_rows)"
    answers = connection.sql(f"SELECT ({sql}) AS answer FROM {source}").to_arrow_table()
    return np.asarray(answers["answer"].to_numpy(), dtype=np.float64)


LEVEL_0_ADVICE = (
    "also matches images in which nothing was found, since their level is 0; write for example: level IN (1, 2)"
)


@lru_cache(MAX_KEPT)
def matches_level_0_too(sql: str) -> bool:
    """Return whether a checked condition (`scoring.sql.expressions`) matches images of levels 0 and 1, but none of
    level 4.

    Such as `level < 3`, meant for levels 1 and 2: level 0 means that nothing was found. A condition that matches all of
    them, or only level 0, is taken as intended.
    """
    values = np.zeros((3, len(KEYS)), dtype=np.float32)
    for row, level in ((1, 1), (2, 4)):
        values[row, next(n for n, attribute in enumerate(ATTRIBUTES) if attribute.level == level)] = 1
    facts = [Facts("", n, "", None, None, None) for n in range(3)]
    connection = row_cursor()
    connection.register("score_rows", to_table(facts, [Assessment(row) for row in values]))
    images = f"(SELECT *, {computed_sql(ALL_JUDGED)} FROM score_rows)"
    try:
        rows = connection.execute(f'SELECT coalesce({sql}, false) FROM {images} ORDER BY "index"').fetchall()
    except duckdb.Error:  # it fails on such a row; `Policy.decide` reports that if a run has one
        return False
    return [bool(matches) for (matches,) in rows] == [True, True, False]
