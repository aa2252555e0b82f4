"""Changes between two runs: attributes, the shares of private pictures, and severity scores.

DuckDB counts the pictures of the table `compared`, so that no rows are held in memory. If pictures are not independent
(`is_tested` is false), there are no p-values and no intervals.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

import duckdb
import numpy as np
import numpy.typing as npt

from ingest.sample import printable
from reports.diff.results import AttributeChange, GroupChange, PairedRate, ScoreChange
from reports.statistics.binary import kappa_of
from reports.statistics.intervals import NUM_FEW, Interval
from reports.statistics.paired import adjusted_p_values, interval_of_mean, seldom_denies
from scoring.table import Col
from scoring.taxonomy import ATTRIBUTES

ABSENT, DOUBT, PRESENT, OPEN = 0, 1, 2, -1
"""Answers of a scored picture. OPEN: it has no answer to this question. In lists of counts OPEN is the last."""

ANSWERED, NOT_PRESENT = (ABSENT, DOUBT, PRESENT), (ABSENT, DOUBT)

Cells = Mapping[tuple[int | None, int | None], int]
"""Answers of both runs -> number of pictures. None: the engine was not asked or could not answer."""

_SCORED = "NOT {0}_is_quarantined AND NOT {0}_is_screened"

_BOTH_SCORED = f"{_SCORED.format('a')} AND {_SCORED.format('b')}"
_COUNTED = {
    "both": "a_is_private AND b_is_private",
    "only_a": "a_is_private AND NOT b_is_private",
    "only_b": "NOT a_is_private AND b_is_private",
    "neither": "NOT a_is_private AND NOT b_is_private",
    "only_a_open_b": f"a_is_private AND b_is_private IS NULL AND {_BOTH_SCORED}",
    "only_b_open_a": f"a_is_private IS NULL AND b_is_private AND {_BOTH_SCORED}",
    "public_a_open_b": f"NOT a_is_private AND b_is_private IS NULL AND {_BOTH_SCORED}",
    "public_b_open_a": f"a_is_private IS NULL AND NOT b_is_private AND {_BOTH_SCORED}",
    "private_a": "a_is_private",
    "public_a": "NOT a_is_private",
    "open_a": f"a_is_private IS NULL AND {_SCORED.format('a')}",
    "private_b": "b_is_private",
    "public_b": "NOT b_is_private",
    "open_b": f"b_is_private IS NULL AND {_SCORED.format('b')}",
}
"""Name -> SQL condition of the pictures of a group that are counted."""

_CHANGES = ("only_a", "only_b", "only_a_open_b", "only_b_open_a", "public_a_open_b", "public_b_open_a")

Counts = Mapping[str, npt.NDArray[np.int64]]
"""Names of `_COUNTED` -> shape (groups,)."""

SCORE_COLUMNS = (Col.HOLISTIC_SCORE, Col.SCORE)
"""The model's own score, and that of the formula."""


def attribute_changes(
    database: duckdb.DuckDBPyConnection, declared_a: Collection[str], declared_b: Collection[str], is_tested: bool
) -> dict[str, AttributeChange]:
    """Return the change of each attribute, by key.

    declared_a, declared_b: attributes that each run says it never denies (`scoring.table.presence_only`).
    """
    cells_of = {attribute.key: _cells(database, attribute.key) for attribute in ATTRIBUTES}
    change_of = {
        attribute.key: _attribute_change(
            attribute.level, cells_of[attribute.key], attribute.key in declared_a, attribute.key in declared_b
        )
        for attribute in ATTRIBUTES
    }
    ways = (([PRESENT], NOT_PRESENT), ([PRESENT], [OPEN]), (NOT_PRESENT, [OPEN]))
    counts = [[_num(cells, *answers) for way in ways for answers in (way, way[::-1])] for cells in cells_of.values()]
    has_test = np.array([is_tested and not item.seldom_denied_in for item in change_of.values()])
    p_values = adjusted_p_values(np.array(counts), has_test)
    return {
        key: replace(change_of[key], p_value=p_value, p_holm=p_holm)
        for key, (p_value, p_holm) in zip(change_of, p_values, strict=True)
    }


def _cells(database: duckdb.DuckDBPyConnection, key: str) -> Cells:
    answer = f"CASE WHEN {_SCORED} THEN coalesce({{0}}_{key}, {OPEN}) END"
    question = f"SELECT {answer.format('a')} AS a, {answer.format('b')} AS b, count(*) FROM compared GROUP BY ALL"
    return {(of_a, of_b): num for of_a, of_b, num in database.execute(question).fetchall()}


def _num(cells: Cells, of_a: Collection[int | None], of_b: Collection[int | None]) -> int:
    return sum(cells.get((answer_a, answer_b), 0) for answer_a in of_a for answer_b in of_b)


def _attribute_change(level: int, cells: Cells, is_declared_a: bool, is_declared_b: bool) -> AttributeChange:
    num = partial(_num, cells)
    anything = (*ANSWERED, OPEN, None)
    in_a = [num([answer], anything) for answer in (*ANSWERED, OPEN)]
    in_b = [num(anything, [answer]) for answer in (*ANSWERED, OPEN)]
    one_sided = tuple(
        name
        for name, counts, is_declared in (("a", in_a, is_declared_a), ("b", in_b, is_declared_b))
        if (is_declared and sum(counts[:OPEN]) > 0)
        or seldom_denies(counts[DOUBT] + counts[PRESENT], counts[ABSENT], counts[OPEN])
    )
    both, vanished, appeared = num([PRESENT], [PRESENT]), num([PRESENT], NOT_PRESENT), num(NOT_PRESENT, [PRESENT])
    return AttributeChange(
        level=level,
        num_assessed=num(ANSWERED, ANSWERED),
        num_only_a=num(ANSWERED, [OPEN, None]),
        num_only_b=num([OPEN, None], ANSWERED),
        num_present_a=both + vanished,
        num_present_b=both + appeared,
        num_appeared=appeared,
        num_vanished=vanished,
        num_doubt_changed=num([ABSENT], [DOUBT]) + num([DOUBT], [ABSENT]),
        num_present_a_open_b=num([PRESENT], [OPEN]),
        num_present_b_open_a=num([OPEN], [PRESENT]),
        seldom_denied_in=one_sided,
        kappa=None if one_sided else kappa_of(both, vanished, appeared, num(NOT_PRESENT, NOT_PRESENT)),
        p_value=None,
        p_holm=None,
    )


def private_shares(
    database: duckdb.DuckDBPyConnection, is_tested: bool
) -> tuple[PairedRate, float | None, tuple[GroupChange, ...]]:
    """Compare the private shares of all pictures, with Cohen's κ, and of each group."""
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in _COUNTED.values())
    question = f"SELECT a_category, count(*), {counts} FROM compared GROUP BY ALL ORDER BY a_category"
    rows = database.execute(question).fetchall()
    table = np.array([row[2:] for row in rows], dtype=np.int64).reshape(len(rows), len(_COUNTED))
    ((whole, _),) = _paired(dict(zip(_COUNTED, table.sum(axis=0)[:, None], strict=True)), is_tested)
    of_groups = _paired(dict(zip(_COUNTED, table.T, strict=True)), is_tested)
    groups = [
        GroupChange(**vars(paired), group=printable(row[0]), num_pairs=row[1], p_holm=p_holm)
        for row, (paired, p_holm) in zip(rows, of_groups, strict=True)
    ]
    groups.sort(key=lambda group: (_last(group.p_holm), _last(group.p_value), -abs(group.change or 0), group.group))
    kappa = None if whole.seldom_denied_in else kappa_of(*table[:, :4].sum(axis=0).tolist())
    return whole, kappa, tuple(groups)


def _paired(counts: Counts, is_tested: bool) -> list[tuple[PairedRate, float | None]]:
    """Return the paired rate of each group, and its p-value adjusted for all groups."""
    seldom = {
        name: seldom_denies(*(counts[f"{answer}_{name}"] for answer in ("private", "public", "open")))
        for name in ("a", "b")
    }
    changes = np.stack([counts[name] for name in _CHANGES], axis=1)
    p_values = adjusted_p_values(changes, ~(seldom["a"] | seldom["b"]) & is_tested)
    rates = []
    for index, (p_value, p_holm) in enumerate(p_values):
        of_group = {name: int(column[index]) for name, column in counts.items()}
        num = sum(list(of_group.values())[:4])
        num_a, num_b = (of_group["both"] + of_group[only] for only in ("only_a", "only_b"))
        paired = PairedRate(
            num_pictures=num,
            num_private_a=num_a,
            num_private_b=num_b,
            num_only_a=of_group["only_a"],
            num_only_b=of_group["only_b"],
            rate_a=num_a / num if num else None,
            rate_b=num_b / num if num else None,
            change=(num_b - num_a) / num if num else None,
            num_private_a_open_b=of_group["only_a_open_b"],
            num_private_b_open_a=of_group["only_b_open_a"],
            seldom_denied_in=tuple(name for name in ("a", "b") if seldom[name][index]),
            p_value=p_value,
        )
        rates.append((paired, p_holm))
    return rates


def _last(p_value: float | None) -> float:
    return 2.0 if p_value is None else p_value


def score_changes(database: duckdb.DuckDBPyConnection, is_tested: bool) -> tuple[ScoreChange, ...]:
    """Return the change of each score column that some picture has in both runs."""
    changes = list[ScoreChange]()
    for column in SCORE_COLUMNS:
        # The scores that pictures have in both runs, with the number of pictures of each pair.
        pairs = f"""SELECT a_{column}::DOUBLE AS a, b_{column}::DOUBLE AS b, count(*) AS num FROM compared
            WHERE a_{column} IS NOT NULL AND b_{column} IS NOT NULL GROUP BY ALL"""
        # The standard deviation (n − 1) of b − a; null of a single picture.
        ((num, mean_a, mean_b, change, deviation, num_changed),) = database.execute(f"""
            WITH pairs AS ({pairs}), means AS (
                SELECT sum(num) AS n, sum(num * a) / n AS a, sum(num * b) / n AS b, sum(num * (b - a)) / n AS change,
                    coalesce(sum(num) FILTER (a <> b), 0) AS num_changed FROM pairs
            )
            SELECT means.n::BIGINT, means.a, means.b, change,
                (SELECT sqrt(sum(num * pow(b - a - change, 2)) / nullif(means.n - 1, 0)) FROM pairs),
                num_changed::BIGINT FROM means""").fetchall()
        if num:
            interval = Interval(*interval_of_mean(num, change, deviation or 0.0), num_changed < NUM_FEW)
            spearman = _spearman(database, pairs)
            changes.append(ScoreChange(num, mean_a, mean_b, change, interval if is_tested else None, column, spearman))
    return tuple(changes)


def _spearman(database: duckdb.DuckDBPyConnection, scores: str) -> float | None:
    """Return the rank correlation, with mean ranks for ties; None if one run is constant. scores: SQL of the distinct
    pairs of scores a and b, with their number."""
    ((both, of_a, of_b),) = database.execute(f"""
        WITH pairs AS ({scores}),
        total AS (SELECT sum(num) AS num FROM pairs),
        ranks_a AS (SELECT a, sum(sum(num)) OVER (ORDER BY a) - (sum(num) + (FROM total)) / 2 AS place
            FROM pairs GROUP BY a),
        ranks_b AS (SELECT b, sum(sum(num)) OVER (ORDER BY b) - (sum(num) + (FROM total)) / 2 AS place
            FROM pairs GROUP BY b)
        SELECT sum(num * ranks_a.place * ranks_b.place), sum(num * ranks_a.place ** 2), sum(num * ranks_b.place ** 2)
        FROM pairs JOIN ranks_a USING (a) JOIN ranks_b USING (b)""").fetchall()
    return float(both / (of_a * of_b) ** 0.5) if of_a and of_b else None
