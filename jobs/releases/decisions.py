"""What a policy and the threshold of a guarantee decide for the rows of one shard, and what they keep of it."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import QueryError, RunError
from ingest.formats.released import DECISIONS, CoverStep, Kept, Written
from ingest.sample import printable
from ingest.storage.place import Place
from jobs.releases.files import DECISIONS_SCHEMA, REDACTIONS_SCHEMA, read_own
from reports.report.opened import OpenRun
from scoring.policies.policy import (
    DAMAGED_SHARD,
    DEFAULT,
    GUARANTEE,
    LIMITS,
    NOT_CLEANED,
    NOT_COVERED,
    QUARANTINED,
    REMOVED_BEFORE,
    UNREADABLE,
    UNSAFE_MEMBER,
    Policy,
)
from scoring.runs.results import RowRange
from scoring.runs.rows import is_damage, rows_at
from scoring.sql.expressions import columns_of, row_cursor, shown, value_expression, without_values
from scoring.sql.limits import StoppedError, Watch
from scoring.table import SCHEMA, Col

NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_OPTION = "--guarantee-by"


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
    """Return the value of an expression over rows of `scoring.table.SCHEMA`, float64; null for NaN, too.

    QueryError if it is no expression over the row, gives no number, or fails.
    """
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


TAKEN_DOWN_BEFORE = "it was taken down from the release before"

ROWS_AT_ONCE = 40_960
"""Rows decided together: as many as a row group of a compacted run has, so that no group is decoded twice."""

_COUNTED = frozenset([Col.STATUS, Col.UNSEEN, Col.NUM_FRAMES_SCANNED, Col.NUM_BYTES])
"""Columns that the counts of a release need, and the cleaning of pictures."""

_ORIGIN = (Col.URL_SHA256, Col.DOMAIN)
"""Columns by which a takedown finds pictures of a URL or domain."""


def read_decisions(root: Place, url: str) -> pa.Table:
    """Read `decisions.parquet` of a finished release. Errors as in `read_own`."""
    return read_own(root, DECISIONS, url)


def row_chunks(
    run: Place,
    ranges: Sequence[RowRange],
    policy: Policy,
    threshold: ScoreThreshold | None = None,
    rows_at_once: int = ROWS_AT_ONCE,
    more: frozenset[str] = frozenset(),
) -> Iterator[pa.Table]:
    """Yield the columns that decisions need, in the order of the rows, at most `rows_at_once` together. A slice that is
    larger is not split.

    more: columns that the caller needs.
    """
    columns = sorted(_COUNTED | {*_ORIGIN} | policy.columns | (threshold.columns if threshold else frozenset()) | more)
    waiting, num_waiting = list[pa.Table](), 0
    for part in _at_once(ranges, rows_at_once):
        rows = rows_at(run, [part], columns)
        if waiting and num_waiting + rows.num_rows > rows_at_once:
            yield pa.concat_tables(waiting)
            waiting, num_waiting = [], 0
        waiting.append(rows)
        num_waiting += rows.num_rows
    if waiting:
        yield pa.concat_tables(waiting)


def _at_once(ranges: Sequence[RowRange], num_rows: int) -> Iterator[RowRange]:
    """Yield slices as they are, and ranges of compacted files cut where a row group of this many rows ends."""
    for rows in ranges:
        if rows.num_rows is None:
            yield rows
            continue
        end, first = rows.first_row + rows.num_rows, rows.first_row
        while first < end:
            after = min(end, (first // num_rows + 1) * num_rows)
            yield RowRange(rows.path, first, after - first)
            first = after


def decisions_of(rows: pa.Table, policy: Policy, threshold: ScoreThreshold | None = None) -> pa.Table:
    """Return the decisions of a policy for rows of one shard.

    A row without image bytes is always dropped, and so is one that is about a damaged part of the shard. threshold: of
    a guarantee. Of the images that reach it, those that the policy flags or keeps by default are dropped; those that a
    rule of the policy keeps stay.
    """
    decided = policy.decide(rows)
    for name in DECISIONS_SCHEMA.names[decided.num_columns :]:
        is_of_row = name in _ORIGIN and policy.members != "image-only"
        # The others are known once the pictures are written.
        values = rows[name] if is_of_row else pa.nulls(decided.num_rows, DECISIONS_SCHEMA.field(name).type)
        decided = decided.append_column(name, values)
    decided = decided.cast(DECISIONS_SCHEMA)
    if threshold is not None:
        reached = pc.greater_equal(scores_of(rows, threshold.by), threshold.lowest).fill_null(False)
        is_dropped = pc.and_(reached, pc.and_(can_be_dropped(decided), pc.invert(is_caught(decided, policy))))
        decided = _overruled(decided, is_dropped, GUARANTEE, pa.scalar(threshold.reason))
    is_lost = pc.and_(pc.is_null(decided["sha256"]), pc.not_equal(decided["action"], "drop"))
    reasons = pc.binary_join_element_wise("there is nothing that could be copied", decided["reason"], ": ")
    decided = _overruled(decided, is_lost, UNREADABLE, reasons)
    if policy.removed:
        is_removed = pc.is_in(decided["sha256"], pa.array(sorted(policy.removed), pa.string()))
        decided = _overruled(decided, is_removed, REMOVED_BEFORE, pa.scalar(TAKEN_DOWN_BEFORE))
    decided = _overruled(decided, is_damage(rows), DAMAGED_SHARD, rows[Col.REASON])
    return policy.overruled.apply(decided)


def decisions_of_run(run: OpenRun, policy: Policy) -> pa.Table:
    """Return the decisions of a policy for every row of a run. PolicyError if a rule fails on a row."""
    policy = policy.for_engine(run.record.engine)
    parts = [decisions_of(rows, policy) for rows in run.chunks(SCHEMA.names)]
    return pa.concat_tables([DECISIONS_SCHEMA.empty_table(), *parts])


def is_caught(decisions: pa.Table, policy: Policy) -> pa.ChunkedArray:
    """Return for each row whether a guarantee counts it as caught: it is dropped, or covered so that it counts."""
    actions = ["drop", "redact"] if policy.covered_counts else ["drop"]
    return pc.is_in(decisions["action"], pa.array(actions))


def can_be_dropped(decisions: pa.Table) -> pa.ChunkedArray:
    """Return for each row whether a guarantee may drop it: no rule of the policy keeps it."""
    of_rule = pc.invert(pc.is_in(decisions["rule"], pa.array([DEFAULT, QUARANTINED])))
    return pc.invert(pc.and_(pc.equal(decisions["action"], "keep"), of_rule))


def kept_rows(decisions: pa.Table) -> pa.Table:
    return decisions.filter(pc.not_equal(decisions["action"], "drop"))


def kept_of(decisions: pa.Table, is_whole: bool) -> Kept:
    """Return what the decisions for one shard leave of it."""
    rows = kept_rows(decisions)
    hashes = dict(zip(rows["index"].to_pylist(), rows["sha256"].to_pylist(), strict=True))
    return Kept(hashes, decisions.num_rows if is_whole else None)


class KeptHash:
    """The hash of which samples of a shard are kept, and of how many; the decisions come in parts.

    It is of the JSON text `[[[index, sha256], ...], number of samples or null]`. An interrupted filter is continued
    only if the hash is the same.
    """

    def __init__(self, shard: str):
        self.num_kept = 0
        self._shard = shard
        self._num_rows = 0
        self._last_index = -1
        self._digest = hashlib.sha256(b"[[")

    def update(self, decisions: pa.Table) -> None:
        """Add decisions. RunError if the rows are not in the order of their index, or one comes twice."""
        indices = decisions["index"].to_pylist()
        for before, after in zip([self._last_index, *indices], indices, strict=False):
            if after <= before:
                raise RunError(
                    f"{printable(self._shard)}: the run has index {after} after index {before}; "
                    "scan the source into a new run"
                )
        self._last_index = indices[-1] if indices else self._last_index
        self._num_rows += len(indices)
        rows = kept_rows(decisions)
        pairs = list(zip(rows["index"].to_pylist(), rows["sha256"].to_pylist(), strict=True))
        if pairs:
            separator = ", " if self.num_kept else ""
            self._digest.update(f"{separator}{json.dumps(pairs)[1:-1]}".encode())
        self.num_kept += len(pairs)

    def hexdigest(self, is_whole: bool) -> str:
        """Return the hash. is_whole: all samples of the shard were scanned."""
        whole = self._digest.copy()
        whole.update(f"], {json.dumps(self._num_rows if is_whole else None)}]".encode())
        return whole.hexdigest()


COPIED_ACTIONS = ("keep", "flag")
"""A redacted picture loses what was not scanned."""


def unseen_in(rows: pa.Table, decisions: pa.Table) -> dict[int, list[str]]:
    """Return the index of each image that is kept and holds content that was not scanned -> its kinds. rows: of one
    shard, as many as decisions."""
    has_unseen = pc.greater(pc.list_value_length(rows[Col.UNSEEN]), 0).fill_null(False)
    kept = rows.filter(pc.and_(has_unseen, pc.is_in(decisions["action"], pa.array(COPIED_ACTIONS))))
    kept = kept.select([Col.INDEX, Col.UNSEEN])
    return {row[Col.INDEX]: row[Col.UNSEEN] for row in kept.to_pylist()}


def as_written(decisions: pa.Table, written: Written, unseen: Mapping[int, list[str]]) -> pa.Table:
    """Return the decisions after the copy: some samples were not fit for a release, some pictures were written again.
    unseen: as `unseen_in` returns it."""
    refused = written.pictures.refused
    for rule in (NOT_CLEANED, NOT_COVERED, REMOVED_BEFORE):
        of_rule = {index: message for index, (reason, message) in refused.items() if f"({reason})" == rule}
        decisions = _with_dropped(decisions, of_rule, rule)
    decisions = _with_dropped(decisions, written.dropped, UNSAFE_MEMBER)
    rewritten = written.pictures.rewritten
    is_kept = pc.not_equal(decisions["action"], "drop")
    rows = list(zip(decisions["index"].to_pylist(), decisions["sha256"].to_pylist(), strict=True))
    of_pictures = {
        "released_sha256": [rewritten.get(index, sha256) for index, sha256 in rows],
        "unseen": [unseen.get(index) for index, _ in rows],
        "pdq": [written.pictures.pdq.get(index) for index, _ in rows],
        **{name: decisions[name] for name in _ORIGIN},
    }
    for name, values in of_pictures.items():
        field = DECISIONS_SCHEMA.field(name)
        column = values if isinstance(values, pa.ChunkedArray) else pa.array(values, field.type)
        column = pc.if_else(is_kept, column, pa.scalar(None, field.type))
        decisions = decisions.set_column(DECISIONS_SCHEMA.get_field_index(name), field, column)
    return decisions


def redactions_of(decisions: pa.Table, steps: Mapping[int, Sequence[CoverStep]]) -> pa.Table:
    """Return one row per step, in the order of the index. decisions: of one shard, after the copy."""
    rows = [
        {name: decided[name] for name in ("shard", "index", "key")}
        | {"number": number, "released": decided["action"] != "drop" and number == len(steps[decided["index"]])}
        | {"step": step.name, "num_areas": step.num_areas, "share_covered": step.share_covered}
        | {"is_examined": step.is_examined, "left": list(step.left)}
        for decided in decisions.filter(pc.is_in(decisions["index"], pa.array(steps, pa.int64()))).to_pylist()
        for number, step in enumerate(steps[decided["index"]], 1)
    ]
    return pa.Table.from_pylist(rows, REDACTIONS_SCHEMA)


def _with_dropped(decisions: pa.Table, dropped: Mapping[int, str], rule: str) -> pa.Table:
    """Return the decisions, with the rows in `dropped` dropped by the rule. dropped: index -> reason."""
    if not dropped:
        return decisions
    places = pc.index_in(decisions["index"], pa.array(dropped.keys(), decisions["index"].type))
    reasons = pa.array(dropped.values(), pa.string()).take(places.combine_chunks())
    return _overruled(decisions, pc.is_valid(places), rule, reasons)


def counted(decisions: pa.Table) -> Counter[tuple[str, str]]:
    """Return (action, rule) -> number of rows."""
    groups = decisions.group_by(["action", "rule"]).aggregate([([], "count_all")]).to_pylist()
    return Counter({(group["action"], group["rule"]): group["count_all"] for group in groups})


def _overruled(decisions: pa.Table, rows: pa.ChunkedArray, rule: str, reasons: pa.ChunkedArray | pa.Scalar) -> pa.Table:
    """Return the decisions, with those where `rows` is true dropped by the rule."""
    for name, value in (("reason", reasons), ("rule", rule), ("action", "drop")):
        column = decisions.schema.get_field_index(name)
        decisions = decisions.set_column(column, name, pc.if_else(rows, value, decisions[name]))
    return decisions
