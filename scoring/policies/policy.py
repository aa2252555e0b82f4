"""A release policy: ordered rules over the row; the first match decides.

    name: strict
    rules:
      - name: identity-documents
        when: gov_ids >= 0.5
        then: drop
        reason: shows an identity document
    default: keep
    quarantined: drop
    members: listed
    files: as-is

`when` is a SQL condition over the columns of `scoring.table` and what is computed of them, such as `private` and
`severity_level`, which mean the same for every protocol; it can reach nothing else (`scoring.sql.expressions`).
A quarantined sample that is kept is copied as it is. A sample without readable bytes (`sha256` is null: a dangling
link, a truncated tar, no image member) cannot be copied; `filter` drops it by the rule "(unreadable)".
`members` says which files are released with a kept picture, see `ingest.formats.members`. If that cannot be released
safely, `filter` drops the sample by the rule "(unsafe_member)".
`files: clean` writes kept pictures without what decoding does not need (`ingest.images.rewriting`). `then: redact`
covers what its rule names in `cover` (`TARGETS`, attributes, or `image` for the whole picture) and releases the
picture if a detector then finds nothing more of it. Else it is dropped, or with `fallback: image` all of it is covered.
`cover_method` says how. `residual_max_level: 3` also wants everything of levels 1 and 2 to be gone from such a picture.
`texts: masked` replaces what text rules find in the texts that are released with a picture (`scoring.captions.masked`).
`verify`, `groups` and `guarantee` are what `filter` does beyond the rules; `base: strict` takes all keys that the file
does not have from a shipped policy.
A policy can be changed and applied again without another scan, since scores do not depend on it.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

import duckdb
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from ingest.errors import PolicyError
from ingest.formats.members import Members
from ingest.formats.origins import Origins
from ingest.images.pixels import CoverMethod
from scoring.assessment import EngineOptions
from scoring.policies.reserved import ReservedRule
from scoring.privacy import (
    ALL_JUDGED,
    COMPUTED_FROM,
    MIN_PRIVATE_SCORE,
    SEVERITY_NAMES,
    Engine,
    computed_sql,
    protocols_that_answer,
)
from scoring.sql.expressions import columns_of, row_cursor, shown, without_values
from scoring.sql.limits import Limits, StoppedError, Watch
from scoring.sql.names import literal
from scoring.table import IMAGE_SCHEMA, PRIVATE, SCHEMA, SCREENED, SEVERITY_LEVEL, UNKNOWN_LEVEL, Col
from scoring.taxonomy import ATTRIBUTES, KEYS

Action = Literal["keep", "flag", "redact", "drop"]
PlainAction = Literal["keep", "flag", "drop"]
Files = Literal["as-is", "clean"]
Fallback = Literal["drop", "image"]
Texts = Literal["as-is", "masked"]
ResidualLevel = Literal[0, 2, 3, 4]
WHOLE_IMAGE = "image"
"""In `cover`: the whole picture."""

ACTIONS: tuple[Action, ...] = get_args(Action)
Text = Annotated[str, Field(pattern=r"\S")]
Share = Annotated[float, Field(gt=0, lt=1)]

UNSEEN_BY_ENGINE = "the screen left it out as unlikely to be private; the engine has not seen it"

LIMITS = Limits(seconds=600)
"""Limits on deciding one shard: it takes milliseconds, but a crafted regular expression can take hours."""

_DECIDED_FROM = frozenset([Col.SHARD, Col.INDEX, Col.KEY, Col.SHA256, Col.STATUS, Col.REASON])
"""Columns that every decision needs."""

_COVERED_FROM = frozenset([Col.BOXES])
"""Columns that say what to cover."""

_PICTURE = "picture"
_PRIVATE_WAYS: list[list[dict[str, Any]]] = [
    [{PRIVATE.name: True}],
    [{SEVERITY_LEVEL.name: 1}, {SEVERITY_LEVEL.name: 2}],
    [{Col.LEVEL: 1}, {Col.LEVEL: 2}],
    [{Col.LEVEL_HIGH: 1}, {Col.LEVEL_HIGH: 2}],
    [{Col.HOLISTIC_SCORE: 1.0}, {Col.HOLISTIC_SCORE: MIN_PRIVATE_SCORE}],
    [{Col.PRIVATE_ANSWER: 1.0}],
]
"""Rows of private pictures, in each way in which a run may say so."""

_WHOLE_PICTURE = (SEVERITY_NAMES - {UNKNOWN_LEVEL.name}) | {
    *(PRIVATE.name, SEVERITY_LEVEL.name, Col.HOLISTIC_SCORE, Col.PRIVATE_ANSWER, Col.PROB_PRIVATE)
}
"""Columns that judge a picture as a whole."""

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
"""What is read from a policy's file has no other keys and no other types than declared."""


class Rule(BaseModel):
    """One rule of a policy file."""

    model_config = STRICT

    name: Text
    """Name, shown in decisions."""

    when: Text
    """A SQL condition."""

    then: Action

    reason: Text
    """Reason in words, for people who must explain a decision."""

    cover: list[Text] = []
    """What `redact` covers: faces, text, codes, plates, vehicles, persons, attributes, or `image`."""

    spare: list[Text] = []
    """Kinds of evidence that `redact` leaves as they are, such as those of a box in the run."""

    fallback: Fallback = "drop"
    """What `redact` does with a picture in which something is left: drop it, or cover all of it."""


class Promise(BaseModel):
    """`guarantee` of a policy: this share of the private pictures is dropped, which labels prove."""

    model_config = STRICT

    recall: Share
    """At least this share of the private pictures is dropped, copies counted once, …"""

    confidence: Share = 0.9
    """… with this probability."""

    by: Text | None = None
    """Column or SQL expression over the row: the number that has the threshold. None: as docs/filter.md says."""

    drawn: Literal["audit", "evenly"] | None = None
    """How the labelled pictures were drawn; None: `audit` if all are of the audit sample, else `evenly`."""

    accept_all: bool = False
    """Whether to go on if every scored picture is dropped."""


@dataclass(frozen=True)
class SecondEngine:
    """`verify` of a policy: another engine, which must find nothing in a covered picture."""

    name: str
    options: EngineOptions


class PolicyFile(BaseModel):
    """What a policy's file says."""

    model_config = STRICT

    name: Text
    rules: list[Rule]
    default: PlainAction
    quarantined: PlainAction = "drop"
    screened: PlainAction | None = None
    """What happens to pictures that a screen left out, if no rule matches; None if the policy says nothing of them."""

    members: Members = "listed"
    files: Files = "as-is"
    texts: Texts = "as-is"
    """masked: what text rules find in texts that are released with a picture is replaced by its kind."""

    cover_method: CoverMethod = "solid"
    origins: Origins = "removed"
    residual_max_level: ResidualLevel | None = None
    """The most severe level that the second look may find in a covered picture, 0 for none; None: only what the rule
    covers must be gone."""

    verify: SecondEngine | None = None
    groups: Literal["phash"] | None = None
    """Near duplicates by this hash get the strictest decision of their group."""

    guarantee: Promise | None = None
    base: Text | None = None


class Policy(PolicyFile):
    """A checked policy."""

    file: str
    """The name as the user gave it."""

    sha256: str
    """Hash of the file's bytes, in hex."""

    sql: tuple[str, ...]
    """The checked condition of each rule."""

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns of `SCHEMA` that `decide` needs."""
        of_computed = frozenset(COMPUTED_FROM) if self._asks_computed else frozenset[str]()
        of_covers = _COVERED_FROM if self.redacts else frozenset[str]()
        return _DECIDED_FROM | (self.asked & frozenset(SCHEMA.names)) | of_computed | of_covers

    @property
    def redacts(self) -> bool:
        return any(rule.then == "redact" for rule in self.rules)

    @property
    def absent(self) -> tuple[str, ...]:
        """Keys of the attributes that the second look must not find in a covered picture, by `residual_max_level`."""
        if self.residual_max_level is None:
            return ()
        return tuple(a.key for a in ATTRIBUTES if not self.residual_max_level or a.level < self.residual_max_level)

    @property
    def writes_again(self) -> bool:
        """Return whether a release holds pictures that are not byte for byte those of the source."""
        return self.files == "clean" or self.redacts

    @cached_property
    def asked(self) -> frozenset[str]:
        """The columns of `IMAGE_SCHEMA` in the conditions."""
        return frozenset[str]().union(*(columns_of(rule.when, IMAGE_SCHEMA) for rule in self.rules))

    @property
    def _asks_computed(self) -> bool:
        return not self.asked <= frozenset(SCHEMA.names)

    def decide(self, rows: pa.Table, engine: Engine = ALL_JUDGED) -> pa.Table:
        """Decide on each row, in order: shard, index, key, sha256, action, rule, reason. rows: with `columns` at least.

        A condition that is null (an attribute was not assessed) does not match; `private IS NULL` and `unknown_level`
        show such rows.
        engine: of the run, as run.json describes it; the columns that are not stored follow from it. PolicyError names
        the rule whose condition fails on a row.
        """
        connection = row_cursor()
        connection.register("score_rows", rows)
        statement = self._statement(len(self.rules), engine)
        try:
            return Watch(connection, LIMITS).run(lambda: connection.sql(statement).to_arrow_table())
        except StoppedError as stop:
            what = f"deciding on the images of one shard was stopped {stop}"
            remedy = "write simpler conditions, above all simpler regular expressions"
            raise PolicyError(f"{self.file}: {what}; {remedy}") from None
        except duckdb.Error as error:
            raise PolicyError(
                f"{self.file}: {self._failing(connection, engine)}: {without_values(error, '')}"
            ) from None

    def _failing(self, connection: duckdb.DuckDBPyConnection, engine: Engine) -> str:
        """Name the first rule that fails. Each rule sees only the rows that no rule before it matched."""
        for number, rule in enumerate(self.rules, 1):
            try:
                connection.sql(self._statement(number, engine)).to_arrow_table()
            except duckdb.Error:
                return f'rule {number} "{rule.name}", when: {shown(rule.when)}'
        return "it cannot be applied"

    def blind_rules(self, unanswered: Collection[str]) -> dict[str, list[str]]:
        """Return the rules that can match no image of a run: rule -> the columns in it that are null everywhere.

        unanswered: columns that are null in every image of the run.
        """
        connection = row_cursor()
        connection.register("score_rows", pa.table({field.name: pa.nulls(1, field.type) for field in IMAGE_SCHEMA}))
        null_in = {rule.name: columns_of(rule.when, IMAGE_SCHEMA) & frozenset(unanswered) for rule in self.rules}
        return {
            rule.name: sorted(null)
            for rule, sql in zip(self.rules, self.sql, strict=True)
            if (null := null_in[rule.name]) and not _may_match(connection, sql, null)
        }

    def refusal(self, unanswered: Collection[str], engine: Engine) -> str | None:
        """Return why a run must not be filtered by this policy: a rule to leave out or to cover pictures can match none
        of them, and no rules that are as strict match all that it is about. None if it may.

        unanswered: as in `blind_rules`.
        """
        blind, is_judged = self.blind_rules(unanswered), bool(engine["assessed"])
        seeing = [(rule, sql) for rule, sql in zip(self.rules, self.sql, strict=True) if rule.name not in blind]
        for rule in self.rules:
            if rule.then == "keep" or rule.name not in blind:
                continue
            subjects = _subjects(blind[rule.name], is_judged)
            as_strict = [sql for other, sql in seeing if ACTIONS.index(other.then) >= ACTIONS.index(rule.then)]
            if all(_match_all(as_strict, subject, unanswered) for subject in subjects):
                continue
            columns = ", ".join(blind[rule.name])
            needed = dict.fromkeys(name for column in blind[rule.name] for name in protocols_that_answer(column))
            instead = ", write it with private, which every protocol answers" if subjects == {_PICTURE} else ""
            return (
                f'{self.file}: rule "{rule.name}" can match no image of this run: the {engine["name"]} engine '
                f"(protocol {engine['protocol']}) answers nothing about {columns}; scan with a protocol "
                f"that does ({', '.join(needed)}){instead}, or leave the rule out"
            )
        return None

    def refuse_unnamed_stage(self) -> None:
        """Raise PolicyError if the policy ignores pictures that a screen left out, whose attributes are null."""
        if self.screened is None and self.asked.isdisjoint((Col.STAGE, Col.STATUS)):
            raise PolicyError(
                f"{self.file}: the run has pictures that its screen left out, of which no attribute is known, and the "
                "policy says nothing of them; add screened: keep, flag or drop, or a rule about stage = 'screen'"
            )

    def _statement(self, num_rules: int, engine: Engine) -> str:
        def case(results: list[str], quarantined: str, screened: str, default: str) -> str:
            pairs = list(zip(self.sql, results, strict=True))[:num_rules]
            whens = " ".join(f"WHEN {sql} THEN {literal(v)}" for sql, v in pairs)
            if self.screened is not None:
                whens += f" WHEN status = '{SCREENED}' THEN {literal(screened)}"
            return f"CASE WHEN status = 'quarantined' THEN {quarantined} {whens} ELSE {literal(default)} END"

        action = case([r.then for r in self.rules], literal(self.quarantined), self.screened or "", self.default)
        reserved = (literal(ReservedRule.QUARANTINED), ReservedRule.SCREENED, ReservedRule.DEFAULT)
        rule = case([r.name for r in self.rules], *reserved)
        reason = case([r.reason for r in self.rules], "reason", UNSEEN_BY_ENGINE, "no rule matched")
        columns = f'shard, "index", "key", sha256, {action} AS action, {rule} AS rule, {reason} AS reason'
        source = f"(SELECT *, {computed_sql(engine)} FROM score_rows)" if self._asks_computed else "score_rows"
        return f"SELECT {columns} FROM {source}"


def _subjects(columns: Collection[str], is_judged: bool) -> frozenset[str]:
    """Return the attributes that columns are about, and whether they are about the picture as a whole. If no attribute
    is judged, an answer about the whole picture is about all of them."""
    subjects = set[str]()
    for column in columns:
        key = column.removeprefix("prob_").removeprefix("ambiguous_")
        is_whole = column in _WHOLE_PICTURE or (key in KEYS and not is_judged)
        subjects |= {_PICTURE} if is_whole else {key} if key in KEYS else set()
    return frozenset(subjects)


def _match_all(conditions: Sequence[str], subject: str, unanswered: Collection[str]) -> bool:
    """Return whether every picture that shows the subject matches one of the conditions, whatever else is known of it.

    Rows in which nothing is known but one answer prove it.
    """
    ways: list[list[dict[str, Any]]] = [[{subject: 1.0}]] if subject != _PICTURE else _PRIVATE_WAYS
    connection = row_cursor()
    for rows in ways:
        columns = {field.name: pa.nulls(len(rows), field.type) for field in IMAGE_SCHEMA}
        columns |= {name: pa.array([row[name] for row in rows], IMAGE_SCHEMA.field(name).type) for name in rows[0]} | {
            Col.STATUS: pa.array(["scored"] * len(rows), IMAGE_SCHEMA.field(Col.STATUS).type)
        }
        if not set(unanswered) & rows[0].keys():
            connection.register("score_rows", pa.table(columns))
            any_of = " OR ".join(f"coalesce({sql}, false)" for sql in conditions) or "false"
            if connection.sql(f"SELECT bool_and({any_of}) FROM score_rows").fetchall() == [(True,)]:
                return True
    return False


def _may_match(connection: duckdb.DuckDBPyConnection, sql: str, null: Collection[str]) -> bool:
    """Return whether a condition can match a row in which these columns are null, whatever the others are.

    DuckDB's optimizer answers: it leaves out a scan of which it proves that no row can match.
    """
    nulls = ", ".join(f'CASE WHEN false THEN "{column}" END AS "{column}"' for column in sorted(null))
    statement = f"EXPLAIN (FORMAT json) SELECT 1 FROM (SELECT * REPLACE ({nulls}) FROM score_rows) WHERE {sql}"
    [(_, plan)] = connection.execute(statement).fetchall()
    return bool(json.loads(plan)[0]["name"] != "EMPTY_RESULT")
