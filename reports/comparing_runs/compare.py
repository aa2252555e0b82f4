"""Two runs from start to end: loaded, matched, counted and tested."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from ingest.errors import PrivsieveError, QueryError, StorageError
from ingest.sample import printable
from ingest.storage.place import place
from reports.comparing_runs.attributes import attribute_changes
from reports.comparing_runs.loading import Name, load
from reports.comparing_runs.matching import Matched, match
from reports.comparing_runs.naming import unnamed_groups
from reports.comparing_runs.private_shares import private_shares
from reports.comparing_runs.results import (
    LEVEL_STATES,
    PRIVATE_STATES,
    ChangedPicture,
    RunDifference,
    Side,
)
from reports.comparing_runs.scores import score_changes
from reports.evaluation.evaluate import engine_name
from reports.opened import MayName, OpenRun, all_named, open_run
from scoring.gaps import presence_only
from scoring.memory import available_bytes
from scoring.runs.differences import all_differences
from scoring.sql.errors import first_line
from scoring.sql.expressions import value_expression
from scoring.sql.limits import Watch
from scoring.table import SCHEMA

MAX_GROUPS = 10_000
MAX_PICTURES = 20
ALIKE = {"built_with": ()}
"""Of both records: on which machines rows were made changes none of them."""
"""Changed pictures that are named."""

MEMORY_SHARE = 0.5
"""Of the memory that is free, so much may DuckDB use before it spills to disk."""

_LEVEL = "CASE WHEN {0}_is_quarantined THEN 'quarantined' ELSE coalesce(CAST({0}_level AS VARCHAR), 'unknown') END"
_PRIVATE = """CASE WHEN {0}_is_quarantined THEN 'quarantined' WHEN {0}_is_private IS NULL THEN 'unknown'
    WHEN {0}_is_private THEN 'private' ELSE 'public' END"""
_SEVERITY = "(CASE WHEN {0}_level = 0 THEN 0 ELSE 5 - {0}_level END)"


def compare_runs(url_a: str, url_b: str, by: str = "category", may_name: MayName = all_named) -> RunDifference:
    """by: column or SQL expression that groups the pictures, over rows of the first run. may_name: asked of each
    picture that the result would name.

    RunError, StorageError of the runs, or if the temporary folder is full; QueryError if `by` is no such expression or
    makes more than 10,000 groups.
    """
    if place(url_a).is_same(place(url_b)):
        raise PrivsieveError(f"{url_a} is given twice; compare it with another run")
    value_expression(by, SCHEMA)  # before anything is opened
    with open_run(url_a) as a, open_run(url_b) as b, _database() as database:
        return Watch(database).run(lambda: _compared(database, a, b, by, may_name))


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    """What does not fit into the memory goes to a temporary folder, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="privsieve-diff-") as folder:
        database = duckdb.connect()
        try:
            database.execute(f"SET memory_limit = '{int(MEMORY_SHARE * available_bytes())}B'")
            database.execute("SET temp_directory = ?", [folder])
            database.execute("SET preserve_insertion_order = false; SET python_enable_replacements = false")
            yield database
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise StorageError(
                f"the comparison needs more room in {tempfile.gettempdir()} (set TMPDIR to a larger disk): "
                f"{first_line(error)}"
            ) from None
        finally:
            database.close()


def _compared(database: duckdb.DuckDBPyConnection, a: OpenRun, b: OpenRun, by: str, may_name: MayName) -> RunDifference:
    try:
        private_a, private_b = load(database, "a", a, by), load(database, "b", b, by)
    except (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.BinderException) as error:
        raise QueryError(f"--by cannot be computed: {first_line(error)}") from None
    num_pairs, num_by_name, matched_a, matched_b = match(database)
    pictures, num_unnamed = _pictures(database, a, may_name)
    if _one(database, "SELECT count(DISTINCT a_category) FROM compared") > MAX_GROUPS:
        raise QueryError(f"--by makes more than {MAX_GROUPS:,} groups; choose something coarser")
    unnamed = unnamed_groups(database, a, may_name)
    private, private_kappa, groups = private_shares(database, unnamed)
    return RunDifference(
        a=_side(database, "a", a, private_a, matched_a),
        b=_side(database, "b", b, private_b, matched_b),
        settings=tuple(map(printable, all_differences(*(one.record.model_copy(update=ALIKE) for one in (a, b))))),
        by=by,
        num_pairs=num_pairs,
        num_by_name=num_by_name,
        num_lookalikes=_one(database, "SELECT count(phash) - count(DISTINCT phash) FROM compared"),
        num_moved=_one(database, "SELECT count(*) FROM compared WHERE a_category <> b_category"),
        levels=_table(database, _LEVEL, LEVEL_STATES),
        private_states=_table(database, _PRIVATE, PRIVATE_STATES),
        private=private,
        private_kappa=private_kappa,
        attributes=attribute_changes(database, presence_only(a.record.engine), presence_only(b.record.engine)),
        scores=score_changes(database, unnamed),
        groups=groups,
        num_unnamed_groups=len(unnamed),
        pictures=pictures,
        num_unnamed=num_unnamed,
    )


def _side(database: duckdb.DuckDBPyConnection, name: Name, run: OpenRun, private_from: str, matched: Matched) -> Side:
    return Side(
        run=printable(run.url),
        source=printable(run.record.source),
        engine=engine_name(run.record.engine),
        cautions=tuple(map(printable, run.cautions)),
        private_from=private_from,
        num_rows=matched.num_rows,
        num_quarantined=_one(database, f"SELECT count(*) FROM {name} WHERE is_quarantined"),
        num_copies=matched.num_copies,
        num_differing_copies=matched.num_differing_copies,
        num_only_here=matched.num_only_here,
        num_ambiguous=matched.num_ambiguous,
        num_private=_one(database, f"SELECT count(*) FROM {name} WHERE is_private"),
        num_known=_one(database, f"SELECT count(is_private) FROM {name}"),
    )


def _one(database: duckdb.DuckDBPyConnection, question: str) -> int:
    return int(database.execute(question).fetchall()[0][0])


def _table(database: duckdb.DuckDBPyConnection, state: str, states: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Pictures by the state in both runs. state: SQL with {0} for the run."""
    question = f"SELECT {state.format('a')}, {state.format('b')}, count(*) FROM compared GROUP BY ALL"
    found = {(one, other): num for one, other, num in database.execute(question).fetchall()}
    return tuple(tuple(found.get((row, column), 0) for column in states) for row in states)


def _pictures(
    database: duckdb.DuckDBPyConnection, run: OpenRun, may_name: MayName
) -> tuple[tuple[ChangedPicture, ...], int]:
    """Those that changed most, and how many of these are left out because they may not be named. run: the first."""
    change = f"abs({_SEVERITY.format('a')} - {_SEVERITY.format('b')})"
    rows = database.sql(f"""SELECT shard, "index", sha256, compared."key", a_category, a_level, b_level
        FROM compared JOIN a ON a.n = a_n WHERE a_level <> b_level
        ORDER BY {change} DESC, least(nullif(a_level, 0), nullif(b_level, 0)), compared."key"
        LIMIT {MAX_PICTURES}""").to_arrow_table()
    named = rows.filter(pa.array(may_name(run, rows), pa.bool_()))
    return tuple(
        ChangedPicture(printable(row["key"]), printable(row["a_category"]), row["a_level"], row["b_level"])
        for row in named.to_pylist()
    ), rows.num_rows - named.num_rows
