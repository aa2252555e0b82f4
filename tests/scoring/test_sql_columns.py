"""Empty tables in SQL: with the types that DuckDB itself gives an Arrow table."""

import duckdb
import pyarrow as pa

from scoring.runs.audit_files import CORRECTED_SCHEMA
from scoring.sql.names import make_empty
from scoring.table import IMAGE_SCHEMA


def _described(connection: duckdb.DuckDBPyConnection, name: str) -> list[tuple[str, str]]:
    return [row[:2] for row in connection.execute(f"DESCRIBE {name}").fetchall()]


def test_a_table_of_the_rows_has_the_types_that_duckdb_itself_would_choose() -> None:
    for schema in (IMAGE_SCHEMA, CORRECTED_SCHEMA):
        with duckdb.connect() as connection:
            make_empty(connection, "written", schema)
            connection.register("given", schema.empty_table())
            assert _described(connection, "written") == _described(connection, "given")


def test_tables_of_other_programs_are_taken_as_duckdb_reads_them() -> None:
    """Names that differ in case alone, text with long offsets, times."""
    odd = pa.schema([("URL", pa.large_string()), ("url", pa.string()), ("when", pa.timestamp("us"))])
    with duckdb.connect() as connection:
        make_empty(connection, "metadata", odd)
        described = _described(connection, "metadata")
    assert described == [("URL", "VARCHAR"), ("url_1", "VARCHAR"), ("when", "TIMESTAMP")]
