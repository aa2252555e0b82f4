"""The rows of score files as SQL, whatever version wrote them: columns that were added later are null in older rows."""

from collections.abc import Mapping

from ingest.errors import RunError
from scoring.sql.columns import sql_type
from scoring.table import LATER, SCHEMA


def score_rows(files: str, num_files: int, num_with: Mapping[str, int], where: str) -> str:
    """A SELECT of all columns over `files`, which `read_parquet` takes; of no row where `num_files` is 0.

    num_with: how many of the files have each column. where: the run, for errors.
    RunError where a file lacks a column that every version has.
    """
    for name in SCHEMA.names:
        missing = num_files - num_with.get(name, 0)
        if missing and name not in LATER:
            raise RunError(
                f'{missing} of the score files in {where} have no column "{name}", so they are damaged; '
                "scan the source into a new run"
            )
    columns = [
        f'"{field.name}"' if num_with.get(field.name) else f'NULL::{sql_type(field.type)} AS "{field.name}"'
        for field in SCHEMA
    ]
    listed = ",\n    ".join(columns)
    if not num_files:
        return f"SELECT\n    {listed}\nWHERE false"
    # Reading the columns by name opens every file at once, so only where it must be.
    by_name = ", union_by_name = true" if any(num_with.get(name, 0) < num_files for name in LATER) else ""
    # Folders named `a=b` above the run are no columns of its rows.
    return f"SELECT\n    {listed}\nFROM read_parquet({files}, hive_partitioning = false{by_name})"
