"""What a statement may be that somebody asks a run, and what an error in it says.

DuckDB's own parse tree is judged, since the text of a statement says little: a SELECT can hold a COPY, and a function
can run SQL that it is given as text. Every node, table and function must be on an allow-list. Should something pass
that writes nevertheless, there is no file system to write to (`reports.run.run_files`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NoReturn

import duckdb

from ingest.errors import QueryError, did_you_mean
from scoring.sql.errors import first_line, without_advice, without_values
from scoring.sql.expressions import bounded_nesting, check_characters, shown
from scoring.table import SCHEMA

VIEWS = (
    *("images", "scored", "quarantined", "damaged", "all_rows", "attributes", "answers", "patterns", "rates"),
    "corrected_rates",
)
MACROS = ("wilson_low", "wilson_high")

TABLE_FUNCTIONS = ("unnest", "range", "generate_series", "json_each")
_ALSO = frozenset(
    """random uuid gen_random_uuid now today current_date get_current_timestamp get_current_time
    transaction_timestamp error""".split()  # noqa: SIM905
)
"""Functions whose answer changes from call to call, and are harmless all the same."""

_NOT = frozenset(["json_serialize_plan", "get_block_size"])
"""Functions that DuckDB calls pure, although they plan SQL that is given as text or look at the database."""

_QUERIES = frozenset(["SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"])
_TABLES = frozenset(
    ["BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY", "JOIN", "EXPRESSION_LIST", "PIVOT", "SHOW_REF", "EMPTY"]
)
_ORDERS = frozenset(["ORDER_DEFAULT", "ASCENDING", "DESCENDING", "ORDER_MODIFIER", "DISTINCT_MODIFIER"])
_CUTS = frozenset(["LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"])
_PLAIN = _QUERIES | _TABLES | _ORDERS | _CUTS
_EXPRESSIONS = frozenset(
    """CONSTANT COLUMN_REF COMPARISON CONJUNCTION OPERATOR BETWEEN CASE CAST TYPE FUNCTION WINDOW STAR SUBQUERY LAMBDA
    COLLATE POSITIONAL_REFERENCE""".split()  # noqa: SIM905
)

_NO_TABLE = re.compile(r"Table with name (.+?) does not exist")
_NO_FUNCTION = re.compile(r'Function with name "?(.+?)"? does not exist(?:.*?Did you mean "(.+?)")?', re.DOTALL)
_NO_COLUMN = re.compile(r'(?:Referenced column|column named) "(.+?)"')


def check_reads_only(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """QueryError where it is anything but one SELECT over the views, with functions that only compute."""
    check_characters(statement)
    try:
        parsed = connection.extract_statements(statement)
    except duckdb.Error as error:
        refuse(error, statement)
    kinds = [kind.type.name for kind in parsed]
    if kinds != ["SELECT"]:
        what = "several statements" if len(kinds) > 1 else kinds[0] if kinds else "nothing"
        raise QueryError(f"one SELECT statement is wanted, not {what}: a run is read-only")
    answer = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()[0][0]
    with bounded_nesting(statement):
        tree = json.loads(answer)
        if tree["error"]:
            raise QueryError(f"one plain SELECT statement is wanted: {without_advice(tree['error_message'])}")
        nodes = list(_nodes(tree["statements"]))
    tables = _table_names(nodes)
    for node in nodes:
        refused = _refused(node, tables)
        if refused:
            raise QueryError(refused)


def _nodes(node: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, list):
        for child in node:
            yield from _nodes(child)
    elif isinstance(node, dict):
        yield node
        for child in node.values():
            yield from _nodes(child)


def _table_names(nodes: list[Mapping[str, Any]]) -> frozenset[str]:
    """Names that may stand after FROM: the views, and what WITH defines under a name that DuckDB has no table for."""
    defined = {entry["key"].lower() for node in nodes for entry in (node.get("cte_map") or {}).get("map", ())}
    return frozenset(VIEWS) | (defined - _own_tables())


def _refused(node: Mapping[str, Any], tables: frozenset[str]) -> str | None:
    """What is wrong with one node of a parse tree, None where nothing is."""
    kind = node.get("type")
    if "class" in node:
        if node["class"] not in _EXPRESSIONS:
            return f"{str(node['class']).lower()} is not allowed: a run is read-only"
        name = node.get("function_name")
        return None if name is None else _refused_function(str(name))
    if not isinstance(kind, str) or kind.endswith("_TYPE_INFO"):
        return None
    if kind not in _PLAIN:
        verb = kind.removesuffix("_NODE").removesuffix("_QUERY")
        return f"{verb} is not allowed inside a SELECT: a run is read-only"
    if kind == "BASE_TABLE":
        *schema, name = node["qualified_name"]["path"]
        return None if not schema and name.lower() in tables else _no_view(".".join([*schema, name]))
    if kind == "TABLE_FUNCTION":
        name = node["function"]["function_name"].lower()
        allowed = ", ".join(TABLE_FUNCTIONS)
        return None if name in TABLE_FUNCTIONS else f'"{shown(name)}" cannot stand after FROM; allowed are {allowed}'
    if kind == "SHOW_REF" and node["show_type"] not in ("DESCRIBE", "SUMMARY"):
        return f"SHOW is not allowed; there are: {', '.join(VIEWS)}"
    return None


def _refused_function(name: str) -> str | None:
    known = _functions()
    if known.get(name.lower(), name.lower() in TABLE_FUNCTIONS):
        return None
    if name.lower() in known:
        return f'the function "{shown(name)}" is not allowed: a statement computes from the views and does nothing else'
    return f'no function "{shown(name)}"{did_you_mean(name, known)}; DuckDB\'s documentation lists them'


@cache
def _functions() -> Mapping[str, bool]:
    """Every function of DuckDB that gives a value, and whether a statement may call it: what only computes.

    DuckDB knows which do: the same arguments always give the same answer. Macros are made of such functions. Names that
    begin with __ are for DuckDB itself.
    """
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT lower(function_name), bool_and(function_type = 'macro' OR stability = 'CONSISTENT') "
            "AND bool_and(schema_name = 'main' AND NOT starts_with(function_name, '__')) FROM duckdb_functions() "
            "WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro') GROUP BY ALL"
        ).fetchall()
    allowed = dict(rows) | dict.fromkeys(_ALSO | {*MACROS}, True) | dict.fromkeys(_NOT, False)
    return {name: bool(is_allowed) for name, is_allowed in allowed.items()}


@cache
def _own_tables() -> frozenset[str]:
    """Names of the tables and views that DuckDB itself has, such as duckdb_settings."""
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT view_name FROM duckdb_views() UNION SELECT table_name FROM duckdb_tables()")
        return frozenset(str(name).lower() for (name,) in rows.fetchall())


def _no_view(name: str) -> str:
    return f'no view "{shown(name)}"{did_you_mean(name, VIEWS)}; there are: {", ".join(VIEWS)}'


def refuse(error: duckdb.Error, statement: str) -> NoReturn:
    """QueryError in one line, with what is near a misspelt name."""
    message, whole = first_line(error), str(error)
    if isinstance(error, duckdb.CatalogException) and (match := _NO_TABLE.match(message)):
        message = _no_view(match[1].strip('"'))
    elif isinstance(error, duckdb.CatalogException) and (match := _NO_FUNCTION.search(whole)):
        meant = f' (did you mean "{match[2]}"?)' if match[2] else ""
        message = f'no function "{match[1]}"{meant}; DuckDB\'s documentation lists them'
    elif isinstance(error, duckdb.BinderException) and (match := _NO_COLUMN.search(message)):
        candidates = re.findall('"(.+?)"', whole.partition("Candidate bindings:")[2].partition("\n")[0])
        meant = did_you_mean(match[1], candidates or SCHEMA.names)  # of views with many columns DuckDB offers none
        message = (
            f'no column "{match[1]}"{meant}; "DESCRIBE images" shows the columns of images; the other views work alike'
        )
    else:
        message = without_values(error, statement)
    raise QueryError(message) from None
