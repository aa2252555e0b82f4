"""Loads the rows of two runs into one database, and finds the rows that are the same picture.

Pictures are the same if their bytes are (sha256). Of several copies in a run, the first scored one is compared. A row
without a hash (its bytes could not be read) is matched by name: with the row of the same `shard/key`, else of the same
key. That row must not be matched by its hash, and no other row on either side may have this name.

Labels are joined in another way (`scoring.labels.picture_index`). Here both sides are whole runs, which do not fit into
memory as dicts, so DuckDB joins them. Neither side is written by people, so nothing is refused.

Rows come in parts, with all copies of a picture in the same one. Rows that may still be matched by name are kept until
the last part is loaded.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
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

_NEEDED = (
    *(Col.SHARD, Col.INDEX, Col.KEY, Col.SHA256, Col.PHASH, Col.STATUS, Col.LEVEL, Col.SCORE, Col.HOLISTIC_SCORE),
    *KEYS,
)
_ANSWERS = ", ".join(("is_quarantined", "is_screened", Col.LEVEL, "is_private", *KEYS))
"""Columns by which copies of a picture agree or not."""

NAME_SQL = ("shard || '/' || \"key\"", '"key"')
"""SQL of the names by which rows without a hash are matched, in this order."""


@dataclass(frozen=True)
class HashPart:
    """The rows whose picture falls into this part, by the hash of its bytes; rows without a hash are in part 0."""

    number: int
    num_parts: int

    @property
    def condition(self) -> str:
        """Return the SQL condition for a row of this part."""
        of_hash = f"hash(sha256) % {self.num_parts} = {self.number}"
        return f"({of_hash} OR sha256 IS NULL)" if self.number == 0 else f"{of_hash} AND sha256 IS NOT NULL"


def load(database: duckdb.DuckDBPyConnection, side: SideName, run: OpenRun, by: str, part: HashPart) -> str:
    """Load a part of a run into a table, and return in words what decides whether a picture is private.

    Columns: n (number of the row, from 0), shard, index, key, sha256, phash, category (the group), is_quarantined,
    is_screened, level, score, holistic_score, is_private (null if unknown) and the attributes: 0, 1 or 2 for absent,
    ambiguous and present.
    QueryError if `by` is not an expression over the row; RunError, StorageError of the run.
    """
    group = value_expression(by, SCHEMA)
    private = private_condition(run.record.engine)
    condition = private_sql(private, run.record.engine)
    columns = list(dict.fromkeys([*_NEEDED, *sorted(columns_of(private, SCHEMA) | columns_of(by, SCHEMA))]))
    values = ", ".join(f"CAST({key} * 2 AS TINYINT) AS {key}" for key in KEYS)
    rows = f"""SELECT n, shard, "index", "key", sha256, phash,
        coalesce(CAST({group} AS VARCHAR), '{NO_GROUP}') AS category,
        status = 'quarantined' AS is_quarantined, status = 'screened' AS is_screened, level, score, holistic_score,
        CASE WHEN status = 'scored' THEN CAST(({condition}) AS BOOLEAN) END AS is_private, {values}
    FROM incoming WHERE {part.condition}"""
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


@dataclass
class Pairs:
    """What was matched so far: counts of each run, by the field of `Side`, and of pairs."""

    of_sides: dict[SideName, Counter[str]] = field(default_factory=lambda: {side: Counter() for side in SIDES})
    num: int = 0
    num_by_name: int = 0


def match_hashes(database: duckdb.DuckDBPyConnection, pairs: Pairs) -> None:
    """Match the part in the tables `a` and `b` by hash: make the table `compared`, one row per picture of both runs.

    Its columns are those of `a` and `b` with this prefix. Rows for `match_names` are added to `kept_a` and `kept_b`.
    The first part must hold all rows without a hash.
    """
    for side in SIDES:
        database.execute(f"""CREATE TABLE pictures_{side} AS
            SELECT sha256, count(*) AS num, coalesce(min(n) FILTER (NOT is_quarantined), min(n)) AS n,
                min(answers) <> max(answers) AS differs
            FROM {side} WHERE sha256 IS NOT NULL GROUP BY sha256""")
        database.execute(f"CREATE TABLE IF NOT EXISTS kept_{side} AS FROM {side} LIMIT 0")
    database.execute("""CREATE TABLE IF NOT EXISTS wanted AS
        SELECT "key" FROM a WHERE sha256 IS NULL UNION SELECT "key" FROM b WHERE sha256 IS NULL""")
    database.execute("""CREATE TABLE pairs AS
        SELECT pictures_a.n AS n_a, pictures_b.n AS n_b FROM pictures_a JOIN pictures_b USING (sha256)""")
    num_pairs = single_number(database, "SELECT count(*) FROM pairs")
    for side in SIDES:
        database.execute(f"""CREATE TABLE alone AS
            SELECT picture.n, "key" IN (FROM wanted) AS is_kept
            FROM (SELECT n FROM pictures_{side} AS picture ANTI JOIN pairs ON picture.n = n_{side}) AS picture
            JOIN {side} USING (n)""")
        num_before = single_number(database, f"SELECT count(*) FROM kept_{side}")
        database.execute(f"""INSERT INTO kept_{side} FROM {side}
            WHERE sha256 IS NULL OR n IN (SELECT n FROM alone WHERE is_kept)""")
        num_kept = single_number(database, f"SELECT count(*) FROM kept_{side}") - num_before
        num_rows = single_number(database, f"SELECT count(*) FROM {side}")
        num_copies = single_number(database, f"SELECT coalesce(sum(num - 1), 0) FROM pictures_{side}")
        num_alone = single_number(database, "SELECT count(*) FROM alone WHERE NOT is_kept")
        # Each number is counted on its own, none as the rest, so that a row in two pairs is noticed.
        assert num_rows == num_pairs + num_copies + num_alone + num_kept, "the rows of a run do not add up"
        num_differing = single_number(database, f"SELECT count(*) FROM pictures_{side} WHERE differs")
        pairs.of_sides[side].update(
            num_rows=num_rows, num_copies=num_copies, num_differing_copies=num_differing, num_only_here=num_alone
        )
        database.execute("DROP TABLE alone")
    pairs.num += num_pairs
    _compare(database, "a", "b")
    for side in SIDES:
        database.execute(f"DROP TABLE pictures_{side}")


def match_names(database: duckdb.DuckDBPyConnection, pairs: Pairs) -> None:
    """Match the kept rows by name, once all parts are loaded, and make the table `compared` of them."""
    for side in SIDES:
        database.execute(f"""CREATE TABLE left_{side} AS
            SELECT n, shard, "key", sha256 IS NOT NULL AS has_hash FROM kept_{side}""")
    database.execute("CREATE TABLE pairs (n_a BIGINT, n_b BIGINT)")
    for name in NAME_SQL:
        named = f"""SELECT {name} AS name, min(n) AS n, bool_or(has_hash) AS has_hash FROM left_{{}}
            GROUP BY ALL HAVING count(*) = 1"""
        database.execute(f"""INSERT INTO pairs
            WITH named_a AS ({named.format("a")}), named_b AS ({named.format("b")})
            SELECT named_a.n, named_b.n FROM named_a JOIN named_b USING (name)
            WHERE NOT (named_a.has_hash AND named_b.has_hash)""")
        for side in SIDES:
            database.execute(f"DELETE FROM left_{side} WHERE n IN (SELECT n_{side} FROM pairs)")
    num_pairs = single_number(database, "SELECT count(*) FROM pairs")
    for side, other in (SIDES, SIDES[::-1]):
        ambiguous = f'FROM left_{side} WHERE NOT has_hash AND "key" IN (SELECT "key" FROM left_{other})'
        num_ambiguous = single_number(database, f"SELECT count(*) {ambiguous}")
        num_left = single_number(database, f"SELECT count(*) FROM left_{side}")
        assert num_left + num_pairs == single_number(database, f"SELECT count(*) FROM kept_{side}"), (
            "rows do not add up"
        )
        pairs.of_sides[side].update(num_ambiguous=num_ambiguous, num_only_here=num_left - num_ambiguous)
    pairs.num += num_pairs
    pairs.num_by_name = num_pairs
    _compare(database, "kept_a", "kept_b")


def _compare(database: duckdb.DuckDBPyConnection, of_a: str, of_b: str) -> None:
    """Make the table `compared` from the table `pairs`, which is dropped. of_a, of_b: tables that hold the rows."""
    database.execute(f"""CREATE TABLE compared AS SELECT {", ".join(_columns())}
        FROM pairs JOIN {of_a} AS a ON a.n = n_a JOIN {of_b} AS b ON b.n = n_b""")
    database.execute("DROP TABLE pairs")


def _columns() -> Iterator[str]:
    yield from ("a.n AS a_n", 'a."key" AS "key"', "a.phash AS phash", "a.shard AS shard", 'a."index" AS "index"')
    yield "a.sha256 AS sha256"
    for side in SIDES:
        flags = ("is_quarantined", "is_screened", "is_private")
        for column in (Col.CATEGORY, *flags, Col.LEVEL, Col.SCORE, Col.HOLISTIC_SCORE, *KEYS):
            yield f"{side}.{column} AS {side}_{column}"


def add_rows(database: duckdb.DuckDBPyConnection, table: str, rows: str) -> None:
    """Add rows to a table, which is made if it does not exist. rows: a SELECT."""
    database.execute(f"CREATE TABLE IF NOT EXISTS {table} AS SELECT * FROM ({rows}) LIMIT 0")
    database.execute(f"INSERT INTO {table} {rows}")


def single_number(database: duckdb.DuckDBPyConnection, question: str) -> int:
    """Return the one whole number that a statement asks for."""
    (answer,) = database.execute(question).fetchall()
    return int(answer[0])
