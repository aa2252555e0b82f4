"""Two runs from start to end: loaded, matched, counted and tested."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import numpy as np
import pyarrow as pa

from ingest.errors import PrivsieveError, QueryError, StorageError
from ingest.sample import printable
from ingest.storage.place import place
from reports.comparing_runs.holm import holm
from reports.comparing_runs.loading import Name, load, never_denied
from reports.comparing_runs.matching import Matched, match
from reports.comparing_runs.naming import unnamed_groups
from reports.comparing_runs.results import (
    LEVEL_STATES,
    PRIVATE_STATES,
    AttributeChange,
    ChangedPicture,
    GroupChange,
    PairedRate,
    RunDifference,
    Side,
)
from reports.evaluation.binary import known, rates
from reports.evaluation.evaluate import engine_name
from reports.opened import MayName, OpenRun, all_named, open_run
from reports.statistics.exact import mcnemar_p
from scoring.memory import available_bytes
from scoring.runs.differences import all_differences
from scoring.sql.errors import first_line
from scoring.sql.expressions import value_expression
from scoring.sql.limits import Watch
from scoring.table import SCHEMA
from scoring.taxonomy import ATTRIBUTES

MAX_GROUPS = 10_000
MAX_PICTURES = 20
"""Changed pictures that are named."""

MEMORY_SHARE = 0.5
"""Of the memory that is free, so much may DuckDB use before it spills to disk."""

_LEVEL = "CASE WHEN {0}_is_quarantined THEN 'quarantined' ELSE coalesce(CAST({0}_level AS VARCHAR), 'unknown') END"
_PRIVATE = """CASE WHEN {0}_is_quarantined THEN 'quarantined' WHEN {0}_is_private IS NULL THEN 'unknown'
    WHEN {0}_is_private THEN 'private' ELSE 'public' END"""
_SEVERITY = "(CASE WHEN {0}_level = 0 THEN 0 ELSE 5 - {0}_level END)"

Cells = Mapping[tuple[int | None, int | None], int]


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
    groups, num_unnamed_groups = _groups(database, a, may_name)
    cells = {(one.key): _cells(database, one.key) for one in ATTRIBUTES}
    private = _cells(database, "is_private")
    return RunDifference(
        a=_side(database, "a", a, private_a, matched_a),
        b=_side(database, "b", b, private_b, matched_b),
        settings=tuple(map(printable, all_differences(a.record, b.record))),
        by=by,
        num_pairs=num_pairs,
        num_by_name=num_by_name,
        num_lookalikes=_one(database, "SELECT count(phash) - count(DISTINCT phash) FROM compared"),
        num_moved=_one(database, "SELECT count(*) FROM compared WHERE a_category <> b_category"),
        levels=_table(database, _LEVEL, LEVEL_STATES),
        private_states=_table(database, _PRIVATE, PRIVATE_STATES),
        private=_paired(*_two_by_two(private)),
        private_kappa=_kappa(*_two_by_two(private)),
        attributes=_attributes(cells, {"a": never_denied(database, "a", a), "b": never_denied(database, "b", b)}),
        groups=groups,
        num_unnamed_groups=num_unnamed_groups,
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


def _cells(database: duckdb.DuckDBPyConnection, column: str) -> Cells:
    question = f"SELECT a_{column}::TINYINT, b_{column}::TINYINT, count(*) FROM compared GROUP BY ALL"
    return {(one, other): num for one, other, num in database.execute(question).fetchall()}


def _two_by_two(private: Cells) -> tuple[int, int, int, int]:
    """Both, only the first, only the second, neither."""
    return private.get((1, 1), 0), private.get((1, 0), 0), private.get((0, 1), 0), private.get((0, 0), 0)


def _paired(both: int, only_a: int, only_b: int, neither: int) -> PairedRate:
    num = both + only_a + only_b + neither
    return PairedRate(
        num_pictures=num,
        num_private_a=both + only_a,
        num_private_b=both + only_b,
        num_only_a=only_a,
        num_only_b=only_b,
        rate_a=(both + only_a) / num if num else None,
        rate_b=(both + only_b) / num if num else None,
        change=(only_b - only_a) / num if num else None,
        p_value=mcnemar_p(only_a, only_b) if num else None,
    )


def _kappa(both: int, only_a: int, only_b: int, neither: int) -> float | None:
    return known(rates(np.array([both, only_b, only_a, neither], dtype=np.float64))["kappa"])


def _attributes(
    cells: Mapping[str, Cells], never_denied_in: Mapping[Name, frozenset[str]]
) -> dict[str, AttributeChange]:
    counted = {}
    for key, of_key in cells.items():
        shared = {(one, other): num for (one, other), num in of_key.items() if one is not None and other is not None}
        both = shared.get((2, 2), 0)
        vanished = sum(num for (one, other), num in shared.items() if one == 2 != other)
        appeared = sum(num for (one, other), num in shared.items() if one != 2 == other)
        doubt = shared.get((0, 1), 0) + shared.get((1, 0), 0)
        num = sum(shared.values())
        counted[key] = (both, vanished, appeared, num - both - vanished - appeared, doubt)
    one_sided = frozenset[str]().union(*never_denied_in.values())
    tested = [key for key, found in counted.items() if sum(found[:4]) and key not in one_sided]
    p_values = {key: mcnemar_p(counted[key][1], counted[key][2]) for key in tested}
    adjusted = dict(zip(tested, holm(list(p_values.values())), strict=True))
    return {
        one.key: AttributeChange(
            level=one.level,
            num_assessed=sum(counted[one.key][:4]),
            num_only_a=sum(num for (a, b), num in cells[one.key].items() if a is not None and b is None),
            num_only_b=sum(num for (a, b), num in cells[one.key].items() if a is None and b is not None),
            num_present_a=counted[one.key][0] + counted[one.key][1],
            num_present_b=counted[one.key][0] + counted[one.key][2],
            num_appeared=counted[one.key][2],
            num_vanished=counted[one.key][1],
            num_doubt_changed=counted[one.key][4],
            never_denied_in=tuple(name for name, keys in never_denied_in.items() if one.key in keys),
            kappa=None if one.key in one_sided else _kappa(*counted[one.key][:4]),
            p_value=p_values.get(one.key),
            p_holm=adjusted.get(one.key),
        )
        for one in ATTRIBUTES
    }


def _groups(
    database: duckdb.DuckDBPyConnection, run: OpenRun, may_name: MayName
) -> tuple[tuple[GroupChange, ...], int]:
    """Those that may be named, and how many others there are; the tests are adjusted for all."""
    known_ = "a_is_private IS NOT NULL AND b_is_private IS NOT NULL"
    rows = database.execute(f"""SELECT a_category, count(*),
            count(*) FILTER (a_is_private AND b_is_private), count(*) FILTER (a_is_private AND NOT b_is_private),
            count(*) FILTER (NOT a_is_private AND b_is_private), count(*) FILTER ({known_})
        FROM compared GROUP BY ALL ORDER BY ALL LIMIT {MAX_GROUPS + 1}""").fetchall()
    if len(rows) > MAX_GROUPS:
        raise QueryError(f"--by makes more than {MAX_GROUPS:,} groups; choose something coarser")
    found = [
        (printable(group), num, _paired(both, only_a, only_b, num_known - both - only_a - only_b))
        for group, num, both, only_a, only_b, num_known in rows
    ]
    p_values = {place: paired.p_value for place, (_, _, paired) in enumerate(found) if paired.p_value is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    unnamed = unnamed_groups(database, run, may_name)
    groups = [
        GroupChange(**vars(paired), group=group, num_pairs=num, p_holm=adjusted.get(place))
        for place, (group, num, paired) in enumerate(found)
        if rows[place][0] not in unnamed
    ]
    groups.sort(key=lambda one: (_last(one.p_holm), _last(one.p_value), -abs(one.change or 0), one.group))
    return tuple(groups), len(unnamed)


def _last(p_value: float | None) -> float:
    return 2.0 if p_value is None else p_value


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
