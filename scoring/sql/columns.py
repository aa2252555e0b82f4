"""The columns of an Arrow schema in DuckDB's SQL.

Handing DuckDB an empty Arrow table instead would import pandas first, which takes longer than most questions.
"""

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


def sql_type(kind: pa.DataType) -> str:
    """KeyError for a type that no schema of this project has."""
    if pa.types.is_list(kind):
        return f"{sql_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{identifier(field.name)} {sql_type(field.type)}' for field in kind)})"
    return _TYPES[kind]


def columns_sql(schema: pa.Schema) -> str:
    """As they stand between the brackets of CREATE TABLE."""
    return ", ".join(f"{identifier(field.name)} {sql_type(field.type)}" for field in schema)
