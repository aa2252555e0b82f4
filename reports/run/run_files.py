"""What SQL of users may do: one SELECT, on files that DuckDB only reads.

DuckDB's own list of allowed folders allows writing as well as reading, so a connection that must not write gets only
the file system of `scoring.sql.read_only_files`.

The statement itself is only checked for what would puzzle a user: the connection is locked (`reports.run.warehouse`).
It has no other file system, its settings cannot be changed, and it holds nothing but views.
`tests/reports/test_statements.py` calls every function of DuckDB on such a connection.
"""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import duckdb

from ingest.errors import QueryError, did_you_mean
from ingest.storage.place import Place
from scoring.sql.expressions import check_characters, first_line, shown, without_values
from scoring.sql.names import identifier, sql_type
from scoring.sql.read_only_files import ReadOnlyFiles
from scoring.table import COLUMNS, IMAGE_SCHEMA

RUN_URL = "run://"

VIEWS = (
    *("images", "scored", "quarantined", "damaged", "all_rows", "attributes", "answers", "patterns", "rates"),
    "corrected_rates",
)
_NO_FUNCTION = re.compile(r'Function with name "?(.+?)"? does not exist(?:.*?Did you mean "(.+?)")?', re.DOTALL)
_NO_COLUMN = re.compile(r'(?:Referenced column|column named) "(.+?)"')


class RunFiles(ReadOnlyFiles):
    """Some files below one folder, as `run://PATH`; nothing else can be reached but `others`.

    paths: of the files, in the order of their rows. DuckDB would list the folder for each query; with these paths every
    query reads the same files. others: further single files, by a name that no pattern matches.
    """

    def __init__(self, folder: Place, paths: Sequence[str], others: Mapping[str, Place] | None = None):
        super().__init__(folder.fs)
        self.protocol = RUN_URL.removesuffix("://")
        self._folder, self._paths, self._others = folder, dict.fromkeys(paths), others or {}

    def glob(self, path: str, **_: Any) -> list[str]:
        pattern = path.removeprefix(RUN_URL)
        paths = [pattern] if pattern in self._others else fnmatch.filter(self._paths, pattern)
        return [f"{RUN_URL}{path}" for path in paths]

    def _place(self, path: str) -> Place:
        path = path.removeprefix(RUN_URL)
        if path in self._others:
            return self._others[path]
        if path not in self._paths:
            raise FileNotFoundError(path)
        return self._folder.at(path)


def score_rows(files: str, num_files: int) -> str:
    """Return a SELECT of all columns over `files`, which `read_parquet` takes; of no row if `num_files` is 0."""
    listed = [f"NULL::{sql_type(column.type)} AS {identifier(column.name)}" for column in COLUMNS]
    if num_files:
        listed = [identifier(column.name) for column in COLUMNS]
    # Folders named `a=b` above the run are no columns of its rows.
    rows = f"FROM read_parquet({files}, hive_partitioning = false)" if num_files else "WHERE false"
    return "SELECT\n    " + ",\n    ".join(listed) + f"\n{rows}"


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


def refuse(error: duckdb.Error, statement: str) -> NoReturn:
    """Raise QueryError in one line, with names that are similar to a misspelt one."""
    message, whole = first_line(error), str(error)
    is_of_catalog = isinstance(error, duckdb.CatalogException)
    if is_of_catalog and (match := re.match(r"Table with name (.+?) does not exist", message)):
        name = match[1].strip('"')
        message = f'no view "{shown(name)}"{did_you_mean(name, VIEWS)}; there are: {", ".join(VIEWS)}'
    elif is_of_catalog and (match := _NO_FUNCTION.search(whole)):
        meant = f' (did you mean "{match[2]}"?)' if match[2] else ""
        message = f'no function "{match[1]}"{meant}; DuckDB\'s documentation lists them'
    elif isinstance(error, duckdb.BinderException) and (match := _NO_COLUMN.search(message)):
        candidates = re.findall('"(.+?)"', whole.partition("Candidate bindings:")[2].partition("\n")[0])
        others = [name for name in IMAGE_SCHEMA.names if name != match[1]]  # DuckDB offers few of many columns
        meant = did_you_mean(match[1], candidates) or did_you_mean(match[1], others)
        message = (
            f'no column "{match[1]}"{meant}; "DESCRIBE images" shows the columns of images; the other views work alike'
        )
    else:
        message = without_values(error, statement)
    raise QueryError(message) from None
