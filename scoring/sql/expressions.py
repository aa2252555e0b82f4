"""SQL expressions that people write (in policies, `--by`, `--private`): checked so that they reach only the row.

DuckDB's own parser turns the text into a tree; every node of it must be on an allow-list. It cannot reach
a table, a file, a setting or the environment. Callers use the tree written out as text again, so that
comments and brackets in the original cannot change the statement around it. Its cost per row is bounded, too.
Source: DuckDB documentation, "SQL to/from JSON" (json_serialize_sql, json_deserialize_sql).

`without_values` turns DuckDB's errors into one line that says what to do. Errors in a statement itself quote the
statement, which is fine; errors that come while rows are read quote the rows, so their text is left out.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import duckdb
import pyarrow as pa

from ingest.errors import QueryError, did_you_mean
from ingest.sample import printable
from scoring.sql.names import make_empty

FUNCTIONS = frozenset(
    """abs round floor ceil greatest least coalesce lower upper length len trim ltrim rtrim left right substring
    split_part replace concat contains starts_with ends_with prefix suffix regexp_matches regexp_extract
    list_contains list_has list_has_any list_has_all list_filter list_transform list_distinct list_sum list_max
    list_min list_extract array_extract array_length struct_extract list_value isnan ifnull nullif""".split()  # noqa: SIM905
)
"""Functions that an expression may call: pure, and none that builds large values."""

TYPES = frozenset(
    """boolean bool logical tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint
    int1 int2 int4 int8 uint8 uint16 uint32 uint64 short long signed float float4 double float8 decimal
    varchar text string bpchar date time timestamp datetime timestamptz interval uuid json list""".split()  # noqa: SIM905
)
"""Types that an expression may cast to, also as the elements of a list. Not BIT and BLOB: each way there and back makes
a text several times longer.
"""

_PLAIN_NODES = frozenset(["CONSTANT", "COMPARISON", "CONJUNCTION", "OPERATOR", "BETWEEN", "CASE", "CAST", "TYPE"])
_HEAD = "SELECT (\n"
_UNFINISHED = "syntax error: something is missing at the end, or a bracket is closed that was not opened"
"""DuckDB's own message would name the bracket that is appended to the text."""

MAX_KEPT = 256
"""Checked expressions that are kept: checking one takes longer than deciding on a picture by it."""

MAX_SHOWN = 200
"""Number of characters of an expression that an error shows."""


def boolean_expression(text: str, schema: pa.Schema) -> str:
    """Return the checked SQL of a condition over a row of `schema`. QueryError names the position and the problem."""
    sql, kind = _checked(text, schema)
    if kind != "BOOLEAN":
        raise QueryError(f"the condition gives {kind}, not true or false: {shown(text)}")
    return sql


def value_expression(text: str, schema: pa.Schema) -> str:
    """Return the checked SQL of any value over a row of `schema`, to group by for instance."""
    return _checked(text, schema)[0]


@lru_cache(MAX_KEPT)
def columns_of(text: str, schema: pa.Schema) -> frozenset[str]:
    """Return the columns of `schema` that a checked expression uses."""
    names = frozenset(schema.names)
    with _database().cursor() as connection, bounded_nesting(text):
        nodes = _nodes(_parse(connection, text)["statements"][0]["node"]["select_list"][0], names)
        used = {str(node["column_names"][0]).lower() for node, _ in nodes if node["class"] == "COLUMN_REF"}
    return frozenset(name for name in names if name.lower() in used)


def check_characters(text: str) -> None:
    """Raise QueryError if the text holds bytes that are not UTF-8 (lone surrogates here), or NUL."""
    match = re.search("[\0\ud800-\udfff]", text)
    if match:
        raise QueryError(f"character {match.start() + 1} is not valid UTF-8 text: {shown(text)}")


@contextmanager
def bounded_nesting(text: str) -> Iterator[None]:
    """Turn the recursion error of a tree that is too deep into a QueryError."""
    try:
        yield
    except RecursionError:
        raise QueryError(f"this is nested too deeply; write it in several parts: {shown(text)}") from None


def shown(text: str) -> str:
    """Return the text on one line, cut if it is long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}… ({len(text):,} characters)"


@lru_cache(MAX_KEPT)
def _checked(text: str, schema: pa.Schema) -> tuple[str, str]:
    check_characters(text)
    if _repeats_too_much(text):
        raise QueryError(f"CASE x WHEN … repeats x for every WHEN; write CASE WHEN x = … instead: {shown(text)}")
    with _database().cursor() as connection:
        with bounded_nesting(text):
            tree = _parse(connection, text)
            _check_nodes(tree, frozenset(schema.names), text)
            [(written,)] = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchall()
            sql = f"({written.removeprefix('SELECT ')})"
        make_empty(connection, "row_schema", schema)
        try:
            described = connection.execute(f"DESCRIBE SELECT {sql} AS value FROM row_schema").fetchall()
            connection.execute(f"SELECT {sql} FROM row_schema")  # constants of the wrong type show only here
        except duckdb.Error as error:
            raise QueryError(f"{shown(first_line(error))}: {shown(text)}") from None
    return sql, str(described[0][1])


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the empty database of all cursors, without access to files.

    It is kept, since opening one takes longer than the checks, or than deciding on a shard.
    """
    connection = duckdb.connect()
    connection.execute(
        "SET python_enable_replacements = false; SET temp_directory = ''; "
        "SET enable_external_access = false; SET lock_configuration = true"
    )
    return connection


def row_cursor() -> duckdb.DuckDBPyConnection:
    """Return a connection for checked expressions over rows that the caller registers, without access to files.

    It need not be closed; a query that does not stop may still hold it.
    """
    return _database().cursor()


def _parse(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    parsed = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [f"{_HEAD}{text}\n)"]).fetchall()[0][0]
    answer: dict[str, Any] = json.loads(parsed)
    if answer["error"]:
        position = int(answer.get("position", 0)) - len(_HEAD) + 1
        where = f" at character {position}" if 0 < position <= len(text) else ""
        what = without_advice(answer["error_message"]) if position <= len(text) else _UNFINISHED
        raise QueryError(f"{shown(what)}{where}: {shown(text)}")
    node = answer["statements"][0]["node"]
    is_simple = node["type"] == "SELECT_NODE" and node["from_table"]["type"] == "EMPTY" and not node["modifiers"]
    has_more = any(node.get(part) for part in ("where_clause", "group_expressions", "having", "qualify", "sample"))
    if len(answer["statements"]) != 1 or not is_simple or has_more or len(node["select_list"]) != 1:
        raise QueryError(f"give one expression over the row, not a statement: {shown(text)}")
    return answer


# The allow-list is a second lock: the connection has no files and locked settings. Tried without it (DuckDB 2.0), that
# connection also answers random() and now(), so that a decision is not the same again; counts over other rows; the
# settings; and range(100000000) for minutes.
def _check_nodes(tree: dict[str, Any], columns: frozenset[str], text: str) -> None:
    expression = tree["statements"][0]["node"]["select_list"][0]
    for node, names in _nodes(expression, columns):
        problem = _problem_of(node, names, columns)
        if problem:
            is_call = node["class"] == "FUNCTION" and node["function_name"].lower() not in {*FUNCTIONS, "row"}
            allowed = f"; functions that are allowed: {', '.join(sorted(FUNCTIONS))}" if is_call else ""
            raise QueryError(f"{problem}{_position(node)}: {shown(text)}{allowed}")
    if _num_parts(expression) > MAX_PARTS_PER_CHARACTER * len(text):
        raise QueryError(
            "this uses parts of itself too many times over, as nullif, split_part, replace, BETWEEN, IN and lists do "
            f"inside each other; write it in several parts: {shown(text)}"
        )


def _problem_of(node: Mapping[str, Any], names: frozenset[str], columns: frozenset[str]) -> str | None:
    """Return what is wrong with one node of an expression, or None. names: the columns and those of lambdas."""
    kind = node["class"]
    if kind == "COLUMN_REF":
        name = node["column_names"][0]
        is_known = name.lower() in {other.lower() for other in names}
        return None if is_known else f'no column "{shown(name)}"{did_you_mean(name, names)}'
    if kind == "FUNCTION":
        return _problem_of_function(node)
    if kind == "TYPE" and node["type_name"].lower().removesuffix(" with time zone") not in TYPES:
        return f"a cast to {shown(node['type_name'])} is not allowed in an expression over the row"
    if kind == "LAMBDA":
        return "a lambda inside a lambda is not allowed" if names != columns else None
    return None if kind in _PLAIN_NODES else f"{kind.lower()} is not allowed in an expression over the row"


def _problem_of_function(node: Mapping[str, Any]) -> str | None:
    name = node["function_name"].lower()
    if name == "row":  # DuckDB's form of several values separated by commas
        return "give one value, not several with commas; put them together, such as concat(a, ' / ', b)"
    if not (node["is_operator"] or name in FUNCTIONS):
        return f'the function "{shown(name)}" is not allowed{did_you_mean(name, FUNCTIONS)}'
    if node["filter"] or node["distinct"] or node["order_bys"]["orders"]:
        return f'the function "{name}" takes no FILTER, DISTINCT or ORDER BY here'
    arguments = [argument["expression"] for argument in node["arguments"]]
    if name == "replace" and not all("text" in (a.get("literal") or {}) for a in arguments[1:]):
        return "replace needs texts in quotes as its second and third argument"
    return None


def _nodes(node: Any, names: frozenset[str]) -> Iterator[tuple[Mapping[str, Any], frozenset[str]]]:
    """Yield every expression node with the names that it may use: the columns, and a lambda's own parameters."""
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


def _position(node: Mapping[str, Any]) -> str:
    position = int(node.get("query_location", 0)) - len(_HEAD) + 1
    return f" at character {position}" if 0 < position < 10**6 else ""


# The cost of an expression per row. Some forms use their arguments several times, and a few of them nested make a
# short text cost minutes or gigabytes. A locked connection does not prevent that, and workers decide shard by shard by
# a policy that somebody else may have written.
#
# The measure is the number of parts once every copy is counted. It may grow no faster than the text, so that time and
# memory per row stay within the length of the expression times the length of the row's values. With DuckDB 2.0
# `split_part` and `nullif` are macros that repeat their arguments, the optimizer writes BETWEEN and IN out as
# comparisons, the parser repeats the operand of `CASE x WHEN`, and a list as text escapes what it holds, which doubles
# what was escaped before.
MAX_PARTS_PER_CHARACTER = 10
_MAX_CASE_CHARACTERS = 10**6

_COPIES = {"nullif": 2, "split_part": 3, "list_value": 2}
_BETWEEN_COPIES = 4
_LIST_CAST_COPIES = 2

_SIMPLE_CASE = re.compile(r"(?<![^\W\d])case(?![\w$])(?!\s+when(?![\w$]))", re.IGNORECASE)
_WHEN = re.compile(r"(?<![^\W\d])when(?![\w$])", re.IGNORECASE)


def _repeats_too_much(text: str) -> bool:
    """Return, before parsing, whether nested `CASE x WHEN …` may fill the memory with copies of x."""
    num_cases = len(_SIMPLE_CASE.findall(text))
    if not num_cases:
        return False
    whens_each = max(1.0, len(_WHEN.findall(text)) / num_cases)
    return math.log(len(text)) + num_cases * math.log(whens_each) > math.log(_MAX_CASE_CHARACTERS)


def _num_parts(node: Any) -> int:
    """Count the parts of a node of DuckDB's parse tree.

    Every child is visited once, so that the time is linear in the size of the tree.
    """
    if isinstance(node, list):
        return sum(map(_num_parts, node))
    if not isinstance(node, dict):
        return 0
    match node.get("class"):
        case "FUNCTION":
            return 1 + _num_function_parts(node["function_name"].lower(), [a["expression"] for a in node["arguments"]])
        case "OPERATOR" if node["type"] == "COMPARE_IN":
            operand, *entries = map(_num_parts, node["children"])
            return 1 + sum(entries) + len(entries) * operand
        case "BETWEEN":
            copies = _BETWEEN_COPIES
        case "CAST" if node["type_expr"]["type_name"].lower() == "list":
            copies = _LIST_CAST_COPIES
        case _:
            copies = 1
    return ("class" in node) + copies * sum(map(_num_parts, node.values()))


def _num_function_parts(name: str, arguments: Sequence[Mapping[str, Any]]) -> int:
    inner = [_num_parts(argument) for argument in arguments]
    if any(argument["class"] == "LAMBDA" for argument in arguments):
        return math.prod(inner)  # evaluated for every element of the list
    return sum(inner) * (_growth_of_replace(arguments) if name == "replace" else _COPIES.get(name, 1))


def _growth_of_replace(arguments: Sequence[Mapping[str, Any]]) -> int:
    """Return how many times longer the text may become. Search text and replacement are constants (`expressions`)."""
    lengths = [len(str(argument["literal"]["text"]).encode()) for argument in arguments[1:3]]
    searched, replacement = (*lengths, 0, 0)[:2]
    return max(1, math.ceil(replacement / max(1, searched)))


_OF_THE_STATEMENT = (duckdb.BinderException, duckdb.CatalogException)
_OF_THE_ROWS: tuple[tuple[type[duckdb.Error], str], ...] = (
    (duckdb.ConversionException, "a value cannot be converted as asked; TRY_CAST(… AS …) gives null instead"),
    (duckdb.OutOfRangeException, "a result is too large for its type; convert to DOUBLE before it is made"),
    (duckdb.InvalidInputException, "a function was given a value that it cannot take; leave such rows out first"),
    (duckdb.OutOfMemoryException, "this takes more memory than there is; ask for fewer rows or columns at once"),
    (duckdb.PermissionException, "a file cannot be read: a statement reaches the views and nothing else"),
    (duckdb.IOException, "a score file cannot be read; ask again, and see whether the storage answers"),
    (duckdb.InterruptException, "interrupted"),
)


def without_values(error: duckdb.Error, statement: str) -> str:
    """Explain the error in one line to the user who wrote the statement, or a part of it."""
    if isinstance(error, duckdb.ParserException):
        return f"the SQL is not valid: {first_line(error)}"
    if isinstance(error, _OF_THE_STATEMENT):
        return first_line(error)
    explanations = (words for kind, words in _OF_THE_ROWS if isinstance(error, kind))
    return _pointed_at(error, statement) + next(explanations, f"DuckDB cannot do this ({type(error).__name__})")


def first_line(error: duckdb.Error) -> str:
    """Return the first line without the kind of error before it, such as "Binder Error: "."""
    return without_advice(str(error)) or type(error).__name__


def without_advice(message: str) -> str:
    """Return the first line of DuckDB's message, without advice to change settings, which the user cannot do here."""
    line = (message.strip().splitlines() or [""])[0]
    return re.sub(r"^[A-Z][A-Za-z /]* Error: ", "", line).partition('. Use "SET ')[0]


def _pointed_at(error: duckdb.Error, statement: str) -> str:
    """Return the part of the statement that DuckDB underlines, if any; a line of a value could look the same."""
    *_, line, marks = ["", "", *str(error).splitlines()]
    if not line.startswith("LINE ") or set(marks) != {" ", "^"}:
        return ""
    part = line[marks.index("^") : marks.rindex("^") + 1]
    return f'at "{part}": ' if part in statement else ""
