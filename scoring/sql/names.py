"""Names, texts, files and types of columns in DuckDB's SQL."""

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from ingest.storage.place import Place

if TYPE_CHECKING:
    import duckdb


def literal(text: str) -> str:
    """Return a text as a SQL string; other characters become chr(…), since terminals may show the statement."""
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    runs = (("".join(run), is_printable) for is_printable, run in groupby(text, str.isprintable))
    parts = (literal(run) if is_printable else " || ".join(f"chr({ord(c)})" for c in run) for run, is_printable in runs)
    return f"({' || '.join(parts)})"


def identifier(name: str) -> str:
    """Quote the name of a column, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


def location(place: Place) -> str:
    """Return the path, or the URL that DuckDB reaches by the place's registered filesystem."""
    return place.path if place.is_local else str(place.fs.unstrip_protocol(place.path))


def without_wildcards(path: str) -> str:
    """Return a glob pattern that matches only this path."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def file_list(files: Iterable[Place]) -> str:
    """Return a SQL list of files for `read_parquet` and the like, which take every name for a pattern."""
    return "[" + ", ".join(literal(without_wildcards(location(file))) for file in files) + "]"


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


def make_empty(connection: "duckdb.DuckDBPyConnection", name: str, schema: pa.Schema) -> None:
    """Make an empty table in a connection, replacing any table of this name.

    Handing DuckDB an empty Arrow table instead would import pandas first, which takes longer than most questions.
    """
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
