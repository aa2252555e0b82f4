"""The rows of score files as SQL, whatever version wrote them: columns that were added later are null in older rows."""

import duckdb

from ingest.errors import RunError
from scoring.sql.errors import first_line
from scoring.table import LATER, SCHEMA


def score_rows(connection: duckdb.DuckDBPyConnection, files: str, where: str) -> str:
    """A SELECT of all columns over `files`, which `read_parquet` takes; without any file it is of no row.

    where: named in errors. RunError where a file cannot be read, or lacks a column that every version has.
    """
    num_files, num_with = _num_files_by_column(connection, files, where) if files else (0, {})
    for name in SCHEMA.names:
        if num_files > num_with.get(name, 0) and name not in LATER:
            missing = num_files - num_with.get(name, 0)
            raise RunError(
                f'{missing} of the score files in {where} have no column "{name}", so they are damaged; '
                "scan the source into a new run"
            )
    with duckdb.connect() as typed:
        typed.register("no_rows", SCHEMA.empty_table())
        types = {str(name): str(kind) for name, kind, *_ in typed.execute("DESCRIBE no_rows").fetchall()}
    columns = [f'"{name}"' if num_with.get(name) else f'NULL::{kind} AS "{name}"' for name, kind in types.items()]
    listed = ",\n    ".join(columns)
    if not files:
        return f"SELECT\n    {listed}\nWHERE false"
    # Reading the columns by name opens every file at once, so only where it must be.
    by_name = ", union_by_name = true" if any(num_with.get(name, 0) < num_files for name in LATER) else ""
    # Folders named `a=b` above the run are no columns of its rows.
    return f"SELECT\n    {listed}\nFROM read_parquet({files}, hive_partitioning = false{by_name})"


def _num_files_by_column(connection: duckdb.DuckDBPyConnection, files: str, where: str) -> tuple[int, dict[str, int]]:
    asked = f"SELECT name, count(DISTINCT file_name) FROM parquet_schema({files}) GROUP BY ROLLUP (name)"
    try:
        found = connection.execute(asked).fetchall()
    except duckdb.Error as error:
        raise RunError(f"the score files in {where} cannot be read: {first_line(error)}") from None
    num_with = {name: int(count) for name, count in found}
    return num_with.pop(None, 0), num_with
