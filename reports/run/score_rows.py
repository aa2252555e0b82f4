"""The rows of score files as SQL, whatever version wrote them: columns that were added later are null in older rows."""

from collections.abc import Mapping

from ingest.errors import RunError
from scoring.sql.columns import sql_type
from scoring.sql.names import identifier
from scoring.table import COLUMN_OF, COLUMNS


def score_rows(files: str, num_files: int, num_with: Mapping[str, int], where: str) -> str:
    """A SELECT of all columns over `files`, which `read_parquet` takes; of no row where `num_files` is 0.

    num_with: how many of the files have each column. where: the run, for errors.
    RunError where a file lacks a column that every version has.
    """
    columns = []
    for column in COLUMNS:
        stored = [name for name in (column.name, column.formerly) if name and num_with.get(name)]
        missing = num_files - sum(num_with[name] for name in stored)
        if missing and not column.is_later:
            raise RunError(
                f'{missing} of the score files in {where} have no column "{column.name}", so they are damaged; '
                "scan the source into a new run"
            )
        value = f"coalesce({', '.join(map(identifier, stored))})" if stored else f"NULL::{sql_type(column.type)}"
        columns.append(f"{value} AS {identifier(column.name)}" if stored != [column.name] else identifier(column.name))
    listed = ",\n    ".join(columns)
    if not num_files:
        return f"SELECT\n    {listed}\nWHERE false"
    # Reading the columns by name opens every file at once, so only where it must be.
    by_name = ", union_by_name = true" if any(num_with.get(name, 0) < num_files for name in COLUMN_OF) else ""
    # Folders named `a=b` above the run are no columns of its rows.
    return f"SELECT\n    {listed}\nFROM read_parquet({files}, hive_partitioning = false{by_name})"
