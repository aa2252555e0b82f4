"""SQL that puts each row of a run into a cell of `reports.statistics.estimates`, and the number of rows in each cell.

The subjects are the private decision and the attributes. DuckDB counts in one pass over the rows for each question, so
that memory does not grow with the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reports.run.warehouse import Run
from reports.statistics.estimates import ABSENT, EDGES, NEAR, NOT_JUDGED, NUM_BINS, NUM_CELLS, PRESENT, UNCLEAR, Counts
from reports.words import NO_GROUP
from scoring.privacy import PRIVATE_LEVELS, PROBABILITY_SQL, private_sql
from scoring.runs.audit_files import NOT_JUDGED_CELL, PRIVATE, SUBJECTS
from scoring.runs.audit_files import NUM_CELLS as NUM_STORED_CELLS
from scoring.table import Col, not_presence_only
from scoring.taxonomy import KEYS

assert NUM_CELLS == NUM_STORED_CELLS
assert NOT_JUDGED == NOT_JUDGED_CELL

MAX_CATEGORIES = 1_000
"""A run with more categories gets no corrected rates per category."""

_CATEGORY = f"coalesce(category, '{NO_GROUP}')"
_ALL = "NULL"


@dataclass(frozen=True)
class AuditSql:
    scored: str
    """What to read from: the scored images, with what is computed once for each."""

    answers: Mapping[str, str]
    """Subject -> 1 if the run says yes, another number if it does not, null if it does not know."""

    cells: str
    """Number of the cell of each subject, never null, as columns `SQL AS cell_…`."""


def audit_sql(run: Run, private: str) -> AuditSql:
    """Return the SQL for an audit of the run.

    private: SQL condition. QueryError if it is not a condition over the rows.
    """
    engine = run.record.engine
    scored = (
        f"(SELECT *, ({private_sql(private, engine)}) AS is_private, {PROBABILITY_SQL} AS chance_private FROM scored)"
    )
    others = [
        f"WHEN is_private IS NULL OR level_high IN {PRIVATE_LEVELS} THEN {UNCLEAR}",
        f"WHEN level IN (3, 4) THEN {NEAR}",
    ]
    cells = [f"{_cell_sql('chance_private', 'is_private', others)} AS cell_{PRIVATE}"]
    for key in KEYS:
        null = UNCLEAR if key in not_presence_only(engine) else NOT_JUDGED
        others = [f"WHEN {key} = 0.5 THEN {UNCLEAR}", f"WHEN {key} IS NULL THEN {null}"]
        cells.append(f"{_cell_sql(Col.prob(key), f'{key} = 1', others)} AS cell_{key}")
    return AuditSql(scored, {PRIVATE: "is_private::TINYINT", **{key: key for key in KEYS}}, ", ".join(cells))


def _cell_sql(probability: str, is_yes: str, others: Sequence[str]) -> str:
    """Return the SQL of a row's cell.

    others: branches for rows without a probability that are not answered with yes.
    """
    bins = " ".join(f"WHEN {probability} < {edge} THEN {number}" for number, edge in enumerate(EDGES))
    # `<= 1` leaves out NaN, which a damaged file may hold: DuckDB treats it as the largest number.
    binned = f"CASE {bins} WHEN {probability} <= 1 THEN {NUM_BINS - 1} END"
    shift = f"CASE WHEN {is_yes} THEN {NUM_BINS} ELSE 0 END"
    plain = f"CASE WHEN {is_yes} THEN {PRESENT} {' '.join(others)} ELSE {ABSENT} END"
    return f"coalesce({binned} + {shift}, {plain})::TINYINT"


@dataclass(frozen=True)
class CellCounts:
    """Scored images in each cell."""

    categories: tuple[str, ...]
    """Sorted; empty if there are more than `MAX_CATEGORIES`."""

    of_run: dict[str, Counts]
    """Subject -> shape (NUM_CELLS,)."""

    of_categories: dict[str, Counts]
    """Subject -> shape (number of categories, NUM_CELLS)."""


@dataclass(frozen=True)
class RawCounts:
    """Answers of the run about one subject."""

    num_yes: int
    num_no: int

    num_answered: int
    """With yes, no or 0.5."""

    num_scored: int

    @property
    def is_lower_bound(self) -> bool:
        """Return whether the raw rate is a lower bound: the engine finds the subject in some images and never rules it
        out."""
        return self.num_no == 0 and 0 < self.num_answered < self.num_scored

    @property
    def rate(self) -> float | None:
        """Return the share of yes among the images with an answer, or among all scored images if it is a lower bound,
        as in reports. None without such images."""
        num_images = self.num_scored if self.is_lower_bound else self.num_answered
        return self.num_yes / num_images if num_images else None


def cell_counts(run: Run, sql: AuditSql, by_category: bool = False) -> CellCounts:
    """Count the scored images in each cell; also per category, if `by_category` is set and there are not too many."""
    names: tuple[str, ...] = ()
    if by_category:
        categories = run.ask("audit_categories", category=_CATEGORY, most=str(MAX_CATEGORIES + 1))
        names = tuple(sorted(row["category"] for row in categories)) if len(categories) <= MAX_CATEGORIES else ()
    numbers = " ".join(f"WHEN cell_{subject} IS NOT NULL THEN {number}" for number, subject in enumerate(SUBJECTS))
    rows = run.ask(
        "audit_cells",
        category=_CATEGORY if names else _ALL,
        scored=sql.scored,
        cells=sql.cells,
        sets=", ".join(f"(category, cell_{subject})" for subject in SUBJECTS),
        subject=f"CASE {numbers} END",
        cell=f"coalesce({', '.join(f'cell_{subject}' for subject in SUBJECTS)})",
    )
    places = {name: index for index, name in enumerate(names)}
    totals = np.zeros((len(SUBJECTS), max(1, len(names)), NUM_CELLS), dtype=np.int64)
    for row in rows:
        totals[row["subject"], places.get(row["category"], 0), row["cell"]] += row["num_images"]
    of_categories = {subject: counts[: len(names)] for subject, counts in zip(SUBJECTS, totals, strict=True)}
    return CellCounts(names, dict(zip(SUBJECTS, totals.sum(axis=1), strict=True)), of_categories)


def raw_counts(run: Run, sql: AuditSql, categories: tuple[str, ...] = ()) -> dict[str | None, dict[str, RawCounts]]:
    """Count the answers of the run: category, or None for the whole run -> subject -> answers.

    categories: without any, only the whole run is counted.
    """
    counts = ", ".join(
        f"count(*) FILTER ({answer} = 1) AS yes_{subject}, count(*) FILTER ({answer} = 0) AS no_{subject}, "
        f"count({answer}) AS any_{subject}"
        for subject, answer in sql.answers.items()
    )
    rows = run.ask("audit_answers", scored=sql.scored, category=_CATEGORY if categories else _ALL, counts=counts)
    counts_by_category: dict[str | None, dict[str, RawCounts]] = {}
    for subject in SUBJECTS:
        columns = [f"yes_{subject}", f"no_{subject}", f"any_{subject}", "num_scored"]
        of_categories = {row["category"]: [int(row[column]) for column in columns] for row in rows}
        total = np.array([*of_categories.values(), [0, 0, 0, 0]]).sum(axis=0)
        counts_by_category.setdefault(None, {})[subject] = RawCounts(*map(int, total))
        for category in categories:
            counts_by_category.setdefault(category, {})[subject] = RawCounts(*of_categories[category])
    return counts_by_category
