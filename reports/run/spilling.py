"""A DuckDB database for passes over all rows of a run: what does not fit into its share of the memory goes to disk."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from ingest.errors import StorageError
from ingest.machine import available_bytes
from scoring.sql.expressions import first_line

MEMORY_SHARE = 0.5
"""Share of the free memory that such a database may take."""


@contextmanager
def spilling_database(what: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database that spills to a temporary folder, which is removed afterwards.

    what: the work, for the StorageError of a full disk.
    """
    with tempfile.TemporaryDirectory(prefix="privsieve-") as folder:
        database = duckdb.connect()
        try:
            database.execute(f"SET memory_limit = '{int(MEMORY_SHARE * available_bytes())}B'")
            database.execute("SET temp_directory = ?", [folder])
            database.execute("SET preserve_insertion_order = false; SET python_enable_replacements = false")
            yield database
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise StorageError(
                f"{what} needs more room in {tempfile.gettempdir()} (set TMPDIR to a larger disk): {first_line(error)}"
            ) from None
        finally:
            database.close()
