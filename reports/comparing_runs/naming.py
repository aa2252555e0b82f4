"""Which groups may be named: with `--by key` the name of a group is that of a picture."""

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from reports.opened import MayName, OpenRun, all_named

FASTER = 8
"""So many times more pictures of each group are asked for in every further turn."""


def unnamed_groups(database: duckdb.DuckDBPyConnection, run: OpenRun, may_name: MayName) -> frozenset[str]:
    """Groups that hold only pictures that may not be named. run: the first.

    One picture that may be named is enough, so of few groups more than one picture is looked at.
    """
    if may_name is all_named:
        return frozenset()
    database.execute(
        'CREATE TEMP TABLE of_groups AS SELECT a_category, shard, "index", sha256, a."key" AS "key", '
        "row_number() OVER (PARTITION BY a_category ORDER BY a.n) AS turn FROM compared JOIN a ON a.n = a_n"
    )
    unnamed = pa.table({"name": database.sql("SELECT DISTINCT a_category FROM compared").to_arrow_table()[0]})
    first, num = 1, 1
    while unnamed.num_rows:
        database.register("unnamed", unnamed)
        rows = database.sql(
            f"SELECT * FROM of_groups WHERE turn BETWEEN {first} AND {first + num - 1} "
            "AND a_category IN (SELECT name FROM unnamed)"
        ).to_arrow_table()
        database.unregister("unnamed")
        if not rows.num_rows:
            break
        named = rows.filter(pa.array(may_name(run, rows), pa.bool_()))["a_category"]
        unnamed = unnamed.filter(pc.invert(pc.is_in(unnamed["name"], named.combine_chunks())))
        first, num = first + num, num * FASTER
    database.execute("DROP TABLE of_groups")
    return frozenset(unnamed["name"].to_pylist())
