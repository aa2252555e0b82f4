"""A run as a read-only DuckDB database.

Views over the score files of a run, made from the row of `scoring.table` and the taxonomy:

    images       every image that was seen, one row each, with `scoring.table.COMPUTED`
    scored       the images that have a score
    quarantined  the images that have none, with their reason
    damaged      parts of shards that could not be read: an unknown number of images each (scoring.runs.rows)
    all_rows     the rows of `images` and of `damaged` together, as the score files hold them
    attributes   one row per image and attribute; value 0 | 0.5 | 1, null = not assessed
    answers      `images` with its attributes as a list, for questions about pairs
    patterns     one row per distinct set of answers of the scored images, with `num_images`: far fewer rows
    rates        one row per category: how many scored images are private (scoring.privacy), and how many are unknown
    corrected_rates  what `audit apply` found: one row per subject, and per subject and category; else empty

and the macros `wilson_low(k, n)`, `wilson_high(k, n)`: 95 % Wilson score interval of a share k/n.
Source of the interval: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

import duckdb
import pyarrow as pa

from ingest.errors import SHARD_REASONS, PrivsieveError, QueryError, RunError, StorageError
from ingest.storage.place import Place
from reports.run.drawn_shards import degrees_sql, effective_size_sql, of_t_sql, residual_sql
from reports.run.run_files import RUN_URL, RunFiles, check_is_select, refuse, score_rows
from scoring.privacy import PROBABILITIES, computed_sql, private_condition, private_sql
from scoring.runs import AUDIT, SCORES, record
from scoring.runs.audit_files import CORRECTED_RATES, CORRECTED_SCHEMA, AuditedRows, read_stored
from scoring.runs.footers import CheckedFiles, refuse_foreign
from scoring.runs.record import RunRecord
from scoring.runs.results import RunListing, listing, manifest
from scoring.runs.rows import IS_DAMAGE_SQL, NO_DAMAGE, Damage, damage_of
from scoring.sql.expressions import first_line, shown
from scoring.sql.limits import NO_LIMITS, Limits, OutOfMemoryError, OutOfTimeError, StoppedError, Watch
from scoring.sql.names import literal, location, sql_type, without_wildcards
from scoring.table import Col
from scoring.taxonomy import ATTRIBUTES, KEYS

AUDIT_NAME = "corrected-rates.audit"
"""Name by which the connection reaches the corrected rates; no score file has this name."""

STALE_AUDIT = "the audit is of other rows than the run has now; draw and label a new sample (privsieve audit sample)"
DAMAGED_AUDIT = "the audit's corrected rates are damaged or of another version; use audit apply again"

_NO_CORRECTED_RATES = ", ".join(f"NULL::{sql_type(field.type)} AS {field.name}" for field in CORRECTED_SCHEMA)

LEVEL_COUNTS = {level: f"num_level_{level}" for level in (1, 2, 3, 4, 0)}
"""Level -> the column of `queries/rates.sql` that counts its images; most severe first, level 0 last."""

OF_SHARDS = ("effective_size", "degrees", "num_shards")
"""Columns of `rates_text` that exist only if shards were drawn."""

MANY_FILES = 100
MAX_ROWS_KEPT = 2_000_000
"""Rows of a run of many files take memory; of more rows, each question reads the files again."""

_Z = "1.959963984540054"  # the 97.5 % point of the normal distribution

# Divided step by step, since n * n is too large for an integer in large corpora.
# The ends are written out to be exact: rounding would leave 4.9e-17 for none of n.
_WILSON = f"""CREATE OR REPLACE MACRO wilson_{{side}}(k, n) AS CASE
    WHEN n > 0 AND k = {{edge}} THEN {{bound}}
    WHEN n > 0 THEN (k / n + pow({_Z}, 2) / 2 / n
     {{sign}} {_Z} * sqrt((k / n) * (1 - k / n) / n + pow({_Z} / 2 / n, 2))) / (1 + pow({_Z}, 2) / n) END"""


@dataclass(frozen=True)
class Run:
    """An opened run: its files were listed once, and every question is about these files."""

    url: str
    root: Place
    record: RunRecord
    listed: RunListing
    checked: CheckedFiles
    """What the footers of the listed files say."""
    connection: duckdb.DuckDBPyConnection
    """Locked, with the views."""
    files: RunFiles
    """How the connection reaches the score files."""
    limits: Limits
    """Limits of one statement that a user writes."""
    asking: Watch
    """Runs the questions of a report, which have the same limits all together."""

    def select(self, statement: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Return column names and rows of a SELECT that a user wrote. QueryError in one line if it is anything else."""
        watch = Watch(self.connection, self.limits)
        with self._refusing(statement):
            watch.run(lambda: check_is_select(self.connection, statement))
            watch.run(lambda: self.connection.execute(statement))
        described = self.connection.description or []
        for name, kind, *_ in described:
            if "TIMESTAMP WITH TIME ZONE" in str(kind):  # DuckDB would want the package pytz
                raise QueryError(f'column "{shown(str(name))}" has times with a time zone; cast them to TIMESTAMP')
        return [str(column[0]) for column in described], self._fetched(statement, watch)

    def table(self, statement: str) -> pa.Table:
        """Return the whole answer of one SELECT that a user wrote. Errors as with `select`."""
        watch = Watch(self.connection, self.limits)
        with self._refusing(statement):
            watch.run(lambda: check_is_select(self.connection, statement))
            answer = watch.run(lambda: self.connection.sql(statement).to_arrow_table())
        self._check_not_replaced()
        return answer

    def ask(self, question: str, **placeholders: str) -> list[dict[str, Any]]:
        """Return the rows of `queries/<question>.sql` as dicts. placeholders: checked SQL (scoring.sql.expressions)."""
        return self._asked(query_text(question, **placeholders))

    @contextmanager
    def joined(self, **tables: pa.Table) -> Iterator[None]:
        """Let questions use these tables by their names inside the block."""
        for name, table in tables.items():
            self.connection.register(name, table)
        try:
            yield
        finally:
            for name in tables:
                self.connection.unregister(name)

    def ask_rates(self, by: str, private: str, most: str) -> list[dict[str, Any]]:
        """Return the rows of `rates_text` of this run. by, private: checked SQL."""
        return self._asked(rates_text(self.record, by, private, most))

    def _asked(self, text: str) -> list[dict[str, Any]]:
        rows = self._run(text)
        names = [str(column[0]) for column in self.connection.description or []]
        return [dict(zip(names, row, strict=True)) for row in rows]

    @contextmanager
    def rows_kept(self, asked: str) -> Iterator[None]:
        """Replace views by tables inside the block: `patterns`, which takes a pass over all rows; and of a run of many
        files all rows, so that each file is read once. asked: SQL of users; probabilities that it does not name are
        left out.

        DuckDB looks for a name among temporary tables first, so neither the questions nor other views need know.
        """
        kept = {"patterns": "FROM patterns"}
        if len(self.listed.score_files) > MANY_FILES and self.checked.num_rows <= MAX_ROWS_KEPT:
            unused = ", ".join(sorted(name for name in PROBABILITIES if name not in asked))
            # Sorted, since DuckDB else keeps a buffer of its own for the rows of each file.
            rows = f'SELECT * EXCLUDE ({unused}) FROM all_rows ORDER BY {Col.SHARD}, "{Col.INDEX}"'
            kept = {"all_rows": rows} | kept
        try:
            for name, rows in kept.items():
                self._run(f"CREATE TEMP TABLE {name} AS {rows}")
            yield
        finally:
            for name in kept:
                with suppress(duckdb.Error):  # after a question that was stopped the connection may be of no use
                    self.connection.execute(f"DROP TABLE IF EXISTS temp.{name}")

    def _run(self, text: str, watch: Watch | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a statement of our own. watch: None for the limits of what a user asks."""
        with self._refusing(statement=""):  # the user wrote only the placeholders
            rows = (watch or self.asking).run(lambda: self.connection.execute(text).fetchall())
        self._check_not_replaced()
        return rows

    def has_rows_of(self, audited: AuditedRows) -> bool:
        """Return whether an audit is of the rows that the run has now."""
        return audited.are(self.record.settings_hash(), self.checked.num_rows, self.checked.rows_sha256)

    @cached_property
    def damage(self) -> Damage:
        """Return the shards of which an unknown number of images was not seen."""
        if SHARD_REASONS.isdisjoint(self.checked.reasons):
            return NO_DAMAGE
        # Without limits, which are only for what a user asks.
        statement = f"SELECT {Col.SHARD}, {Col.REASON}, count(*) FROM damaged GROUP BY ALL"
        rows = self._run(statement, Watch(self.connection))
        return damage_of((shard, {reason: number}) for shard, reason, number in rows)

    def num_images(self) -> int:
        """Return the number of rows of the view `images`."""
        return self.checked.num_rows - self.damage.num_parts

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
            if first_line(error) in (STALE_AUDIT, DAMAGED_AUDIT):  # the view's own words, and not a value of a row
                raise RunError(f"{self.url}: {first_line(error)}") from None
            refuse(error, statement)

    def _stopped(self, stop: StoppedError, statement: str) -> QueryError:
        what, remedy = ("statement", "ask for less at once") if statement else ("report", "simplify --by or --private")
        more = ", or allow more with --timeout" if isinstance(stop, OutOfTimeError) else ""
        return QueryError(f"the {what} was stopped {stop}; {remedy}{more}")

    def _check_not_replaced(self) -> None:
        """Raise RunError if the run was compacted: files of the views may be gone, so an answer may lack rows."""
        if manifest(self.root) != self.listed.manifest:
            raise RunError(f"{self.url} was compacted meanwhile; ask again")


def open_warehouse(run: str, limits: Limits = NO_LIMITS) -> Run:
    """Open a run folder or URL. RunError if there is no run.json, StorageError if it cannot be reached."""
    root, described = record.read_record(run)
    listed = listing(root)
    try:
        return _opened(run, root, described, listed, limits)
    except PrivsieveError:
        if listing(root) == listed:
            raise
    # The run was compacted after its files were listed, and these are gone.
    return _opened(run, root, described, listing(root), limits)


def _opened(run: str, root: Place, described: RunRecord, listed: RunListing, limits: Limits) -> Run:
    checked = refuse_foreign(root, described.settings_hash(), listed)
    connection = duckdb.connect()
    files = RunFiles(root, listed.score_files, {AUDIT_NAME: root.at(AUDIT, CORRECTED_RATES)})
    connection.register_filesystem(files)
    try:
        paths = [f"{RUN_URL}*.parquet"]
        connection.execute(_statements(root, described, listed, checked, paths, RUN_URL + AUDIT_NAME))
        _lock(connection, limits)
    except duckdb.Error as error:
        if files.failure is not None:
            raise StorageError(files.failure) from None
        message = first_line(error).replace(RUN_URL, "")
        raise RunError(f"the score files of {run} cannot be read: {message}") from None
    return Run(run, root, described, listed, checked, connection, files, limits, Watch(connection, limits))


def setup_statements(run: str) -> str:
    """Return the statements that make the same views in a user's own DuckDB, which then reads the score files."""
    root, described = record.read_record(run)
    listed = listing(root)
    folder = without_wildcards(location(root))
    names = [f"{SCORES}/*.parquet"] if listed.manifest is None else listed.score_files
    corrected = without_wildcards(location(root.at(AUDIT, CORRECTED_RATES)))
    checked = refuse_foreign(root, described.settings_hash(), listed)
    return _statements(root, described, listed, checked, [f"{folder}/{name}" for name in names], corrected)


def query_text(question: str, **placeholders: str) -> str:
    """Return the SQL of one question of `queries/`, with its `{name}` placeholders filled in."""
    text = resources.files("reports").joinpath("run", "queries", f"{question}.sql").read_text(encoding="utf-8")
    # In one pass, so that a placeholder inside a quoted string of another one stays text.
    return re.sub(r"\{(\w+)\}", lambda match: placeholders.get(match[1], match[0]), text)


def rates_text(described: RunRecord, by: str, private: str, most: str) -> str:
    """Return the SQL of `queries/rates.sql`: one row per group, with its rate and interval.

    If shards were drawn, the interval has the variance between them, and three more columns (`OF_SHARDS`) say how much
    the images tell (`reports.run.drawn_shards`).
    """
    draw = described.shard_draw
    if draw is None:
        empty = dict.fromkeys(("shard", "by_shard", "of_shards", "effective_size"), "")
        return query_text("rates", by=by, private=private, most=most, scale="1", **empty)
    by_shard = query_text(
        "rates_by_shard",
        residual=residual_sql("k_i", "n_i", "k_all", "n_all"),
        effective_size=effective_size_sql(draw),
        degrees=degrees_sql(),
        of_t=of_t_sql("degrees"),
    )
    return query_text(
        "rates",
        by=by,
        private=private,
        most=most,
        shard="shard, ",
        by_shard=by_shard,
        of_shards=" LEFT JOIN sized USING (group_name)",
        scale="(effective_size * of_t / num_judged)",
        effective_size="".join(f", {name}" for name in OF_SHARDS),
    )


def _statements(
    root: Place, described: RunRecord, listed: RunListing, checked: CheckedFiles, paths: Iterable[str], corrected: str
) -> str:
    """Return the SQL of the macros and views. Without a score file `all_rows` is an empty table of the same columns.

    paths: names and patterns of the listed score files, as DuckDB reaches them; corrected: the same of the corrected
    rates, whether or not there are any.
    """
    files = f"[{', '.join(map(literal, paths))}]"
    source = score_rows(files, len(listed.score_files))
    private = private_sql(private_condition(described.engine), described.engine)
    rates = rates_text(described, by=Col.CATEGORY, private=private, most="ALL")
    hidden = [*LEVEL_COUNTS.values(), *(() if described.shard_draw is None else OF_SHARDS)]
    answers = ",\n    ".join(
        f"{{'attribute': {literal(a.key)}, 'attribute_level': {a.level}, 'value': {a.key}}}" for a in ATTRIBUTES
    )
    place = f'{Col.SHARD}, "{Col.INDEX}", {Col.KEY}'
    wanted = (
        _WILSON.format(side="low", edge="0", bound="0.0", sign="-"),
        _WILSON.format(side="high", edge="n", bound="1.0", sign="+"),
        f"CREATE OR REPLACE VIEW all_rows AS SELECT *, {computed_sql(described.engine)}\nFROM ({source})",
        f"CREATE OR REPLACE VIEW images AS SELECT * FROM all_rows WHERE NOT {IS_DAMAGE_SQL}",
        f"CREATE OR REPLACE VIEW damaged AS SELECT {place}, {Col.REASON}, {Col.ERROR_MESSAGE}\n"
        f"FROM all_rows WHERE {IS_DAMAGE_SQL}",
        f"CREATE OR REPLACE VIEW scored AS SELECT * FROM all_rows WHERE {Col.STATUS} = 'scored'",
        f"CREATE OR REPLACE VIEW quarantined AS SELECT * FROM images WHERE {Col.STATUS} = 'quarantined'",
        f"CREATE OR REPLACE VIEW answers AS SELECT *, [\n    {answers}\n] AS answers FROM images",
        f"CREATE OR REPLACE VIEW patterns AS SELECT [\n    {answers}\n] AS answers, num_images\n"
        f"FROM (SELECT {', '.join(KEYS)}, count(*) AS num_images FROM scored GROUP BY ALL)",
        f"CREATE OR REPLACE VIEW attributes AS SELECT {place}, {Col.CATEGORY}, answer.attribute, "
        f"answer.attribute_level, answer.value, {Col.STATUS}\n"
        f"FROM (SELECT {place}, {Col.CATEGORY}, {Col.STATUS}, unnest(answers) AS answer FROM answers)",
        f"CREATE OR REPLACE VIEW rates AS SELECT group_name AS category, * EXCLUDE (group_name, {', '.join(hidden)})\n"
        f"FROM (\n{rates.strip().rstrip(';')}\n)",
        f"CREATE OR REPLACE VIEW corrected_rates AS {_corrected_rates(root, described, checked, corrected)}",
    )
    return ";\n\n".join(wanted) + ";\n"


def _corrected_rates(root: Place, described: RunRecord, checked: CheckedFiles, path: str) -> str:
    """Return a SELECT of the corrected rates, which fails if the rows of the run changed since the audit."""
    try:
        stored = read_stored(root)
    except RunError:
        return f"SELECT {_NO_CORRECTED_RATES} WHERE error({literal(DAMAGED_AUDIT)}) IS NULL"
    if stored is None:
        return f"SELECT {_NO_CORRECTED_RATES} WHERE false"
    _, state = stored
    is_same = state.are(described.settings_hash(), state.num_rows, checked.rows_sha256)
    condition = f"num_rows = {state.num_rows}" if is_same else "false"
    return (
        f"SELECT {', '.join(CORRECTED_SCHEMA.names)}\nFROM read_parquet({literal(path)}, hive_partitioning = false), "
        "(SELECT count(*) AS num_rows FROM all_rows)\n"
        f"WHERE CASE WHEN {condition} THEN true ELSE error({literal(STALE_AUDIT)}) END"
    )


def _lock(connection: duckdb.DuckDBPyConnection, limits: Limits) -> None:
    """Limit the connection to reading from `run://`, and lock all its settings.

    It cannot spill to disk, since there is no file system for that.
    """
    if limits.memory_bytes is not None:
        connection.execute(f"SET memory_limit = '{limits.memory_bytes}B'")
    connection.execute(
        "SET python_enable_replacements = false; SET autoinstall_known_extensions = false; "
        "SET autoload_known_extensions = false; SET temp_directory = ''; SET disabled_filesystems = 'LocalFileSystem'; "
        f"SET allowed_directories = ['{RUN_URL}']; SET enable_external_access = false; SET lock_configuration = true"
    )
