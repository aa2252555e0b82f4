"""DuckDB's errors in one line that says what to do and holds no value of any row.

Errors in a statement itself quote the statement; errors that come while rows are read quote the rows.
"""

import re

import duckdb

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
    known = (words for kind, words in _OF_THE_ROWS if isinstance(error, kind))
    return _pointed_at(error, statement) + next(known, f"DuckDB cannot do this ({type(error).__name__})")


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
