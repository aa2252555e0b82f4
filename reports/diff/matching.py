"""Loads the rows of two runs into one database, and finds the rows that are the same picture.

Pictures are the same if their bytes are (sha256). Of several copies in a run, the first scored one is compared. A row
without a hash (its bytes could not be read) is matched by name: with the row of the same `shard/key`, else of the same
key. That row must not be matched by its hash, and no other row on either side may have this name.

Labels are joined in another way (`scoring.labels.picture_index`). Here both sides are whole runs, which do not fit into
memory as dicts, so DuckDB joins them. Neither side is written by people, so nothing is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import duckdb
import pyarrow as pa

from reports.report.opened import OpenRun
from reports.words import NO_GROUP
from scoring.privacy import MEANINGS, private_condition, private_sql
from scoring.sql.expressions import columns_of, value_expression
from scoring.table import SCHEMA, Col
from scoring.taxonomy import KEYS

SideName = Literal["a", "b"]

ROWS_AT_ONCE = 100_000
"""Number of rows inserted together; a single slice has few."""

_NEEDED = (*(Col.SHARD, Col.INDEX, Col.KEY, Col.SHA256, Col.STATUS, Col.LEVEL, Col.SCORE, Col.HOLISTIC_SCORE), *KEYS)
_ANSWERS = ", ".join(("is_quarantined", "is_screened", Col.LEVEL, "is_private", *KEYS))
"""Columns by which copies of a picture agree or not."""

NAME_SQL = ("shard || '/' || \"key\"", '"key"')
"""SQL of the names by which rows without a hash are matched, in this order."""


def load(database: duckdb.DuckDBPyConnection, side: SideName, run: OpenRun, by: str) -> str:
    """Load a run into a table, and return in words what decides whether a picture is private.

    Columns: n (number of the row, from 0), shard, index, key, sha256, category (the group), is_quarantined,
    is_screened, level, score, holistic_score, is_private (null if unknown) and the attributes: 0, 1 or 2 for absent,
    ambiguous and present.
    QueryError if `by` is not an expression over the row; RunError, StorageError of the run.
    """
    group = value_expression(by, SCHEMA)
    private = private_condition(run.record.engine)
    condition = private_sql(private, run.record.engine)
    columns = list(dict.fromkeys([*_NEEDED, *sorted(columns_of(private, SCHEMA) | columns_of(by, SCHEMA))]))
    values = ", ".join(f"CAST({key} * 2 AS TINYINT) AS {key}" for key in KEYS)
    rows = f"""SELECT n, shard, "index", "key", sha256,
        coalesce(CAST({group} AS VARCHAR), '{NO_GROUP}') AS category,
        status = 'quarantined' AS is_quarantined, status = 'screened' AS is_screened, level, score, holistic_score,
        CASE WHEN status = 'scored' THEN CAST(({condition}) AS BOOLEAN) END AS is_private, {values}
    FROM incoming"""
    num_rows = 0
    for table in run.chunks(columns, ROWS_AT_ONCE):
        numbers = pa.array(range(num_rows, num_rows + table.num_rows), pa.int64())
        database.register("incoming", table.append_column("n", numbers))
        target = f"INSERT INTO {side}" if num_rows else f"CREATE TABLE {side} AS"
        database.execute(f"{target} SELECT *, hash({_ANSWERS}) AS answers FROM ({rows})")
        database.unregister("incoming")
        num_rows += table.num_rows
    return MEANINGS[private]


SIDES: tuple[SideName, SideName] = ("a", "b")


@dataclass(frozen=True)
class Pairs:
    """What was matched."""

    num: int
    num_by_name: int
    of_sides: dict[SideName, dict[str, int]]
    """Counts of each run, by the field of `Side`."""


def match(database: duckdb.DuckDBPyConnection) -> Pairs:
    """Match the rows of the tables `a` and `b`: make the table `compared`, one row per picture of both runs.

    Its columns are those of `a` and `b` with this prefix.
    """
    for side in SIDES:
        database.execute(f"""CREATE TABLE pictures_{side} AS
            SELECT sha256, count(*) AS num, coalesce(min(n) FILTER (NOT is_quarantined), min(n)) AS n,
                min(answers) <> max(answers) AS differs
            FROM {side} WHERE sha256 IS NOT NULL GROUP BY sha256""")
    database.execute("""CREATE TABLE pairs AS
        SELECT pictures_a.n AS n_a, pictures_b.n AS n_b FROM pictures_a JOIN pictures_b USING (sha256)""")
    num_by_hash = single_number(database, "SELECT count(*) FROM pairs")
    for side in SIDES:
        database.execute(f"""CREATE TABLE left_{side} AS
            SELECT n, shard, "key", sha256 IS NOT NULL AS has_hash FROM {side}
            WHERE sha256 IS NULL OR n IN (SELECT n FROM pictures_{side} ANTI JOIN pairs ON n = n_{side})""")
    num_left = {side: single_number(database, f"SELECT count(*) FROM left_{side}") for side in SIDES}
    num_by_name = _match_names(database)
    of_sides = dict[SideName, dict[str, int]]()
    for side, other in (SIDES, SIDES[::-1]):
        num_rows = single_number(database, f"SELECT count(*) FROM {side}")
        num_copies = single_number(database, f"SELECT coalesce(sum(num - 1), 0) FROM pictures_{side}")
        # Each number is counted on its own, none as the rest, so that a row in two pairs is noticed.
        assert num_rows == num_by_hash + num_copies + num_left[side], "the rows of a run do not add up"
        num_alone = single_number(database, f"SELECT count(*) FROM left_{side}")
        assert num_alone + num_by_name == num_left[side], "rows do not add up"
        ambiguous = f'FROM left_{side} WHERE NOT has_hash AND "key" IN (SELECT "key" FROM left_{other})'
        num_ambiguous = single_number(database, f"SELECT count(*) {ambiguous}")
        of_sides[side] = {
            "num_rows": num_rows,
            "num_copies": num_copies,
            "num_differing_copies": single_number(database, f"SELECT count(*) FROM pictures_{side} WHERE differs"),
            "num_ambiguous": num_ambiguous,
            "num_only_here": num_alone - num_ambiguous,
        }
    database.execute(f"""CREATE TABLE compared AS SELECT {", ".join(_columns())}
        FROM pairs JOIN a ON a.n = n_a JOIN b ON b.n = n_b""")
    return Pairs(num_by_hash + num_by_name, num_by_name, of_sides)


def _match_names(database: duckdb.DuckDBPyConnection) -> int:
    """Add pairs of rows by name, of which at least one has no hash; take them out of `left_…` and count them."""
    database.execute("""CREATE TABLE wanted AS
        SELECT "key" FROM left_a WHERE NOT has_hash UNION SELECT "key" FROM left_b WHERE NOT has_hash""")
    num = 0
    for name in NAME_SQL:
        named = f"""SELECT {name} AS name, min(n) AS n, bool_or(has_hash) AS has_hash FROM left_{{}}
            WHERE "key" IN (FROM wanted) GROUP BY ALL HAVING count(*) = 1"""
        database.execute(f"""CREATE TABLE named_pairs AS
            WITH named_a AS ({named.format("a")}), named_b AS ({named.format("b")})
            SELECT named_a.n AS n_a, named_b.n AS n_b FROM named_a JOIN named_b USING (name)
            WHERE NOT (named_a.has_hash AND named_b.has_hash)""")
        num += single_number(database, "SELECT count(*) FROM named_pairs")
        for side in SIDES:
            database.execute(f"DELETE FROM left_{side} WHERE n IN (SELECT n_{side} FROM named_pairs)")
        database.execute("INSERT INTO pairs FROM named_pairs")
        database.execute("DROP TABLE named_pairs")
    return num


def _columns() -> Iterator[str]:
    yield from ("a.n AS a_n", 'a."key" AS "key"', "a.shard AS shard", 'a."index" AS "index"')
    yield "a.sha256 AS sha256"
    for side in SIDES:
        flags = ("is_quarantined", "is_screened", "is_private")
        for column in (Col.CATEGORY, *flags, Col.LEVEL, Col.SCORE, Col.HOLISTIC_SCORE, *KEYS):
            yield f"{side}.{column} AS {side}_{column}"


def single_number(database: duckdb.DuckDBPyConnection, question: str) -> int:
    """Return the one whole number that a statement asks for."""
    (answer,) = database.execute(question).fetchall()
    return int(answer[0])
