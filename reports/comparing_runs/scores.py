"""How much the severity scores of two runs differ. DuckDB sums, so that no rows are held in memory."""

from collections.abc import Collection

import duckdb

from ingest.sample import printable
from reports.comparing_runs.results import GroupScores, MeanChange, ScoreChange
from reports.evaluation.intervals import NUM_FEW, Interval
from reports.statistics.paired_mean import interval_of_mean

COLUMNS = ("holistic_score", "score")
"""The model's own score, and that of the formula."""


def score_changes(database: duckdb.DuckDBPyConnection, unnamed: Collection[str]) -> tuple[ScoreChange, ...]:
    """Of each column that some picture has in both runs. unnamed: groups that may not be named."""
    return tuple(found for column in COLUMNS if (found := _change(database, column, unnamed)) is not None)


def _change(database: duckdb.DuckDBPyConnection, column: str, unnamed: Collection[str]) -> ScoreChange | None:
    sums = f"count(*), avg(a), avg(b), avg(b - a), stddev_samp(b - a), count_if(a <> b) FROM {_both(column)}"
    ((num, *moments),) = database.execute(f"SELECT {sums}").fetchall()
    if not num:
        return None
    groups = [
        GroupScores(**vars(mean_change(*of_group)), group=printable(group))
        for group, *of_group in database.execute(f"SELECT category, {sums} GROUP BY category").fetchall()
        if group not in unnamed
    ]
    groups.sort(key=lambda one: (-abs(one.change), one.group))
    return ScoreChange(
        **vars(mean_change(num, *moments)),
        column=column,
        spearman=_spearman(database, column),
        groups=tuple(groups),
    )


def _both(column: str) -> str:
    """Rows a and b: the scores of the pictures that have one in both runs."""
    return (
        f"(SELECT a_category AS category, a_{column}::DOUBLE AS a, b_{column}::DOUBLE AS b FROM compared "
        f"WHERE a_{column} IS NOT NULL AND b_{column} IS NOT NULL)"
    )


def mean_change(
    num: int, mean_a: float, mean_b: float, change: float, deviation: float | None, num_changed: int
) -> MeanChange:
    """change, deviation: mean and standard deviation (n − 1) of b − a; no deviation of a single picture.

    num_changed: pictures whose scores differ.
    """
    ends = interval_of_mean(num, change, deviation or 0.0)
    return MeanChange(num, mean_a, mean_b, change, Interval(*ends, num_changed < NUM_FEW))


def _spearman(database: duckdb.DuckDBPyConnection, column: str) -> float | None:
    """Rank correlation with mean ranks for ties, from the distinct pairs of scores; None if one run is constant."""
    ((both, of_a, of_b),) = database.execute(f"""
        WITH pairs AS (SELECT a, b, count(*) AS num FROM {_both(column)} GROUP BY a, b),
        total AS (SELECT sum(num) AS num FROM pairs),
        ranks_a AS (SELECT a, sum(sum(num)) OVER (ORDER BY a) - (sum(num) + (FROM total)) / 2 AS place
            FROM pairs GROUP BY a),
        ranks_b AS (SELECT b, sum(sum(num)) OVER (ORDER BY b) - (sum(num) + (FROM total)) / 2 AS place
            FROM pairs GROUP BY b)
        SELECT sum(num * ranks_a.place * ranks_b.place), sum(num * ranks_a.place ** 2), sum(num * ranks_b.place ** 2)
        FROM pairs JOIN ranks_a USING (a) JOIN ranks_b USING (b)""").fetchall()
    return float(both / (of_a * of_b) ** 0.5) if of_a and of_b else None
