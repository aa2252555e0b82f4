"""The rows of a run as a table of the database in which two runs are compared."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import duckdb
import pyarrow as pa

from reports.report.opened import OpenRun
from scoring.privacy import MEANINGS, private_condition, private_sql
from scoring.sql.expressions import columns_of, value_expression
from scoring.table import SCHEMA, Col
from scoring.taxonomy import KEYS

Name = Literal["a", "b"]

ROWS_AT_ONCE = 100_000
"""Inserted together: one slice alone would be few."""

NO_GROUP = "(none)"
_NEEDED = (
    Col.SHARD,
    Col.INDEX,
    Col.KEY,
    Col.SHA256,
    Col.PHASH,
    Col.STATUS,
    Col.LEVEL,
    Col.SCORE,
    Col.HOLISTIC_SCORE,
    *KEYS,
)

_ANSWERS = ", ".join(("is_quarantined", Col.LEVEL, "is_private", *KEYS))
"""Columns by which copies of a picture agree or not."""


@dataclass(frozen=True)
class HashPart:
    """The rows whose picture falls into this part, by the hash of its bytes; rows without a hash are in part 0."""

    number: int
    of: int
    """Parts."""

    @property
    def condition(self) -> str:
        """SQL over a row."""
        of_hash = f"hash(sha256) % {self.of} = {self.number}"
        return f"({of_hash} OR sha256 IS NULL)" if self.number == 0 else f"{of_hash} AND sha256 IS NOT NULL"


def load(database: duckdb.DuckDBPyConnection, name: Name, run: OpenRun, by: str, part: HashPart) -> str:
    """Makes a table of the rows of a part of a run and returns what says whether a picture is private, in words.

    Columns: n (number of the row, from 0), shard, index, key, sha256, phash, category (the group), is_quarantined,
    level, score, holistic_score, is_private (null if unknown) and the attributes: 0, 1 or 2 for absent, ambiguous and
    present.
    QueryError if `by` is no expression over the row; RunError, StorageError of the run.
    """
    group = value_expression(by, SCHEMA)
    private = private_condition(run.record.engine)
    condition = private_sql(private, run.record.engine)
    columns = list(dict.fromkeys([*_NEEDED, *sorted(columns_of(private, SCHEMA) | columns_of(by, SCHEMA))]))
    values = ", ".join(f"CAST({key} * 2 AS TINYINT) AS {key}" for key in KEYS)
    rows = f"""SELECT n, shard, "index", "key", sha256, phash,
        coalesce(CAST({group} AS VARCHAR), '{NO_GROUP}') AS category,
        status = 'quarantined' AS is_quarantined, level, score, holistic_score,
        CASE WHEN status = 'scored' THEN CAST(({condition}) AS BOOLEAN) END AS is_private, {values}
    FROM incoming WHERE {part.condition}"""
    num_rows = 0
    for table in _chunks(run, columns):
        numbers = pa.array(range(num_rows, num_rows + table.num_rows), pa.int64())
        database.register("incoming", table.append_column("n", numbers))
        target = f"INSERT INTO {name}" if num_rows else f"CREATE TABLE {name} AS"
        database.execute(f"{target} SELECT *, hash({_ANSWERS}) AS answers FROM ({rows})")
        database.unregister("incoming")
        num_rows += table.num_rows
    return MEANINGS[private]


def _chunks(run: OpenRun, columns: list[str]) -> Iterator[pa.Table]:
    """At least one, which may have no rows."""
    reader = run.batches(columns)
    waiting, num_waiting = [reader.schema.empty_table()], 0
    for batch in reader:
        waiting.append(pa.Table.from_batches([batch]))
        num_waiting += batch.num_rows
        if num_waiting >= ROWS_AT_ONCE:
            yield pa.concat_tables(waiting)
            waiting, num_waiting = [reader.schema.empty_table()], 0
    yield pa.concat_tables(waiting)
