"""What one filter decides about a row, stage by stage: the policy first, then all that overrules it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import QueryError
from jobs.releases.decisions import ORIGIN, TAKEN_DOWN_BEFORE, dropped_by, with_values
from jobs.releases.files import DECISIONS_SCHEMA
from reports.report.opened import OpenRun
from scoring.policies.policy import LIMITS, Policy
from scoring.policies.reserved import ReservedRule
from scoring.privacy import Engine
from scoring.runs.rows import is_damage
from scoring.sql.expressions import columns_of, row_cursor, shown, value_expression, without_values
from scoring.sql.limits import StoppedError, Watch
from scoring.table import LISTED, SCHEMA, Col

Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

_COUNTED = frozenset([Col.STATUS, Col.UNSEEN, Col.NUM_FRAMES_SCANNED, Col.NUM_BYTES])
"""Columns that the counts of a release need, and the cleaning of pictures."""


@dataclass(frozen=True)
class Overruled:
    """Which rows another decision is for, and which."""

    rows: Mapping[str, tuple[Rows, Numbers]] = field(default_factory=dict)
    """Shard, as rows name it -> the indices of rows in ascending order, and the numbers of their decisions."""

    decisions: tuple[tuple[str, str, str], ...] = ()
    """Action, rule and reason."""

    def apply(self, decisions: pa.Table) -> pa.Table:
        """Return the decisions with those that are overruled replaced. decisions: of one shard, with `shard` and
        `index`."""
        if not decisions.num_rows or (overruled := self.rows.get(decisions["shard"][0].as_py())) is None:
            return decisions
        indices, numbers = overruled
        decided = decisions["index"].to_numpy()
        places = np.minimum(np.searchsorted(indices, decided), len(indices) - 1)
        is_overruled = indices[places] == decided
        chosen = pa.array(numbers[places], mask=~is_overruled)
        parts = zip(("action", "rule", "reason"), zip(*self.decisions, strict=True), strict=True)
        values = {name: pa.array(of_decisions, pa.string()).take(chosen) for name, of_decisions in parts}
        return with_values(decisions, pa.array(is_overruled), values)


NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_OPTION = "guarantee by:"


@dataclass(frozen=True)
class ScoreThreshold:
    """A number; images that reach it are dropped."""

    by: str
    """The column or expression, as the user gave it."""

    lowest: float
    """The lowest number that is dropped; +inf if the policy alone keeps the promise."""

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns of the row that the number follows from."""
        return columns_of(self.by, SCHEMA)

    @property
    def reason(self) -> str:
        """Return the reason for the decisions."""
        return f"{shown(self.by)} is {readable(self.lowest)} or more, which the guarantee drops"


def readable(number: float) -> str:
    """Return the fewest digits that mean the same number, in double precision, or in single, as the columns are stored.

    >>> readable(30.0), readable(0.8854830265045166)
    ('30', '0.885483')
    """
    single = np.float32(number)
    shortest = np.format_float_positional(single if float(single) == number else np.float64(number), trim="-")
    return str(shortest)


def scores_of(rows: pa.Table, by: str) -> pa.ChunkedArray:
    """Return the value of an expression over rows of `scoring.table.SCHEMA`, float64; null for NaN, too. QueryError if
    it is no expression over the row, gives no number, or fails."""
    sql = value_expression(by, SCHEMA)
    connection = row_cursor()
    connection.register("score_rows", rows)
    try:
        kind = str(connection.sql(f"SELECT {sql} FROM score_rows LIMIT 0").types[0])
        if not kind.startswith(NUMBERS):
            raise QueryError(
                f"{_OPTION} {shown(by)} gives {kind}; a column or expression that gives a number is wanted"
            )
        number = f"CAST({sql} AS DOUBLE)"
        statement = f"SELECT CASE WHEN isfinite({number}) THEN {number} END AS score FROM score_rows"
        table = Watch(connection, LIMITS).run(lambda: connection.sql(statement).to_arrow_table())
    except StoppedError as stop:
        raise QueryError(f"{_OPTION} {shown(by)} was stopped {stop}; write a simpler expression") from None
    except duckdb.Error as error:
        raise QueryError(f"{_OPTION} {shown(by)}: {without_values(error, '')}") from None
    return table["score"]


@dataclass(frozen=True)
class Decider:
    """A policy, and what this filter knows beyond it."""

    policy: Policy

    engine: Engine
    """Of the run, as run.json describes it."""

    listed: frozenset[str] = frozenset()
    """sha256 of pictures on an operator's hash list: they are dropped regardless of the rules, and not named."""

    not_compared: frozenset[str] = frozenset()
    """sha256 of pictures that cannot be compared with the list: they are handled in the same way."""

    removed: frozenset[str] = frozenset()
    """Hashes of pictures that were taken down from the release before: they are dropped."""

    threshold: ScoreThreshold | None = None
    """Of a guarantee."""

    overruled: Overruled = field(default_factory=Overruled, compare=False)
    """Decisions that follow from other pictures of the run."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the row that `decide` needs, the counts of a release, and the cleaning of pictures."""
        of_threshold = self.threshold.columns if self.threshold is not None else frozenset[str]()
        return _COUNTED | frozenset(ORIGIN) | self.policy.columns | of_threshold

    def decide(self, rows: pa.Table) -> pa.Table:
        """Return a decision for each row, of `DECISIONS_SCHEMA`. rows: of one shard, with `columns`. PolicyError if a
        rule fails on a row; QueryError if the expression of the threshold does."""
        decisions = self.policy.decide(rows, self.engine)
        for name in DECISIONS_SCHEMA.names[decisions.num_columns :]:
            is_of_row = name in ORIGIN and self.policy.members != "image-only"
            # The others are known once the pictures are written.
            values = rows[name] if is_of_row else pa.nulls(decisions.num_rows, DECISIONS_SCHEMA.field(name).type)
            decisions = decisions.append_column(name, values)
        decisions = decisions.cast(DECISIONS_SCHEMA)
        for stage in STAGES:
            decisions = stage(self, rows, decisions)
        return decisions


def can_be_dropped(decisions: pa.Table) -> pa.ChunkedArray:
    """Return for each row whether a guarantee may drop it: no rule of the policy keeps it."""
    of_rule = pc.invert(pc.is_in(decisions["rule"], pa.array([ReservedRule.DEFAULT, ReservedRule.QUARANTINED])))
    return pc.invert(pc.and_(pc.equal(decisions["action"], "keep"), of_rule))


def _withheld(decider: Decider, rows: pa.Table, decisions: pa.Table) -> pa.Table:
    """Drop pictures on a hash list, of now or of the scan, or not comparable with it, and what names them."""
    is_not_compared = pc.is_in(decisions["sha256"], pa.array(sorted(decider.not_compared), pa.string()))
    is_listed = pc.or_(
        pc.is_in(decisions["sha256"], pa.array(sorted(decider.listed), pa.string())),
        pc.equal(rows[Col.REASON], LISTED).fill_null(False),
    )
    for is_withheld, rule, reason in (
        (is_not_compared, ReservedRule.NOT_COMPARED, "it cannot be compared with the hash list"),
        (is_listed, ReservedRule.HASH_LIST, "it may not be in any release"),
    ):
        if pc.any(is_withheld).as_py():
            decisions = dropped_by(decisions, is_withheld, rule, pa.scalar(reason))
            decisions = with_values(decisions, is_withheld, {"key": pa.scalar(""), "sha256": pa.scalar(None)})
    return decisions


def _guaranteed(decider: Decider, rows: pa.Table, decisions: pa.Table) -> pa.Table:
    """Drop what reaches the threshold of a guarantee, but for what a rule of the policy keeps."""
    threshold = decider.threshold
    if threshold is None:
        return decisions
    reached = pc.greater_equal(scores_of(rows, threshold.by), threshold.lowest).fill_null(False)
    is_dropped = pc.and_(reached, pc.and_(can_be_dropped(decisions), pc.not_equal(decisions["action"], "drop")))
    return dropped_by(decisions, is_dropped, ReservedRule.GUARANTEE, pa.scalar(threshold.reason))


def _unreadable(decider: Decider, rows: pa.Table, decisions: pa.Table) -> pa.Table:
    is_lost = pc.and_(pc.is_null(decisions["sha256"]), pc.not_equal(decisions["action"], "drop"))
    reasons = pc.binary_join_element_wise("there is nothing that could be copied", decisions["reason"], ": ")
    return dropped_by(decisions, is_lost, ReservedRule.UNREADABLE, reasons)


def _removed_before(decider: Decider, rows: pa.Table, decisions: pa.Table) -> pa.Table:
    is_removed = pc.is_in(decisions["sha256"], pa.array(sorted(decider.removed), pa.string()))
    return dropped_by(decisions, is_removed, ReservedRule.REMOVED_BEFORE, pa.scalar(TAKEN_DOWN_BEFORE))


def _damaged(decider: Decider, rows: pa.Table, decisions: pa.Table) -> pa.Table:
    return dropped_by(decisions, is_damage(rows), ReservedRule.DAMAGED_SHARD, rows[Col.REASON])


def _overruled(decider: Decider, rows: pa.Table, decisions: pa.Table) -> pa.Table:
    """Replace decisions by those that follow from other pictures: near duplicates, and the same URL."""
    return decider.overruled.apply(decisions)


STAGES: tuple[Callable[[Decider, pa.Table, pa.Table], pa.Table], ...] = (
    _withheld,
    _guaranteed,
    _unreadable,
    _removed_before,
    _damaged,
    _overruled,
)
"""All that overrules the policy, in order: the last one that speaks of a row decides."""


def decisions_of_run(run: OpenRun, policy: Policy) -> pa.Table:
    """Return the decisions of a policy for every row of a run. PolicyError if a rule fails on a row."""
    decider = Decider(policy, run.record.engine)
    return pa.concat_tables([DECISIONS_SCHEMA.empty_table(), *map(decider.decide, run.chunks(SCHEMA.names))])
