"""Filters the rows of a run: how many fit, how many each value has, and one page of them.

The columns that filters need are read once into a table in memory, with the most severe rows first. The rows that fit a
SQL condition or a policy are found when they are first needed, and kept.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import duckdb
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ingest.errors import QueryError
from reports.report.opened import OpenRun
from scoring.policies.policy import Action
from scoring.sql.expressions import boolean_expression, without_values
from scoring.sql.names import literal
from scoring.table import IMAGE_SCHEMA, LISTED, Col
from scoring.taxonomy import KEYS

MAX_ROWS = 1_000_000
"""Number of rows in memory; more would take gigabytes."""

MAX_VALUES = 500
"""Number of categories, kinds and reasons that are counted, the most frequent first."""

MAX_CONDITIONS = 8
"""Number of SQL conditions whose rows are kept."""

NULL = "null"
"""Name of a null value in a filter."""

VALUES = ("1", "0.5", "0", NULL)
"""Values of an attribute, as a filter names them; null: not assessed."""

SHOWN = (Col.KEY, Col.CATEGORY, Col.FORMAT, Col.WIDTH, Col.HEIGHT, Col.NUM_FRAMES, Col.STATUS, Col.REASON, Col.LEVEL)
_COLUMNS = (Col.SHARD, Col.INDEX, Col.SHA256, *SHOWN, Col.SCORE, Col.S_LEX, *KEYS)

_ORDER = 'coalesce(s_lex, holistic_score, private_answer) DESC NULLS LAST, score_high DESC NULLS LAST, shard, "index"'

Text = Annotated[str, Field(max_length=10_000)]
Value = Literal["1", "0.5", "0", "null"]


class Filter(BaseModel):
    """A row fits if it fits everything that is given; None asks nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    category: Text | None = None

    has_no_category: bool = False
    """Rows whose category is null."""

    level: Literal["0", "1", "2", "3", "4", "null"] | None = None

    attributes: dict[str, Value] = {}
    kind: Text | None = None
    """A kind of evidence that a box of the row has, such as `face`, whatever follows a comma."""

    policy: Text | None = None
    action: Action | None = None
    """What this policy decides."""

    status: Literal["scored", "quarantined", "screened"] | None = None

    reason: Text | None = None
    condition: Text | None = None
    """SQL over the columns of the view `images`, as people write it."""

    @field_validator("attributes")
    @classmethod
    def _known(cls, attributes: dict[str, Value]) -> dict[str, Value]:
        if not attributes.keys() <= set(KEYS):
            raise ValueError("no attribute")
        return attributes


class BrowsedRows:
    """The rows of one run, numbered from 0, the most severe first, as in a report. Safe for several threads."""

    def __init__(self, run: OpenRun, hidden: pa.Table, where: str | None = None):
        """Read the rows into memory.

        hidden: shard and index of rows to leave out, in addition to those that the scan found on its hash list. where:
        a checked SQL condition; only rows that fit it are taken.

        QueryError if there are more than `MAX_ROWS`, or a limit of the run is reached.
        """
        self._run, self._lock = run, threading.RLock()
        self._policies = dict[str, str]()
        self._fitting = OrderedDict[str, str]()
        self._num_tables = 0
        fits = f"coalesce(reason, '') <> {literal(LISTED)} AND {where or 'true'}"
        num_rows = run.sql(f"SELECT count(*) AS num_rows FROM images WHERE {fits}")["num_rows"][0].as_py()
        if num_rows > MAX_ROWS:
            raise QueryError(
                f"{num_rows:,} rows are too many to browse at once; choose at most {MAX_ROWS:,} with --where, such as "
                '"level IN (1, 2)"'
            )
        columns = ", ".join(f'"{name}"' for name in _COLUMNS)
        with run.joined_with("hidden_rows", hidden.select([Col.SHARD, Col.INDEX])):
            run.connection.execute(
                f"CREATE TEMP TABLE browsed AS SELECT row_number() OVER (ORDER BY {_ORDER}) - 1 AS number, {columns}, "
                "boxes, list_distinct([split_part(box.kind, ',', 1) FOR box IN boxes]) AS kinds "
                f'FROM (FROM images WHERE {fits}) ANTI JOIN hidden_rows USING (shard, "index")'
            )
        self.num_rows = int(self._all("SELECT count(*) AS num_rows FROM browsed")[0]["num_rows"])

    def places(self) -> pa.Table:
        """Return shard, index, sha256 and key of every row, by number."""
        with self._lock:
            return self._asked('SELECT shard, "index", sha256, key FROM browsed ORDER BY number')

    def row_at(self, number: int) -> pa.Table:
        """Return the row of the view `images` with this number."""
        with self._lock:
            row = self._all(f'SELECT shard, "index" FROM browsed WHERE number = {number:d}')[0]
            where = f'shard = {literal(row[Col.SHARD])} AND "index" = {row[Col.INDEX]}'
            return self._run.sql(f"SELECT * FROM images WHERE {where}")

    def has_decisions(self, policy: str) -> bool:
        return policy in self._policies

    def add_decisions(self, policy: str, decisions: pa.Table) -> None:
        """Add the decisions of a policy. decisions: shard, index, action and rule of every row of the run."""
        with self._lock:
            self._policies[policy] = self._kept(
                'SELECT number, action, rule FROM browsed JOIN given USING (shard, "index")',
                decisions.select(["shard", "index", "action", "rule"]),
            )

    def page(self, wanted: Filter, first: int, most: int) -> tuple[int, list[dict[str, Any]]]:
        """Return how many rows fit, and at most `most` of them after the first `first`.

        Each has number, `SHOWN`, boxes, sha256 and attributes. QueryError as with `counts`.
        """
        with self._lock:
            where = _all_of(self._conditions(wanted))
            num_rows = self._all(f"SELECT count(*) AS num_rows FROM browsed WHERE {where}")[0]["num_rows"]
            rows = self._all(f"SELECT * FROM browsed WHERE {where} ORDER BY number LIMIT {most:d} OFFSET {first:d}")
            return num_rows, rows

    def table(self, wanted: Filter) -> pa.Table:
        """Return all rows that fit, in order.

        Columns: those that filters know, boxes, and `action` and `rule` of the policy, if the filter names one.
        QueryError as with `counts`.
        """
        with self._lock:
            where = _all_of(self._conditions(wanted))
            decided = "" if wanted.policy is None else f"JOIN {self._policies[wanted.policy]} USING (number)"
            return self._asked(f"SELECT * EXCLUDE kinds FROM browsed {decided} WHERE {where} ORDER BY number")

    def counts(self, wanted: Filter) -> dict[str, Any]:
        """Count the rows that each value of each filter would leave, if all other filters stay.

        category, level, kind, status, reason, action -> list of value and num_rows; attributes -> attribute -> value ->
        num_rows. QueryError in one line if the SQL condition is wrong.
        """
        with self._lock:
            asked = self._conditions(wanted)
            counted: dict[str, Any] = {
                name: self._counted(name, "browsed", asked)
                for name in (Col.CATEGORY, Col.LEVEL, Col.STATUS, Col.REASON)
            }
            kinds = "(SELECT number, unnest(kinds) AS kind FROM browsed WHERE {where})"
            counted["kind"] = self._counted("kind", kinds, asked)
            decided = self._policies.get(wanted.policy or "")
            with_action = f"(FROM browsed JOIN {decided} USING (number))"
            counted["action"] = self._counted("action", with_action, asked) if decided else []
            counted["attributes"] = self._attribute_counts(asked)
            return counted

    def _counted(self, name: str, source: str, asked: Mapping[str, str]) -> list[dict[str, Any]]:
        where = _all_of(asked, but=name)
        source, where = (source.format(where=where), "true") if "{where}" in source else (source, where)
        return self._all(
            f"SELECT {name} AS value, count(*) AS num_rows FROM {source} WHERE {where} "
            f"GROUP BY ALL ORDER BY num_rows DESC, value LIMIT {MAX_VALUES}"
        )

    def _attribute_counts(self, asked: Mapping[str, str]) -> dict[str, dict[str, int]]:
        others = {name: condition for name, condition in asked.items() if name not in KEYS}
        cells = [
            f"count(*) FILTER (WHERE {_all_of({k: asked[k] for k in KEYS if k in asked and k != key})} "
            f"AND {_is_value(key, value)})"
            for key in KEYS
            for value in VALUES
        ]
        names = [f"cell_{number}" for number in range(len(cells))]
        columns = ", ".join(f"{cell} AS {name}" for cell, name in zip(cells, names, strict=True))
        row = self._all(f"SELECT {columns} FROM browsed WHERE {_all_of(others)}")[0]
        counts = iter(row[name] for name in names)
        return {key: {value: next(counts) for value in VALUES} for key in KEYS}

    def _conditions(self, wanted: Filter) -> dict[str, str]:
        """Return the conditions on the table `browsed`: filter or attribute -> SQL."""
        conditions = {key: _is_value(key, value) for key, value in wanted.attributes.items()}
        for name in (Col.CATEGORY, Col.STATUS, Col.REASON):
            if (value := getattr(wanted, name)) is not None:
                conditions[name] = f"{name} = {literal(value)}"
        if wanted.has_no_category:
            conditions[Col.CATEGORY] = "category IS NULL"
        if wanted.level is not None:
            conditions[Col.LEVEL] = "level IS NULL" if wanted.level == NULL else f"level = {wanted.level}"
        if wanted.kind is not None:
            conditions["kind"] = f"list_contains(kinds, {literal(wanted.kind)})"
        if wanted.policy is not None and wanted.policy not in self._policies:
            raise QueryError("there are no decisions of this policy; choose one on the page")
        if wanted.action is not None and wanted.policy is None:
            raise QueryError("an action is one of a policy; choose a policy, too")
        if wanted.action is not None and wanted.policy is not None:
            decided = self._policies[wanted.policy]
            conditions["action"] = f"number IN (SELECT number FROM {decided} WHERE action = {literal(wanted.action)})"
        if wanted.condition is not None and wanted.condition.strip():
            conditions["condition"] = f"number IN (SELECT number FROM {self._fits(wanted.condition)})"
        return conditions

    def _fits(self, condition: str) -> str:
        """Return the name of a table of the numbers of the rows that fit."""
        checked = boolean_expression(condition, IMAGE_SCHEMA)
        if checked not in self._fitting:
            rows = self._run.sql(f'SELECT shard, "index" FROM images WHERE {checked}')
            self._fitting[checked] = self._kept('SELECT number FROM browsed JOIN given USING (shard, "index")', rows)
        self._fitting.move_to_end(checked)
        while len(self._fitting) > MAX_CONDITIONS:
            self._run.connection.execute(f"DROP TABLE {self._fitting.popitem(last=False)[1]}")
        return self._fitting[checked]

    def _kept(self, statement: str, given: pa.Table) -> str:
        """Keep the answer to a statement, which can use the table `given`, in a new table, and return its name."""
        self._num_tables += 1
        name = f"browsed_{self._num_tables}"
        with self._run.joined_with("given", given):
            self._run.connection.execute(f"CREATE TEMP TABLE {name} AS {statement}")
        return name

    def _asked(self, statement: str) -> pa.Table:
        try:
            return self._run.connection.sql(statement).to_arrow_table()
        except duckdb.Error as error:
            raise QueryError(f"the rows cannot be asked: {without_values(error, '')}") from None

    def _all(self, statement: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._asked(statement).to_pylist()
        return rows


def _all_of(conditions: Mapping[str, str], but: str = "") -> str:
    return " AND ".join(condition for name, condition in conditions.items() if name != but) or "true"


def _is_value(key: str, value: str) -> str:
    return f"{key} IS NULL" if value == NULL else f"{key} = {value}"
