"""Checks the statements that users ask a run, and says what is wrong with them.

What a statement may reach is not decided here: the connection is locked (`reports.run.warehouse`). It has no file
system but the run's score files, for reading (`reports.run.run_files`), its settings cannot be changed, and it holds
nothing but views. `tests/reports/test_statements.py` calls every function of DuckDB on such a connection.
"""

import re
from typing import NoReturn

import duckdb

from ingest.errors import QueryError, did_you_mean
from scoring.sql.expressions import check_characters, first_line, shown, without_values
from scoring.table import SCHEMA

VIEWS = (
    *("images", "scored", "quarantined", "damaged", "all_rows", "attributes", "answers", "patterns", "rates"),
    "corrected_rates",
)
_NO_TABLE = re.compile(r"Table with name (.+?) does not exist")
_NO_FUNCTION = re.compile(r'Function with name "?(.+?)"? does not exist(?:.*?Did you mean "(.+?)")?', re.DOTALL)
_NO_COLUMN = re.compile(r'(?:Referenced column|column named) "(.+?)"')


def check_is_select(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Raise QueryError if the text is anything but one SELECT without parameters."""
    check_characters(statement)
    try:
        parsed = connection.extract_statements(statement)
    except duckdb.Error as error:
        refuse(error, statement)
    kinds = [kind.type.name for kind in parsed]
    if kinds != ["SELECT"]:
        what = "several statements" if len(kinds) > 1 else kinds[0] if kinds else "nothing"
        raise QueryError(f"one SELECT statement is wanted, not {what}: a run is read-only")
    if parsed[0].named_parameters:
        raise QueryError("a statement takes no parameters such as $1: write the values into it")


def _no_view(name: str) -> str:
    return f'no view "{shown(name)}"{did_you_mean(name, VIEWS)}; there are: {", ".join(VIEWS)}'


def refuse(error: duckdb.Error, statement: str) -> NoReturn:
    """Raise QueryError in one line, with names that are similar to a misspelt one."""
    message, whole = first_line(error), str(error)
    if isinstance(error, duckdb.CatalogException) and (match := _NO_TABLE.match(message)):
        message = _no_view(match[1].strip('"'))
    elif isinstance(error, duckdb.CatalogException) and (match := _NO_FUNCTION.search(whole)):
        meant = f' (did you mean "{match[2]}"?)' if match[2] else ""
        message = f'no function "{match[1]}"{meant}; DuckDB\'s documentation lists them'
    elif isinstance(error, duckdb.BinderException) and (match := _NO_COLUMN.search(message)):
        candidates = re.findall('"(.+?)"', whole.partition("Candidate bindings:")[2].partition("\n")[0])
        meant = did_you_mean(match[1], candidates or SCHEMA.names)  # DuckDB offers none for views with many columns
        message = (
            f'no column "{match[1]}"{meant}; "DESCRIBE images" shows the columns of images; the other views work alike'
        )
    else:
        message = without_values(error, statement)
    raise QueryError(message) from None
