"""A run as a read-only DuckDB database.

Views over the score files of a run, made from the row of `scoring.table` and the taxonomy:

    images       every input image, one row each, with `unknown_level` (scoring.gaps)
    scored       the images that have a score
    quarantined  the images that have none, with their reason
    attributes   one row per image and attribute; value 0 | 0.5 | 1, null = not assessed
    answers      `images` with its attributes as a list, for questions about pairs
    patterns     one row per distinct set of answers of the scored images, with `num_images`: far fewer rows
    rates        one row per category: how many scored images are private (level 1 or 2), of how many that is unknown

and the macros `wilson_low(k, n)`, `wilson_high(k, n)`: 95 % Wilson score interval of a share k/n.
Source of the interval: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any

import duckdb
import pyarrow as pa

from ingest.errors import QueryError, RunError, StorageError
from ingest.storage.place import Place
from reports.run_files import RUN_URL, RunFiles
from reports.score_rows import score_rows
from reports.statements import check_reads_only, refuse
from scoring.gaps import PRIVATE_UNKNOWN, UNKNOWN_LEVEL, ruled_out_by, unknown_level_sql
from scoring.policies.policy import SEVERITY_NAMES
from scoring.runs import record
from scoring.runs.footers import refuse_foreign
from scoring.runs.layout import COMPACT, SCORES
from scoring.runs.record import RunRecord
from scoring.runs.results import is_compacted, manifest, score_files
from scoring.sql.errors import first_line
from scoring.sql.expressions import boolean_expression, columns_of
from scoring.sql.limits import NO_LIMITS, Limits, OutOfMemoryError, OutOfTimeError, StoppedError, Watch
from scoring.sql.names import literal, location, without_wildcards
from scoring.table import SCHEMA
from scoring.taxonomy import ATTRIBUTES, KEYS

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


@dataclass(frozen=True)
class Run:
    """An opened run. url: as it was given. record: its run.json. connection: locked, with the views.

    files: how the connection reaches the score files. limits: of one statement that a user writes. asking: runs the
    questions of a report, which have the same limits all together.
    replaced: whether the files that the views read have been compacted since, so that some may be gone.
    """

    url: str
    record: RunRecord
    connection: duckdb.DuckDBPyConnection
    files: RunFiles
    limits: Limits
    asking: Watch
    replaced: Callable[[], bool]

    def select(self, statement: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Column names and rows of one SELECT that a user wrote. QueryError in one line where it is anything else."""
        watch = Watch(self.connection, self.limits)
        with self._refusing(statement):
            watch.run(lambda: check_reads_only(self.connection, statement))
            watch.run(lambda: self.connection.execute(statement))
        names = [str(column[0]) for column in self.connection.description or []]
        return names, self._fetched(statement, watch)

    def ask(self, question: str, **placeholders: str) -> list[dict[str, Any]]:
        """The rows of `queries/<question>.sql` as dicts. Placeholders must be checked SQL (scoring.sql.expressions)."""
        text = query_text(question, **placeholders)
        with self._refusing(statement=""):  # the user wrote but the placeholders
            rows = self.asking.run(lambda: self.connection.execute(text).fetchall())
        names = [str(column[0]) for column in self.connection.description or []]
        self._check_not_replaced()
        return [dict(zip(names, row, strict=True)) for row in rows]

    def num_images(self) -> int:
        """Without limits: they are for what a user asks."""
        with self._refusing(statement=""):
            counted = Watch(self.connection).run(
                lambda: self.connection.execute("SELECT count(*) FROM images").fetchall()
            )
        self._check_not_replaced()
        return int(counted[0][0])

    def _fetched(self, statement: str, watch: Watch) -> Iterator[tuple[Any, ...]]:
        while True:
            with self._refusing(statement):
                rows = watch.run(lambda: self.connection.fetchmany(10_000))
            if not rows:
                self._check_not_replaced()
                return
            yield from rows

    @contextmanager
    def _refusing(self, statement: str) -> Iterator[None]:
        """What goes wrong in DuckDB, in one line for the user."""
        self.files.failure = None
        try:
            yield
        except StoppedError as stop:
            raise self._stopped(stop, statement) from None
        except duckdb.Error as error:
            if isinstance(error, duckdb.OutOfMemoryException) and self.limits.memory_bytes is not None:
                raise self._stopped(OutOfMemoryError(self.limits.memory_bytes), statement) from None
            self._check_not_replaced()
            if self.files.failure is not None:
                raise StorageError(self.files.failure) from None
            refuse(error, statement)

    def _stopped(self, stop: StoppedError, statement: str) -> QueryError:
        what, remedy = ("statement", "ask for less at once") if statement else ("report", "simplify --by or --private")
        more = ", or allow more with --timeout" if isinstance(stop, OutOfTimeError) else ""
        return QueryError(f"the {what} was stopped {stop}; {remedy}{more}")

    def _check_not_replaced(self) -> None:
        """RunError where rows may have been missing in an answer."""
        if self.replaced():
            raise RunError(f"{self.url} was compacted meanwhile; ask again")


def open_run(run: str, limits: Limits = NO_LIMITS) -> Run:
    """Open a run folder or URL. RunError where there is no run.json, StorageError where it cannot be reached."""
    root, described = record.open_run(run)
    connection = duckdb.connect()
    was_compacted = is_compacted(root)
    files = RunFiles(root.at(COMPACT if was_compacted else SCORES))
    connection.register_filesystem(files)
    try:
        connection.execute(_statements(connection, root, described, lambda folder: RUN_URL))
        _lock(connection, limits)
    except duckdb.Error as error:
        if files.failure is not None:
            raise StorageError(files.failure) from None
        told = first_line(error).replace(RUN_URL, "")
        raise RunError(f"the score files of {run} cannot be read: {told}") from None
    asking = Watch(connection, limits)
    return Run(run, described, connection, files, limits, asking, lambda: is_compacted(root) != was_compacted)


def setup_statements(run: str) -> str:
    """The statements that make the same views in a user's own DuckDB; they read the score files where they lie."""
    root, described = record.open_run(run)
    with duckdb.connect() as connection:
        if not root.is_local:
            connection.register_filesystem(root.fs)
        return _statements(connection, root, described, _where_it_lies)


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


def _statements(
    connection: duckdb.DuckDBPyConnection, root: Place, described: RunRecord, prefix: Callable[[Place], str]
) -> str:
    """Macros and views, as SQL. Without a score file yet `images` is an empty table of the same columns.

    prefix: what DuckDB is given before the name of a file in a folder.
    """
    refuse_foreign(root, described.settings_hash())
    paths = _score_paths(root, prefix)
    source = score_rows(connection, f"[{', '.join(map(literal, paths))}]" if paths else "", root.path)
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
        f"CREATE OR REPLACE VIEW patterns AS SELECT [\n    {answers}\n] AS answers, num_images\n"
        f"FROM (SELECT {', '.join(KEYS)}, count(*) AS num_images FROM scored GROUP BY ALL)",
        'CREATE OR REPLACE VIEW attributes AS SELECT shard, "index", key, category, answer.attribute, '
        "answer.attribute_level, answer.value, status\n"
        'FROM (SELECT shard, "index", key, category, status, unnest(answers) AS answer FROM answers)',
        "CREATE OR REPLACE VIEW rates AS "
        "SELECT group_name AS category, * EXCLUDE (group_name)\n"
        f"FROM (\n{rates.strip().rstrip(';')}\n)",
    )
    return ";\n\n".join(wanted) + ";\n"


def _score_paths(root: Place, prefix: Callable[[Place], str]) -> list[str]:
    """What `read_parquet` is given: the files of a compacted run, else one pattern; none without any score file."""
    compacted = manifest(root)
    if compacted is not None:
        return [f"{prefix(root.at(COMPACT))}{file.name}" for file in compacted.files]
    return [f"{prefix(root.at(SCORES))}*.parquet"] if score_files(root) else []


def _where_it_lies(folder: Place) -> str:
    return f"{without_wildcards(location(folder))}/"


def _lock(connection: duckdb.DuckDBPyConnection, limits: Limits) -> None:
    """From here on the connection reaches `run://` for reading and nothing else, and no setting can be changed.

    No spilling to disk: there is no file system for it.
    """
    if limits.memory_bytes is not None:
        connection.execute(f"SET memory_limit = '{limits.memory_bytes}B'")
    connection.execute(
        "SET python_enable_replacements = false; SET autoinstall_known_extensions = false; "
        "SET autoload_known_extensions = false; SET temp_directory = ''; SET disabled_filesystems = 'LocalFileSystem'; "
        f"SET allowed_directories = ['{RUN_URL}']; SET enable_external_access = false; SET lock_configuration = true"
    )
