"""Which row of one run is the same picture as which row of the other.

Pictures are the same if their bytes are (sha256). Of copies inside a run the first that was scored is compared.
A row without a hash (its bytes could not be read) is compared with the row of the same `shard/key`, else of the same
key, if that row was not joined by its hash and no other row on either side has this name.
"""

from dataclasses import dataclass

import duckdb

from reports.comparing_runs.loading import Name
from scoring.taxonomy import KEYS

NAMES = ("shard || '/' || \"key\"", '"key"')
"""By which rows without a hash are joined, in this order."""


@dataclass(frozen=True)
class Matched:
    """Counts of one run."""

    num_rows: int
    num_copies: int
    num_differing_copies: int
    num_ambiguous: int
    num_only_here: int


def match(database: duckdb.DuckDBPyConnection) -> tuple[int, int, Matched, Matched]:
    """Makes the table `compared`, one row per picture of both runs, from the tables `a` and `b`: its columns are those
    of `a` and `b` with this prefix. Returns pairs, pairs by name, and the counts of each run.
    """
    for name in ("a", "b"):
        database.execute(f"""CREATE TABLE pictures_{name} AS
            SELECT sha256, count(*) AS num, coalesce(min(n) FILTER (NOT is_quarantined), min(n)) AS n,
                min(answers) <> max(answers) AS differs
            FROM {name} WHERE sha256 IS NOT NULL GROUP BY sha256""")
    database.execute("""CREATE TABLE pairs AS
        SELECT pictures_a.n AS n_a, pictures_b.n AS n_b FROM pictures_a JOIN pictures_b USING (sha256)""")
    num_by_hash = _number(database, "SELECT count(*) FROM pairs")
    _left(database)
    for name in NAMES:
        database.execute(f"""INSERT INTO pairs
            WITH named_a AS (SELECT {name} AS name, min(n) AS n, bool_or(has_hash) AS has_hash FROM left_a
                GROUP BY ALL HAVING count(*) = 1),
            named_b AS (SELECT {name} AS name, min(n) AS n, bool_or(has_hash) AS has_hash FROM left_b
                GROUP BY ALL HAVING count(*) = 1)
            SELECT named_a.n, named_b.n FROM named_a JOIN named_b USING (name)
            WHERE NOT (named_a.has_hash AND named_b.has_hash)""")
        for side in ("a", "b"):
            database.execute(f"DELETE FROM left_{side} WHERE n IN (SELECT n_{side} FROM pairs)")
    num_pairs = _number(database, "SELECT count(*) FROM pairs")
    columns = ", ".join(
        f"{side}.{column} AS {side}_{column}"
        for side in ("a", "b")
        for column in ("category", "is_quarantined", "level", "score", "holistic_score", "is_private", *KEYS)
    )
    database.execute(f"""CREATE TABLE compared AS SELECT a.n AS a_n, a."key" AS "key", a.phash AS phash, {columns}
        FROM pairs JOIN a ON a.n = n_a JOIN b ON b.n = n_b""")
    return num_pairs, num_pairs - num_by_hash, _counts(database, "a", num_pairs), _counts(database, "b", num_pairs)


def _left(database: duckdb.DuckDBPyConnection) -> None:
    """Tables left_a and left_b: rows without a hash, and rows of their names whose hash the other run does not have."""
    wanted = 'SELECT "key" FROM a WHERE sha256 IS NULL UNION SELECT "key" FROM b WHERE sha256 IS NULL'
    database.execute(f"CREATE TABLE wanted AS {wanted}")
    for side in ("a", "b"):
        database.execute(f"""CREATE TABLE left_{side} AS
            WITH alone AS (SELECT n FROM pictures_{side} AS one ANTI JOIN pairs ON one.n = n_{side})
            SELECT n, shard, "key", sha256 IS NOT NULL AS has_hash FROM {side} SEMI JOIN wanted USING ("key")
            WHERE sha256 IS NULL OR n IN (FROM alone)""")


def _counts(database: duckdb.DuckDBPyConnection, side: Name, num_pairs: int) -> Matched:
    other = "b" if side == "a" else "a"
    num_rows = _number(database, f"SELECT count(*) FROM {side}")
    num_copies = _number(database, f"SELECT coalesce(sum(num - 1), 0) FROM pictures_{side}")
    num_differing = _number(database, f"SELECT count(*) FROM pictures_{side} WHERE differs")
    num_ambiguous = _number(
        database,
        f'SELECT count(*) FROM left_{side} WHERE NOT has_hash AND "key" IN (SELECT "key" FROM left_{other})',
    )
    num_without_pair = sum(
        _number(database, f"SELECT count(*) FROM {one} AS one ANTI JOIN pairs ON one.n = n_{side}")
        for one in (f"pictures_{side}", f"(FROM {side} WHERE sha256 IS NULL)")
    )
    # Counted one by one, not as what is left over: a row in two pairs would be noticed here.
    assert num_rows == num_pairs + num_copies + num_without_pair, "the rows of a run do not add up"
    return Matched(num_rows, num_copies, num_differing, num_ambiguous, num_without_pair - num_ambiguous)


def _number(database: duckdb.DuckDBPyConnection, question: str) -> int:
    (answer,) = database.execute(question).fetchall()
    return int(answer[0])
