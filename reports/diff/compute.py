"""Compares two runs from start to end: loads, matches, counts and tests."""

import shutil
import tempfile
from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import PrivsieveError, QueryError
from ingest.machine import available_bytes
from ingest.sample import printable
from ingest.storage.place import place
from reports.diff.changes import (
    attribute_changes,
    private_shares,
    score_changes,
    tally_attributes,
    tally_private_shares,
    tally_scores,
)
from reports.diff.matching import HashPart, Pairs, SideName, add_rows, load, match_hashes, match_names, single_number
from reports.diff.results import LEVEL_STATES, PRIVATE_STATES, ChangedPicture, RunDifference, Side
from reports.evaluation.compute import engine_name
from reports.report.opened import MayName, OpenRun, all_named, open_run
from scoring.runs.record import all_differences
from scoring.sql.expressions import first_line, value_expression
from scoring.sql.limits import SPILLING_SHARE, Watch, spilling_database
from scoring.table import SCHEMA, presence_only

MAX_GROUPS = 10_000
MAX_PICTURES = 20
"""Number of changed pictures that are named."""

ALIKE = {"built_with": (), "is_fake": False}
"""Values set in both records before they are compared: machines change no row, and the engine is compared anyway."""

DISK_SHARE = 0.5
"""Share of the free room in the temporary folder that the rows of a part may take."""

ROW_BYTES = 600
"""Bytes that a row of either run takes in memory and temporary folder together while it is compared: measured up to
560."""

_LEVEL = """CASE WHEN {0}_is_quarantined THEN 'quarantined' WHEN {0}_is_screened THEN 'screened'
    ELSE coalesce(CAST({0}_level AS VARCHAR), 'unknown') END"""
_PRIVATE = """CASE WHEN {0}_is_quarantined THEN 'quarantined' WHEN {0}_is_screened THEN 'screened'
    WHEN {0}_is_private IS NULL THEN 'unknown' WHEN {0}_is_private THEN 'private' ELSE 'public' END"""
_SEVERITY = "(CASE WHEN {0}_level = 0 THEN 0 ELSE 5 - {0}_level END)"
_STATES = {"tally_levels": _LEVEL, "tally_private": _PRIVATE}
"""Table -> SQL of the state of a picture, with {0} for the run."""

_MOST_CHANGED = f"""ORDER BY change DESC, least(nullif(a_level, 0), nullif(b_level, 0)), "key", shard, "index"
    LIMIT {MAX_PICTURES}"""
_PHASH_RANGES = 16
"""Number of parts in which perceptual hashes are counted."""

FASTER = 8
"""Factor by which each further turn asks for more pictures of each group."""


def compare_runs(
    url_a: str, url_b: str, by: str = "category", may_name: MayName = all_named, room_bytes: int | None = None
) -> RunDifference:
    """Compare two runs, picture by picture.

    by: column or SQL expression that groups the pictures, over rows of the first run. may_name: decides which pictures
    the result may name. room_bytes: bytes of memory and temporary folder together that the rows may take; None: half of
    what is free. Rows that need more are compared in parts, and each part reads both runs again.

    RunError, StorageError of the runs; StorageError if the temporary folder is full; QueryError if `by` is no such
    expression or makes more than 10,000 groups.
    """
    if place(url_a).is_same(place(url_b)):
        raise PrivsieveError(f"{url_a} is given twice; compare it with another run")
    value_expression(by, SCHEMA)  # before anything is opened
    with open_run(url_a) as a, open_run(url_b) as b, spilling_database("the comparison") as database:
        free_bytes = SPILLING_SHARE * available_bytes() + DISK_SHARE * shutil.disk_usage(tempfile.gettempdir()).free
        room = room_bytes or int(free_bytes)
        num_parts = -(-ROW_BYTES * (a.coverage.num_rows + b.coverage.num_rows) // room)
        return Watch(database).run(lambda: _compared(database, a, b, by, may_name, max(1, num_parts)))


def _compared(
    database: duckdb.DuckDBPyConnection, a: OpenRun, b: OpenRun, by: str, may_name: MayName, num_parts: int
) -> RunDifference:
    pairs, named, private_from = Pairs(), frozenset[str](), ("", "")
    for number in range(num_parts):
        part = HashPart(number, num_parts)
        try:
            private_from = load(database, "a", a, by, part), load(database, "b", b, by, part)
        except (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.BinderException) as error:
            raise QueryError(f"--by cannot be computed: {first_line(error)}") from None
        match_hashes(database, pairs)
        _tally_rows(database)
        named = _tally(database, a, may_name, named)
    match_names(database, pairs)
    named = _tally(database, a, may_name, named)
    every = database.execute("SELECT DISTINCT category FROM tally_groups").fetchall()
    unnamed = frozenset(category for (category,) in every) - named
    drawn_in = tuple(name for name, run in (("a", a), ("b", b)) if run.record.shard_draw is not None)
    is_tested = not drawn_in
    private, private_kappa, groups = private_shares(database, unnamed, is_tested)
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
        num_lookalikes=_num_lookalikes(database),
        num_moved=single_number(database, "SELECT coalesce(sum(num), 0) FROM tally_moved"),
        levels=_table(database, "tally_levels", LEVEL_STATES),
        private_states=_table(database, "tally_private", PRIVATE_STATES),
        private=private,
        private_kappa=private_kappa,
        attributes=attribute_changes(database, declared_a, declared_b, is_tested),
        scores=score_changes(database, unnamed, is_tested),
        groups=groups,
        num_unnamed_groups=len(unnamed),
        pictures=pictures,
        num_unnamed=num_unnamed,
    )


def _tally_rows(database: duckdb.DuckDBPyConnection) -> None:
    """Add the rows of both runs to the counts of earlier parts, and drop their tables."""
    for name in ("a", "b"):
        counts = (
            f"SELECT '{name}' AS side, count(*) FILTER (is_quarantined) AS num_quarantined, "
            f"count(*) FILTER (is_private) AS num_private, count(is_private) AS num_known FROM {name}"
        )
        add_rows(database, "tally_rows", counts)
        database.execute(f"DROP TABLE {name}")


def _tally(
    database: duckdb.DuckDBPyConnection, run: OpenRun, may_name: MayName, named_before: frozenset[str]
) -> frozenset[str]:
    """Add the pictures in the table `compared` to those of earlier parts, and drop it; return `named_groups`.

    The result needs only sums over pairs, which these tables hold, so that the rows can be dropped.
    run: the first.
    """
    for table, state in _STATES.items():
        add_rows(
            database,
            table,
            f"SELECT {state.format('a')} AS a, {state.format('b')} AS b, count(*) AS num FROM compared GROUP BY ALL",
        )
    add_rows(database, "tally_moved", "SELECT count(*) AS num FROM compared WHERE a_category <> b_category")
    add_rows(database, "tally_phashes", "SELECT hash(phash) AS phash FROM compared WHERE phash IS NOT NULL")
    change = f"abs({_SEVERITY.format('a')} - {_SEVERITY.format('b')})"
    most_changed = (
        f'SELECT shard, "index", sha256, "key", a_category, a_level, b_level, {change} AS change '
        f"FROM compared WHERE a_level <> b_level {_MOST_CHANGED}"
    )
    add_rows(database, "tally_pictures", most_changed)
    tally_attributes(database)
    tally_private_shares(database)
    tally_scores(database)
    if single_number(database, "SELECT count(DISTINCT category) FROM tally_groups") > MAX_GROUPS:
        raise QueryError(f"--by makes more than {MAX_GROUPS:,} groups; choose something coarser")
    named = named_groups(database, run, may_name, named_before)
    database.execute("DROP TABLE compared")
    return named


def _num_lookalikes(database: duckdb.DuckDBPyConnection) -> int:
    """Count the lookalikes, one range of hashes at a time, since each distinct hash takes memory."""
    question = f"SELECT count(*) - count(DISTINCT phash) FROM tally_phashes WHERE phash % {_PHASH_RANGES} = "
    return sum(single_number(database, f"{question}{number}") for number in range(_PHASH_RANGES))


def _side(database: duckdb.DuckDBPyConnection, name: SideName, run: OpenRun, private_from: str, pairs: Pairs) -> Side:
    sums = ("num_quarantined", "num_private", "num_known")
    asked = ", ".join(f"sum({column})::BIGINT" for column in sums)
    (counts,) = database.execute(f"SELECT {asked} FROM tally_rows WHERE side = '{name}'").fetchall()
    return Side(
        run=printable(run.url),
        source=printable(run.record.source),
        engine=engine_name(run.record.engine),
        cautions=tuple(map(printable, run.cautions)),
        private_from=private_from,
        **pairs.of_sides[name],
        **dict(zip(sums, counts, strict=True)),
    )


def _table(database: duckdb.DuckDBPyConnection, table: str, states: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the number of pictures by their state in the first run (rows) and the second (columns)."""
    question = f"SELECT a, b, sum(num)::BIGINT FROM {table} GROUP BY ALL"
    counts = {(of_a, of_b): num for of_a, of_b, num in database.execute(question).fetchall()}
    return tuple(tuple(counts.get((row, column), 0) for column in states) for row in states)


def _pictures(
    database: duckdb.DuckDBPyConnection, run: OpenRun, may_name: MayName
) -> tuple[tuple[ChangedPicture, ...], int]:
    """Return the pictures that changed most, and how many of these may not be named. run: the first."""
    rows = database.sql(f"FROM tally_pictures {_MOST_CHANGED}").to_arrow_table()
    named = rows.filter(pa.array(may_name(run, rows), pa.bool_()))
    return tuple(
        ChangedPicture(printable(row["key"]), printable(row["a_category"]), row["a_level"], row["b_level"])
        for row in named.to_pylist()
    ), rows.num_rows - named.num_rows


def named_groups(
    database: duckdb.DuckDBPyConnection, run: OpenRun, may_name: MayName, named_before: frozenset[str]
) -> frozenset[str]:
    """Return the groups with a picture that may be named, in the table `compared` or in earlier parts.

    One such picture is enough, so few groups need more than one picture to be checked. run: the first.
    """
    groups = pa.table({"name": database.sql("SELECT DISTINCT a_category FROM compared").to_arrow_table()[0]})
    every = frozenset(groups["name"].to_pylist())
    if may_name is all_named:
        return named_before | every
    database.execute(
        'CREATE TEMP TABLE of_groups AS SELECT a_category, shard, "index", sha256, "key", '
        "row_number() OVER (PARTITION BY a_category ORDER BY a_n) AS turn FROM compared"
    )
    unnamed = groups.filter(pc.invert(pc.is_in(groups["name"], pa.array(sorted(named_before), pa.string()))))
    first, num = 1, 1
    while unnamed.num_rows:
        database.register("unnamed", unnamed)
        rows = database.sql(
            f"SELECT * FROM of_groups WHERE turn BETWEEN {first} AND {first + num - 1} "
            "AND a_category IN (SELECT name FROM unnamed)"
        ).to_arrow_table()
        database.unregister("unnamed")
        if not rows.num_rows:
            break
        named = rows.filter(pa.array(may_name(run, rows), pa.bool_()))["a_category"]
        unnamed = unnamed.filter(pc.invert(pc.is_in(unnamed["name"], named.combine_chunks())))
        first, num = first + num, num * FASTER
    database.execute("DROP TABLE of_groups")
    return named_before | (every - frozenset(unnamed["name"].to_pylist()))
