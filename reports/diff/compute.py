"""Compares two runs from start to end: loads, matches, counts and tests."""

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from ingest.errors import PrivsieveError, QueryError
from ingest.sample import printable
from ingest.storage.place import place
from reports.diff.changes import attribute_changes, private_shares, score_changes
from reports.diff.matching import Pairs, SideName, load, match, single_number
from reports.diff.results import LEVEL_STATES, PRIVATE_STATES, ChangedPicture, RunDifference, Side
from reports.evaluation.compute import engine_name
from reports.report.opened import MayName, OpenRun, all_named, open_run
from scoring.runs.record import all_differences
from scoring.sql.expressions import first_line, value_expression
from scoring.sql.limits import Watch, spilling_database
from scoring.table import SCHEMA, presence_only

MAX_GROUPS = 10_000
MAX_PICTURES = 20
"""Number of changed pictures that are named."""

ALIKE = {"built_with": (), "is_fake": False}
"""Values set in both records before they are compared: machines change no row, and the engine is compared anyway."""

_LEVEL = """CASE WHEN {0}_is_quarantined THEN 'quarantined' WHEN {0}_is_screened THEN 'screened'
    ELSE coalesce(CAST({0}_level AS VARCHAR), 'unknown') END"""
_PRIVATE = """CASE WHEN {0}_is_quarantined THEN 'quarantined' WHEN {0}_is_screened THEN 'screened'
    WHEN {0}_is_private IS NULL THEN 'unknown' WHEN {0}_is_private THEN 'private' ELSE 'public' END"""
_SEVERITY = "(CASE WHEN {0}_level = 0 THEN 0 ELSE 5 - {0}_level END)"


def compare_runs(url_a: str, url_b: str, by: str = "category", may_name: MayName = all_named) -> RunDifference:
    """Compare two runs, picture by picture. A row of either run takes about 560 bytes of memory and temporary folder.

    by: column or SQL expression that groups the pictures, over rows of the first run. may_name: decides which pictures
    the result may name.

    RunError, StorageError of the runs; StorageError if the temporary folder is full; QueryError if `by` is no such
    expression or makes more than 10,000 groups.
    """
    if place(url_a).is_same(place(url_b)):
        raise PrivsieveError(f"{url_a} is given twice; compare it with another run")
    value_expression(by, SCHEMA)  # before anything is opened
    with open_run(url_a) as a, open_run(url_b) as b, spilling_database("the comparison") as database:
        return Watch(database).run(lambda: _compared(database, a, b, by, may_name))


def _compared(database: duckdb.DuckDBPyConnection, a: OpenRun, b: OpenRun, by: str, may_name: MayName) -> RunDifference:
    try:
        private_from = load(database, "a", a, by), load(database, "b", b, by)
    except (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.BinderException) as error:
        raise QueryError(f"--by cannot be computed: {first_line(error)}") from None
    pairs = match(database)
    if single_number(database, "SELECT count(DISTINCT a_category) FROM compared") > MAX_GROUPS:
        raise QueryError(f"--by makes more than {MAX_GROUPS:,} groups; choose something coarser")
    drawn_in = tuple(name for name, run in (("a", a), ("b", b)) if run.record.shard_draw is not None)
    is_tested = not drawn_in
    private, private_kappa, groups = private_shares(database, is_tested)
    pictures, num_unnamed = _pictures(database, a, may_name)
    declared_a, declared_b = (presence_only(run.record.engine) for run in (a, b))
    return RunDifference(
        a=_side(database, "a", a, private_from[0], pairs),
        b=_side(database, "b", b, private_from[1], pairs),
        settings=tuple(map(printable, all_differences(*(item.record.model_copy(update=ALIKE) for item in (a, b))))),
        by=by,
        shards_drawn_in=drawn_in,
        num_pairs=pairs.num,
        num_by_name=pairs.num_by_name,
        num_moved=single_number(database, "SELECT count(*) FROM compared WHERE a_category <> b_category"),
        levels=_table(database, _LEVEL, LEVEL_STATES),
        private_states=_table(database, _PRIVATE, PRIVATE_STATES),
        private=private,
        private_kappa=private_kappa,
        attributes=attribute_changes(database, declared_a, declared_b, is_tested),
        scores=score_changes(database, is_tested),
        groups=groups,
        pictures=pictures,
        num_unnamed=num_unnamed,
    )


def _side(database: duckdb.DuckDBPyConnection, name: SideName, run: OpenRun, private_from: str, pairs: Pairs) -> Side:
    counts = "count(*) FILTER (is_quarantined), count(*) FILTER (is_private), count(is_private)"
    ((num_quarantined, num_private, num_known),) = database.execute(f"SELECT {counts} FROM {name}").fetchall()
    return Side(
        run=printable(run.url),
        source=printable(run.record.source),
        engine=engine_name(run.record.engine),
        cautions=tuple(map(printable, run.cautions)),
        private_from=private_from,
        **pairs.of_sides[name],
        num_quarantined=num_quarantined,
        num_private=num_private,
        num_known=num_known,
    )


def _table(database: duckdb.DuckDBPyConnection, state: str, states: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the number of pictures by their state in the first run (rows) and the second (columns).

    state: SQL, with {0} for the run.
    """
    question = f"SELECT {state.format('a')} AS a, {state.format('b')} AS b, count(*) FROM compared GROUP BY ALL"
    counts = {(of_a, of_b): num for of_a, of_b, num in database.execute(question).fetchall()}
    return tuple(tuple(counts.get((row, column), 0) for column in states) for row in states)


def _pictures(
    database: duckdb.DuckDBPyConnection, run: OpenRun, may_name: MayName
) -> tuple[tuple[ChangedPicture, ...], int]:
    """Return the pictures that changed most, and how many of these may not be named. run: the first."""
    change = f"abs({_SEVERITY.format('a')} - {_SEVERITY.format('b')})"
    rows = database.sql(
        f'SELECT shard, "index", sha256, "key", a_category, a_level, b_level, {change} AS change '
        "FROM compared WHERE a_level <> b_level ORDER BY change DESC, least(nullif(a_level, 0), nullif(b_level, 0)), "
        f'"key", shard, "index" LIMIT {MAX_PICTURES}'
    ).to_arrow_table()
    named = rows.filter(pa.array(may_name(run, rows), pa.bool_()))
    return tuple(
        ChangedPicture(printable(row["key"]), printable(row["a_category"]), row["a_level"], row["b_level"])
        for row in named.to_pylist()
    ), rows.num_rows - named.num_rows
