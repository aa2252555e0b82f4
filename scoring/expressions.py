"""SQL expressions that people write (in policies, `--by`, `--private`): checked so that they reach only the row.

DuckDB's own parser turns the text into a tree; every node of it must be on an allow-list. There is no way to a
table, a file, a setting or the environment, and what is used afterwards is the tree written out again, so that
comments and brackets in the text cannot change the statement around it.
Source: DuckDB documentation, "SQL to/from JSON" (json_serialize_sql, json_deserialize_sql).
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from ingest.errors import QueryError, near
from ingest.sample import printable
from scoring.duckdb_errors import first_line, without_advice

FUNCTIONS = frozenset(
    """abs round floor ceil greatest least coalesce lower upper length len trim ltrim rtrim left right substring
    split_part replace concat contains starts_with ends_with prefix suffix regexp_matches regexp_extract
    list_contains list_has list_has_any list_has_all list_filter list_transform list_distinct list_sum list_max
    list_min list_extract array_extract array_length struct_extract list_value isnan ifnull nullif""".split()  # noqa: SIM905
)
"""Functions that an expression may call: pure, and none that builds large values."""

_PLAIN_NODES = frozenset(["CONSTANT", "COMPARISON", "CONJUNCTION", "OPERATOR", "BETWEEN", "CASE", "CAST", "TYPE"])
_HEAD = "SELECT (\n"

MAX_SHOWN = 200
"""So many characters of what was written are told in an error."""


def boolean_expression(text: str, schema: pa.Schema) -> str:
    """The checked SQL of a condition over a row of `schema`. QueryError with the position and what is wrong."""
    sql, kind = _checked(text, schema)
    if kind != "BOOLEAN":
        raise QueryError(f"the condition gives {kind}, not true or false: {shown(text)}")
    return sql


def value_expression(text: str, schema: pa.Schema) -> str:
    """The checked SQL of any value over a row of `schema`, to group by for instance."""
    return _checked(text, schema)[0]


def columns_of(text: str, schema: pa.Schema) -> frozenset[str]:
    """The columns of `schema` that a checked expression looks at."""
    names = frozenset(schema.names)
    with duckdb.connect() as connection, bounded_nesting(text):
        nodes = _nodes(_parse(connection, text)["statements"][0]["node"]["select_list"][0], names)
        used = {str(node["column_names"][0]).lower() for node, _ in nodes if node["class"] == "COLUMN_REF"}
    return frozenset(name for name in names if name.lower() in used)


def check_characters(text: str) -> None:
    """QueryError where the text holds what SQL cannot: bytes that are no UTF-8 (lone surrogates here), or NUL."""
    found = re.search("[\0\ud800-\udfff]", text)
    if found:
        raise QueryError(f"character {found.start() + 1} is no valid UTF-8 text: {shown(text)}")


@contextmanager
def bounded_nesting(text: str) -> Iterator[None]:
    """QueryError where the tree of the text is too deep to be looked through."""
    try:
        yield
    except RecursionError:
        raise QueryError(f"this is nested too deeply; write it in several parts: {shown(text)}") from None


def shown(text: str) -> str:
    """What somebody wrote, on one line, and cut where it is long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}… ({len(text):,} characters)"


def _checked(text: str, schema: pa.Schema) -> tuple[str, str]:
    check_characters(text)
    with duckdb.connect() as connection:
        connection.execute("SET enable_external_access = false")
        with bounded_nesting(text):
            tree = _parse(connection, text)
            _check_nodes(tree, frozenset(schema.names), text)
            sql = _written_out(connection, tree)
        connection.register("row_schema", schema.empty_table())
        try:
            described = connection.execute(f"DESCRIBE SELECT {sql} AS value FROM row_schema").fetchall()
            connection.execute(f"SELECT {sql} FROM row_schema")  # constants of the wrong type show only here
        except duckdb.Error as error:
            raise QueryError(f"{shown(first_line(error))}: {shown(text)}") from None
    return sql, str(described[0][1])


def _parse(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    parsed = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [f"{_HEAD}{text}\n)"]).fetchall()[0][0]
    answer: dict[str, Any] = json.loads(parsed)
    if answer["error"]:
        place = int(answer.get("position", 0)) - len(_HEAD) + 1
        at = f" at character {place}" if 0 < place <= len(text) else ""
        raise QueryError(f"{shown(without_advice(answer['error_message']))}{at}: {shown(text)}")
    node = answer["statements"][0]["node"]
    simple = node["type"] == "SELECT_NODE" and node["from_table"]["type"] == "EMPTY" and not node["modifiers"]
    extra = any(node.get(part) for part in ("where_clause", "group_expressions", "having", "qualify", "sample"))
    if len(answer["statements"]) != 1 or not simple or extra or len(node["select_list"]) != 1:
        raise QueryError(f"one expression over the row is wanted, not a statement: {shown(text)}")
    return answer


def _check_nodes(tree: dict[str, Any], columns: frozenset[str], text: str) -> None:
    for node, names in _nodes(tree["statements"][0]["node"]["select_list"][0], columns):
        kind = node["class"]
        if kind == "COLUMN_REF":
            name = node["column_names"][0]
            if name.lower() not in {known.lower() for known in names}:
                raise QueryError(f'no column "{shown(name)}"{near(name, names)}{_position(node)}: {shown(text)}')
        elif kind == "FUNCTION":
            name = node["function_name"]
            plain = not (node["filter"] or node["distinct"] or node["order_bys"]["orders"])
            if not plain or not (node["is_operator"] or name.lower() in FUNCTIONS):
                what = f'the function "{shown(name)}" is not allowed{near(name, FUNCTIONS)}'
                raise QueryError(f"{what}{_position(node)}: {shown(text)}")
        elif kind not in _PLAIN_NODES and kind != "LAMBDA":
            what = f"{kind.lower()} is not allowed in an expression over the row"
            raise QueryError(f"{what}{_position(node)}: {shown(text)}")


def _nodes(node: Any, names: frozenset[str]) -> Iterator[tuple[Mapping[str, Any], frozenset[str]]]:
    """Every expression node with the names that it may use: the columns, and a lambda's own parameters."""
    if isinstance(node, list):
        for child in node:
            yield from _nodes(child, names)
        return
    if not isinstance(node, dict):
        return
    if "class" in node:
        yield node, names
    if node.get("class") == "LAMBDA":
        names |= frozenset(_parameters(node["lhs"]))
    for child in node.values():
        yield from _nodes(child, names)


def _parameters(node: Any) -> list[str]:
    if isinstance(node, dict) and node.get("class") == "COLUMN_REF":
        return [str(node["column_names"][0])]
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [name for child in children for name in _parameters(child)]


def _written_out(connection: duckdb.DuckDBPyConnection, tree: dict[str, Any]) -> str:
    sql: str = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchall()[0][0]
    return f"({sql.removeprefix('SELECT ')})"


def _position(node: Mapping[str, Any]) -> str:
    place = int(node.get("query_location", 0)) - len(_HEAD) + 1
    return f" at character {place}" if 0 < place < 10**6 else ""
