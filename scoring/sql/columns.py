"""The columns of an Arrow schema in DuckDB's SQL.

Handing DuckDB an empty Arrow table instead would import pandas first, which takes longer than most questions.
"""

import duckdb
import pyarrow as pa

from scoring.sql.names import identifier

_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
}


def make_empty(connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema) -> None:
    """Make an empty table in a connection, replacing any table of this name."""
    types = [sql_type(field.type) for field in schema]
    is_plain = None not in types and len({field.name.lower() for field in schema}) == len(types)
    if is_plain:
        columns = ", ".join(f"{identifier(field.name)} {kind}" for field, kind in zip(schema, types, strict=True))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {identifier(name)} ({columns})")
    else:  # from another program: names that differ only in case, or types that no file of ours has
        connection.register(name, schema.empty_table())


def sql_type(kind: pa.DataType) -> str | None:
    """Return DuckDB's type, or None for a type that no file of this project has."""
    if pa.types.is_list(kind):
        inner = sql_type(kind.value_type)
        return None if inner is None else f"{inner}[]"
    if pa.types.is_struct(kind):
        fields = [(identifier(field.name), sql_type(field.type)) for field in kind]
        known = [f"{name} {inner}" for name, inner in fields if inner is not None]
        return f"STRUCT({', '.join(known)})" if len(known) == len(fields) else None
    return _TYPES.get(kind)
