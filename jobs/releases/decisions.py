"""Decisions as a table: how rows are read for them, what they keep of a shard, and how they are after the copy."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import RunError
from ingest.formats.released import CoverStep, Kept, Written
from ingest.sample import printable
from ingest.storage.place import Place
from jobs.releases.files import DECISIONS_SCHEMA, REDACTIONS_SCHEMA
from scoring.policies.reserved import ReservedRule
from scoring.runs.results import RowRange
from scoring.runs.rows import rows_at
from scoring.table import Col

ORIGIN = (Col.URL_SHA256, Col.DOMAIN)
"""Columns by which a takedown finds pictures of a URL or domain."""

TAKEN_DOWN_BEFORE = "it was taken down from the release before"

ROWS_AT_ONCE = 40_960
"""Rows decided together: as many as a row group of a compacted run has, so that no group is decoded twice."""


def row_chunks(
    run: Place, ranges: Sequence[RowRange], columns: frozenset[str], rows_at_once: int = ROWS_AT_ONCE
) -> Iterator[pa.Table]:
    """Yield columns of rows, in their order, at most `rows_at_once` together. A slice that is larger is not split."""
    waiting, num_waiting = list[pa.Table](), 0
    for part in _at_once(ranges, rows_at_once):
        rows = rows_at(run, [part], sorted(columns))
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
        indices = np.concatenate([[self._last_index], decisions["index"].to_numpy()])
        for place in np.flatnonzero(np.diff(indices) <= 0)[:1].tolist():
            raise RunError(
                f"{printable(self._shard)}: the run has index {indices[place + 1]} after index {indices[place]}; "
                "scan the source into a new run"
            )
        self._last_index = int(indices[-1])
        self._num_rows += decisions.num_rows
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


def unseen_in(rows: pa.Table, decisions: pa.Table) -> dict[int, list[str]]:
    """Return the index of each image that is kept and holds content that may not have been scanned -> its kinds.
    rows: of one shard, as many as decisions."""
    has_unseen = pc.greater(pc.list_value_length(rows[Col.UNSEEN]), 0).fill_null(False)
    is_copied = pc.is_in(decisions["action"], pa.array(["keep", "flag"]))  # a redacted picture loses it
    kept = rows.filter(pc.and_(has_unseen, is_copied))
    kept = kept.select([Col.INDEX, Col.UNSEEN])
    return {row[Col.INDEX]: row[Col.UNSEEN] for row in kept.to_pylist()}


def as_written(decisions: pa.Table, written: Written, unseen: Mapping[int, list[str]]) -> pa.Table:
    """Return the decisions after the copy: some samples were not fit for a release, some pictures were written again.
    unseen: as `unseen_in` returns it."""
    refused = written.pictures.refused
    for rule in (ReservedRule.NOT_CLEANED, ReservedRule.NOT_COVERED, ReservedRule.REMOVED_BEFORE):
        of_rule = {index: message for index, (reason, message) in refused.items() if f"({reason})" == rule}
        decisions = _with_dropped(decisions, of_rule, rule)
    decisions = _with_dropped(decisions, written.dropped, ReservedRule.UNSAFE_MEMBER)
    rewritten = written.pictures.rewritten
    rows = list(zip(decisions["index"].to_pylist(), decisions["sha256"].to_pylist(), strict=True))
    of_pictures = {
        "released_sha256": [rewritten.get(index, sha256) for index, sha256 in rows],
        "unseen": [unseen.get(index) for index, _ in rows],
        "pdq": [written.pictures.pdq.get(index) for index, _ in rows],
        "colours": [written.pictures.colours.get(index) for index, _ in rows],
    }
    for name, values in of_pictures.items():
        field = DECISIONS_SCHEMA.field(name)
        decisions = decisions.set_column(DECISIONS_SCHEMA.get_field_index(name), field, pa.array(values, field.type))
    is_dropped = pc.equal(decisions["action"], "drop")
    return with_values(decisions, is_dropped, dict.fromkeys((*of_pictures, *ORIGIN), pa.scalar(None)))


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
    return dropped_by(decisions, pc.is_valid(places), rule, reasons)


def counted(decisions: pa.Table) -> Counter[tuple[str, str]]:
    """Return (action, rule) -> number of rows."""
    groups = decisions.group_by(["action", "rule"]).aggregate([([], "count_all")]).to_pylist()
    return Counter({(group["action"], group["rule"]): group["count_all"] for group in groups})


def dropped_by(decisions: pa.Table, rows: pa.ChunkedArray, rule: str, reasons: pa.ChunkedArray | pa.Scalar) -> pa.Table:
    """Return the decisions, with those where `rows` is true dropped by the rule."""
    return with_values(decisions, rows, {"reason": reasons, "rule": pa.scalar(rule), "action": pa.scalar("drop")})


def with_values(decisions: pa.Table, rows: pa.ChunkedArray, values: Mapping[str, Any]) -> pa.Table:
    """Return the decisions, with other values where `rows` is true. values: column -> Arrow scalar or one per row."""
    for name, value in values.items():
        column = pc.if_else(rows, value.cast(DECISIONS_SCHEMA.field(name).type), decisions[name])
        decisions = decisions.set_column(DECISIONS_SCHEMA.get_field_index(name), name, column)
    return decisions
