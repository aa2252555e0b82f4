"""A run as a read-only DuckDB database.

Views over the score files of a run, made from the row of `scoring.table` and the taxonomy:

    images       every input image, one row each, with `unknown_level` (scoring.gaps)
    scored       the images that have a score
    quarantined  the images that have none, with their reason
    attributes   one row per image and attribute; value 0 | 0.5 | 1, null = not assessed
    answers      `images` with its attributes as a list, for questions about pairs
    rates        one row per category: how many scored images are private (level 1 or 2), of how many that is unknown

and the macros `wilson_low(k, n)`, `wilson_high(k, n)`: 95 % Wilson score interval of a share k/n.
Source of the interval: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any, NoReturn

import duckdb
import pyarrow as pa

from ingest import record
from ingest.errors import QueryError, RunError, near
from ingest.footers import refuse_foreign
from ingest.record import RunRecord
from ingest.results import COMPACT, SCORES, is_compacted, manifest, score_files
from ingest.storage import Place
from reports.duckdb_names import literal, location, without_wildcards
from scoring.duckdb_errors import first_line, without_advice, without_values
from scoring.expressions import boolean_expression, bounded_nesting, check_characters, columns_of
from scoring.gaps import PRIVATE_UNKNOWN, UNKNOWN_LEVEL, ruled_out_by, unknown_level_sql
from scoring.policy import SEVERITY_NAMES
from scoring.table import SCHEMA
from scoring.taxonomy import ATTRIBUTES

VIEWS = ("images", "scored", "quarantined", "attributes", "answers", "rates")
PRIVATE = "level IN (1, 2)"
"""What counts as private where nothing else is asked."""

IMAGE_SCHEMA = SCHEMA.append(pa.field(UNKNOWN_LEVEL.name, UNKNOWN_LEVEL.type))
"""The columns of the view `images`."""

_Z = "1.959963984540054"  # the 97.5 % point of the normal distribution

# Divided step by step, since n * n leaves the integers for large corpora.
# The ends are exact only where they are said: rounding leaves 4.9e-17 for none of n.
_WILSON = f"""CREATE OR REPLACE MACRO wilson_{{side}}(k, n) AS CASE
    WHEN n > 0 AND k = {{edge}} THEN {{bound}}
    WHEN n > 0 THEN (k / n + pow({_Z}, 2) / 2 / n
     {{sign}} {_Z} * sqrt((k / n) * (1 - k / n) / n + pow({_Z} / 2 / n, 2))) / (1 + pow({_Z}, 2) / n) END"""

_NO_TABLE = re.compile(r"Table with name (.+?) does not exist")
_NO_FUNCTION = re.compile(r'Function with name "?(.+?)"? does not exist(?:.*?Did you mean "(.+?)")?', re.DOTALL)
_NO_COLUMN = re.compile(r'(?:Referenced column|column named) "(.+?)"')

_READS = frozenset(["SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"])


@dataclass(frozen=True)
class Run:
    """An opened run. url: as it was given. record: its run.json. connection: locked, with the views.

    replaced: whether the files that the views read have been compacted since, so that some may be gone.
    """

    url: str
    record: RunRecord
    connection: duckdb.DuckDBPyConnection
    replaced: Callable[[], bool]

    def select(self, statement: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Column names and rows of one SELECT that a user wrote. QueryError in one line where it is anything else."""
        _check_reads_only(self.connection, statement)
        try:
            self.connection.execute(statement)
            names = [str(column[0]) for column in self.connection.description or []]
        except duckdb.Error as error:
            self._check_not_replaced()
            _refuse(error, statement)
        return names, self._fetched(statement)

    def ask(self, question: str, **placeholders: str) -> list[dict[str, Any]]:
        """The rows of `queries/<question>.sql` as dicts. Placeholders must be checked SQL (scoring.expressions)."""
        try:
            self.connection.execute(query_text(question, **placeholders))
            names = [str(column[0]) for column in self.connection.description or []]
            rows = [dict(zip(names, row, strict=True)) for row in self.connection.fetchall()]
        except duckdb.Error as error:
            self._check_not_replaced()
            _refuse(error, statement="")  # the user wrote but the placeholders
        self._check_not_replaced()
        return rows

    def _fetched(self, statement: str) -> Iterator[tuple[Any, ...]]:
        while True:
            try:
                rows = self.connection.fetchmany(10_000)
            except duckdb.Error as error:
                self._check_not_replaced()
                _refuse(error, statement)
            if not rows:
                self._check_not_replaced()
                return
            yield from rows

    def _check_not_replaced(self) -> None:
        """RunError where rows may have been missing in an answer."""
        if self.replaced():
            raise RunError(f"{self.url} was compacted meanwhile; ask again")


def open_run(run: str) -> Run:
    """Open a run folder or URL. RunError where there is no run.json, StorageError where it cannot be reached."""
    root, described = record.open_run(run)
    connection = duckdb.connect()
    if not root.is_local:
        connection.register_filesystem(root.fs)
    was_compacted = is_compacted(root)
    try:
        connection.execute(_statements(root, described))
        _lock(connection, location(root.at(COMPACT if was_compacted else SCORES)))
    except duckdb.Error as error:
        raise RunError(f"the score files of {run} cannot be read: {first_line(error)}") from None
    return Run(run, described, connection, lambda: is_compacted(root) != was_compacted)


def setup_statements(run: str) -> str:
    """The statements that make the same views in a user's own DuckDB; they read the score files where they lie."""
    return _statements(*record.open_run(run))


def query_text(question: str, **placeholders: str) -> str:
    """The SQL of one question of `queries/`, with its `{name}` placeholders filled in."""
    text = resources.files("reports").joinpath("queries", f"{question}.sql").read_text(encoding="utf-8")
    # In one pass, so that a placeholder inside a quoted string of another one stays text.
    return re.sub(r"\{(\w+)\}", lambda match: placeholders.get(match[1], match[0]), text)


def privacy_condition(private: str) -> str:
    """The checked SQL of a condition, null where it is not known. QueryError where it is none over the images.

    Level and score count what was not judged as absent: where they do not make an image private, but an attribute of
    level 1 or 2 was not judged in it, they leave the question open.
    """
    sql = boolean_expression(private, IMAGE_SCHEMA)
    if not columns_of(private, IMAGE_SCHEMA) & SEVERITY_NAMES:
        return sql
    return f"({sql}) OR CASE WHEN {PRIVATE_UNKNOWN} THEN NULL ELSE false END"


def _statements(root: Place, described: RunRecord) -> str:
    """Macros and views, as SQL. Without a score file yet `images` is an empty table of the same columns."""
    refuse_foreign(root, described.settings_hash())
    paths = _score_paths(root)
    listed = ", ".join(map(literal, paths))
    # Folders named `a=b` above the run are no columns of its rows.
    source = f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false)" if paths else _no_rows()
    rates = query_text("rates", by="category", private=privacy_condition(PRIVATE), most="ALL")
    unknown = f"{unknown_level_sql(ruled_out_by(described.engine))} AS {UNKNOWN_LEVEL.name}"
    answers = ",\n    ".join(
        f"{{'attribute': {literal(a.key)}, 'attribute_level': {a.level}, 'value': {a.key}}}" for a in ATTRIBUTES
    )
    wanted = (
        _WILSON.format(side="low", edge="0", bound="0.0", sign="-"),
        _WILSON.format(side="high", edge="n", bound="1.0", sign="+"),
        f"CREATE OR REPLACE VIEW images AS SELECT *, {unknown}\nFROM ({source})",
        "CREATE OR REPLACE VIEW scored AS SELECT * FROM images WHERE status = 'scored'",
        "CREATE OR REPLACE VIEW quarantined AS SELECT * FROM images WHERE status = 'quarantined'",
        f"CREATE OR REPLACE VIEW answers AS SELECT *, [\n    {answers}\n] AS answers FROM images",
        'CREATE OR REPLACE VIEW attributes AS SELECT shard, "index", key, category, answer.attribute, '
        "answer.attribute_level, answer.value, status\n"
        'FROM (SELECT shard, "index", key, category, status, unnest(answers) AS answer FROM answers)',
        "CREATE OR REPLACE VIEW rates AS "
        "SELECT group_name AS category, * EXCLUDE (group_name)\n"
        f"FROM (\n{rates.strip().rstrip(';')}\n)",
    )
    return ";\n\n".join(wanted) + ";\n"


def _score_paths(root: Place) -> list[str]:
    """What `read_parquet` is given: the files of a compacted run, else one pattern; none without any score file."""
    compacted = manifest(root)
    if compacted is not None:
        folder = without_wildcards(location(root.at(COMPACT)))
        return [f"{folder}/{file.name}" for file in compacted.files]
    return [f"{without_wildcards(location(root.at(SCORES)))}/*.parquet"] if score_files(root) else []


def _no_rows() -> str:
    with duckdb.connect() as connection:
        connection.register("empty_rows", SCHEMA.empty_table())
        columns = connection.execute("DESCRIBE empty_rows").fetchall()
    casts = ",\n    ".join(f'NULL::{kind} AS "{name}"' for name, kind, *_ in columns)
    return f"SELECT\n    {casts}\nWHERE false"


def _lock(connection: duckdb.DuckDBPyConnection, folder: str) -> None:
    """From here on nothing but the score folder can be read, and no setting changed.

    No spilling to disk: DuckDB would put its temporary files into the folder that the user stands in.
    """
    # The path as it is, and as a pattern, which is checked as well before it is expanded. Each with two and with
    # three slashes, since a filesystem of fsspec may write its URLs either way.
    spellings = {folder, without_wildcards(folder)}
    spellings |= {spelling.replace(":///", "://", 1) for spelling in spellings}
    allowed = ", ".join(map(literal, sorted(spellings)))
    connection.execute(
        "SET python_enable_replacements = false; SET autoinstall_known_extensions = false; "
        "SET autoload_known_extensions = false; SET temp_directory = ''; "
        f"SET allowed_directories = [{allowed}]; "
        "SET enable_external_access = false; SET lock_configuration = true"
    )


def _check_reads_only(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """One SELECT, and no node in it that writes.

    The type of a statement is not enough: `WITH x AS (COPY … TO …) SELECT 1` is a SELECT too, and could write
    into the score folder, the one place that stays open. DuckDB's own parse tree tells.
    """
    check_characters(statement)
    try:
        parsed = connection.extract_statements(statement)
    except duckdb.Error as error:
        _refuse(error, statement)
    kinds = [kind.type.name for kind in parsed]
    if kinds != ["SELECT"]:
        what = "several statements" if len(kinds) > 1 else kinds[0] if kinds else "nothing"
        raise QueryError(f"one SELECT statement is wanted, not {what}: a run is read-only")
    answer = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()[0][0]
    with bounded_nesting(statement):
        tree = json.loads(answer)
        if tree["error"]:
            raise QueryError(f"one plain SELECT statement is wanted: {without_advice(tree['error_message'])}")
        writing = sorted({kind for kind in _query_nodes(tree) if kind not in _READS})
    if writing:
        verb = writing[0].removesuffix("_NODE").removesuffix("_QUERY")
        raise QueryError(f"{verb} is not allowed inside a SELECT: a run is read-only")


def _query_nodes(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for child in node:
            yield from _query_nodes(child)
    elif isinstance(node, dict):
        kind = node.get("type")
        if isinstance(kind, str) and kind.endswith("_NODE"):
            yield kind
        for child in node.values():
            yield from _query_nodes(child)


def _refuse(error: duckdb.Error, statement: str) -> NoReturn:
    """QueryError in one line, with what is near a misspelt name."""
    said, whole = first_line(error), str(error)
    if isinstance(error, duckdb.CatalogException) and (found := _NO_TABLE.match(said)):
        view = found[1].strip('"')
        said = f'no view "{view}"{near(view, VIEWS)}; there are: {", ".join(VIEWS)}'
    elif isinstance(error, duckdb.CatalogException) and (found := _NO_FUNCTION.search(whole)):
        meant = f' (did you mean "{found[2]}"?)' if found[2] else ""
        said = f'no function "{found[1]}"{meant}; DuckDB\'s documentation lists them'
    elif isinstance(error, duckdb.BinderException) and (found := _NO_COLUMN.search(said)):
        candidates = re.findall('"(.+?)"', whole.partition("Candidate bindings:")[2].partition("\n")[0])
        meant = near(found[1], candidates or SCHEMA.names)  # of views with many columns DuckDB offers none
        said = f'no column "{found[1]}"{meant}; "DESCRIBE images" lists those of the view images'
    else:
        said = without_values(error, statement)
    raise QueryError(said) from None
