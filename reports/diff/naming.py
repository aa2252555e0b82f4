"""Which groups may be named: with `--by key` the name of a group is that of a picture."""

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from reports.report.opened import MayName, OpenRun, all_named

FASTER = 8
"""Factor by which each further turn asks for more pictures of each group."""


def named_groups(
    database: duckdb.DuckDBPyConnection, run: OpenRun, may_name: MayName, named_before: frozenset[str]
) -> frozenset[str]:
    """Groups of the table `compared` with a picture that may be named, and those that had one in earlier parts. run:
    the first.

    One picture that may be named is enough, so of few groups more than one picture is compared.
    """
    groups = pa.table({"name": database.sql("SELECT DISTINCT a_category FROM compared").to_arrow_table()[0]})
    every = frozenset(groups["name"].to_pylist())
    if may_name is all_named:
        return named_before | every
    database.execute(
        'CREATE TEMP TABLE of_groups AS SELECT a_category, shard, "index", sha256, "key", '
        "row_number() OVER (PARTITION BY a_category ORDER BY a_n) AS turn FROM compared"
    )
    unnamed = groups.filter(pc.invert(pc.is_in(groups["name"], pa.array(sorted(named_before), pa.string()))))
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
    return named_before | (every - frozenset(unnamed["name"].to_pylist()))
