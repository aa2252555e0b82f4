"""How much the severity scores of two runs differ. DuckDB sums, so that no rows are held in memory."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import duckdb

from ingest.sample import printable
from reports.diff.results import GroupScores, MeanChange, ScoreChange
from reports.statistics.intervals import NUM_FEW, Interval
from reports.statistics.paired_mean import interval_of_mean
from scoring.table import Col

COLUMNS = (Col.HOLISTIC_SCORE, Col.SCORE)
"""The model's own score, and that of the formula."""


def score_changes(
    database: duckdb.DuckDBPyConnection, unnamed: Collection[str], is_tested: bool
) -> tuple[ScoreChange, ...]:
    """Return the change of each column that some picture has in both runs. unnamed: groups that may not be named.
    is_tested: whether pictures are independent, so that there are intervals."""
    return tuple(change for column in COLUMNS if (change := _change(database, column, unnamed, is_tested)) is not None)


def _change(
    database: duckdb.DuckDBPyConnection, column: str, unnamed: Collection[str], is_tested: bool
) -> ScoreChange | None:
    whole = _moments(database, column, "NULL")
    if not whole:
        return None
    ((_, *moments),) = whole
    groups = [
        GroupScores(**vars(_mean_change(is_tested, *of_group)), group=printable(group))
        for group, *of_group in _moments(database, column, "category")
        if group not in unnamed
    ]
    groups.sort(key=lambda one: (-abs(one.change), one.group))
    return ScoreChange(
        **vars(_mean_change(is_tested, *moments)),
        column=column,
        spearman=_spearman(database, column),
        groups=tuple(groups),
    )


def tally(database: duckdb.DuckDBPyConnection) -> None:
    """Adds the scores of the pictures in the table `compared` that have one in both runs to those of earlier parts."""
    database.execute(
        "CREATE TABLE IF NOT EXISTS tally_scores (score VARCHAR, category VARCHAR, a DOUBLE, b DOUBLE, num BIGINT)"
    )
    for column in COLUMNS:
        database.execute(
            f"INSERT INTO tally_scores SELECT '{column}', a_category, a_{column}::DOUBLE AS a, b_{column}::DOUBLE "
            f"AS b, count(*) FROM compared WHERE a_{column} IS NOT NULL AND b_{column} IS NOT NULL GROUP BY ALL"
        )


def _moments(database: duckdb.DuckDBPyConnection, column: str, by: str) -> list[tuple[Any, ...]]:
    """Return for each group: its name, pictures, means of a, b and b − a, deviation (n − 1) of b − a, and pictures that
    differ.

    by: SQL over the tally.
    """
    return database.execute(f"""
        WITH counted AS (
            SELECT {by} AS category, a, b, sum(num) AS num FROM tally_scores WHERE score = '{column}' GROUP BY ALL
        ),
        means AS (
            SELECT category, sum(num) AS num, sum(num * a) / sum(num) AS a, sum(num * b) / sum(num) AS b,
                sum(num * (b - a)) / sum(num) AS change, coalesce(sum(num) FILTER (a <> b), 0) AS num_changed
            FROM counted GROUP BY category
        ),
        spread AS (
            SELECT counted.category, sum(counted.num * pow(counted.b - counted.a - change, 2)) AS squares
            FROM counted JOIN means ON counted.category IS NOT DISTINCT FROM means.category
            GROUP BY counted.category
        )
        SELECT means.category, num::BIGINT, a, b, change, sqrt(squares / nullif(num - 1, 0)), num_changed::BIGINT
        FROM means JOIN spread ON means.category IS NOT DISTINCT FROM spread.category""").fetchall()


def _mean_change(is_tested: bool, num: int, *moments: Any) -> MeanChange:
    """Without an interval if pictures are not independent."""
    change = mean_change(num, *moments)
    return change if is_tested else replace(change, interval=None)


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
        WITH pairs AS (SELECT a, b, sum(num) AS num FROM tally_scores WHERE score = '{column}' GROUP BY a, b),
        total AS (SELECT sum(num) AS num FROM pairs),
        ranks_a AS (SELECT a, sum(sum(num)) OVER (ORDER BY a) - (sum(num) + (FROM total)) / 2 AS place
            FROM pairs GROUP BY a),
        ranks_b AS (SELECT b, sum(sum(num)) OVER (ORDER BY b) - (sum(num) + (FROM total)) / 2 AS place
            FROM pairs GROUP BY b)
        SELECT sum(num * ranks_a.place * ranks_b.place), sum(num * ranks_a.place ** 2), sum(num * ranks_b.place ** 2)
        FROM pairs JOIN ranks_a USING (a) JOIN ranks_b USING (b)""").fetchall()
    return float(both / (of_a * of_b) ** 0.5) if of_a and of_b else None
