"""A release policy: ordered rules over the row, the first that matches decides.

    name: strict
    rules:
      - name: identity-documents
        when: gov_ids >= 0.5
        then: drop
        reason: shows an identity document
    default: keep
    quarantined: drop

`when` is a SQL condition over the columns of `scoring.table`; it can reach nothing else (`scoring.expressions`).
What is quarantined and kept is copied as it is; a sample without readable bytes (`sha256` is null: a dangling link, a
tar that is cut there, no image member) cannot be copied, and `filter` drops it by the rule "(unreadable)".
Score and decision are apart: a policy can be changed and applied again without another scan.
"""

import hashlib
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import duckdb
import pyarrow as pa
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ingest.errors import PolicyError, QueryError, near
from scoring.expressions import boolean_expression, columns_of
from scoring.table import SCHEMA, SCORE_COLUMNS
from scoring.taxonomy import KEYS

Action = Literal["keep", "flag", "drop"]
Text = Annotated[str, Field(min_length=1)]

SEVERITY_NAMES = frozenset(column.name for column in SCORE_COLUMNS) - {"num_assessed"}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Rule(_Strict):
    """name: shown in decisions. when: SQL condition. then: what happens. reason: in words, for the people asked."""

    name: Text
    when: Text
    then: Action
    reason: Text


class _PolicyFile(_Strict):
    name: Text
    rules: list[Rule]
    default: Action
    quarantined: Action = "drop"


@dataclass(frozen=True)
class Policy:
    """A checked policy. sha256: of the file's bytes."""

    name: str
    sha256: str
    rules: tuple[Rule, ...]
    default: Action
    quarantined: Action
    sql: tuple[str, ...]

    def decide(self, rows: pa.Table) -> pa.Table:
        """Rows of `SCHEMA` -> shard, index, key, sha256, action, rule, reason; one per row and in order.

        A condition that is null (an attribute was not assessed) does not match. PolicyError names the rule whose
        condition fails on a row.
        """
        with duckdb.connect() as connection:
            connection.execute("SET enable_external_access = false; SET preserve_insertion_order = true")
            connection.register("score_rows", rows)
            try:
                return connection.sql(self._statement()).to_arrow_table()
            except duckdb.Error as error:
                first_line = str(error).strip().splitlines()[0]
                raise PolicyError(f'policy "{self.name}": a condition cannot be applied: {first_line}') from None

    def blind_rules(self, assessed: Collection[str]) -> dict[str, list[str]]:
        """Rules that can match nothing, since they look only at what was not assessed: rule -> these columns.

        assessed: the attributes that the run's engine judges; without any there is no level and no score either.
        """
        unknown = frozenset(KEYS) - frozenset(assessed) | (frozenset() if assessed else SEVERITY_NAMES)
        nothing = pa.table({name: pa.nulls(1, SCHEMA.field(name).type) for name in SCHEMA.names})
        blind: dict[str, list[str]] = {}
        with duckdb.connect() as connection:
            connection.register("nothing", nothing)
            for rule, sql in zip(self.rules, self.sql, strict=True):
                used = columns_of(rule.when, SCHEMA)
                if used and used <= unknown and not connection.execute(f"SELECT {sql} FROM nothing").fetchall()[0][0]:
                    blind[rule.name] = sorted(used)
        return blind

    def _statement(self) -> str:
        def case(of: list[str], quarantined: str, default: str) -> str:
            pairs = zip(self.sql, of, strict=True)
            whens = " ".join(f"WHEN {sql} THEN {_quoted(v)}" for sql, v in pairs)
            return f"CASE WHEN status = 'quarantined' THEN {quarantined} {whens} ELSE {_quoted(default)} END"

        action = case([r.then for r in self.rules], _quoted(self.quarantined), self.default)
        rule = case([r.name for r in self.rules], "'(quarantined)'", "(default)")
        reason = case([r.reason for r in self.rules], "reason", "no rule matched")
        columns = f'shard, "index", "key", sha256, {action} AS action, {rule} AS rule, {reason} AS reason'
        return f"SELECT {columns} FROM score_rows"


class _UniqueKeys(yaml.SafeLoader):
    """YAML as usual, but a key that comes twice is an error: plain YAML takes the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise PolicyError(f'the key "{key.value}" stands twice, the second time at line {line}; keep one')
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def load_policy(text: bytes) -> Policy:
    """A policy from the bytes of its YAML file. PolicyError: which rule, where, what is near; checks everything."""
    try:
        content = yaml.load(text, _UniqueKeys)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise PolicyError(f"the policy is not valid YAML{at}") from None
    try:
        parsed = _PolicyFile.model_validate(content)
    except ValidationError as error:
        raise PolicyError(_explained(error, content)) from None
    names = [rule.name for rule in parsed.rules]
    for name in names:
        if names.count(name) > 1:
            raise PolicyError(f'two rules have the name "{name}"; give each its own')
    return Policy(
        name=parsed.name,
        sha256=hashlib.sha256(text).hexdigest(),
        rules=tuple(parsed.rules),
        default=parsed.default,
        quarantined=parsed.quarantined,
        sql=tuple(_condition(number, rule) for number, rule in enumerate(parsed.rules, 1)),
    )


def _condition(number: int, rule: Rule) -> str:
    try:
        return boolean_expression(rule.when, SCHEMA)
    except QueryError as error:
        raise PolicyError(f'rule {number} "{rule.name}", when: {error}') from None


def _explained(error: ValidationError, content: object) -> str:
    # A misspelt key also leaves its right name missing: tell the cause, not the consequence.
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    place = [str(part + 1) if isinstance(part, int) else part for part in first["loc"]]
    where = " ".join(place).replace("rules ", "rule ") or "the policy"
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        known = Rule.model_fields if first["loc"][0] == "rules" else _PolicyFile.model_fields
        rule = where.removesuffix(key).strip()
        return f'{rule + ": " if rule else ""}unknown key "{key}"{near(key, known)}; there are: {", ".join(known)}'
    if first["type"] == "literal_error":
        actions, said = get_args(Action), str(first["input"])
        return f'{where}: "{said}" is no action{near(said, actions)}; there are: {", ".join(actions)}'
    return f"{where}: {first['msg'].lower()}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
