"""SQL that puts each row of a run into a cell of `reports.statistics.estimates`, and the number of rows in each cell.

The subjects are the private decision and the attributes. DuckDB counts in one pass over the rows for each question, so
that memory does not grow with the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reports.run.warehouse import Run
from reports.statistics.estimates import (
    ABSENT,
    EDGES,
    GUARDED,
    NEAR,
    NOT_JUDGED,
    NUM_BINS,
    NUM_CELLS,
    PRESENT,
    UNCLEAR,
    Numbers,
    masses_of,
)
from reports.words import NO_GROUP
from scoring.privacy import PRIVATE_LEVELS, PROBABILITY_SQL, private_sql
from scoring.runs.audit_files import NUM_CELLS as NUM_STORED_CELLS
from scoring.runs.audit_files import PRIVATE, SUBJECTS
from scoring.table import GUARD, Col, not_presence_only
from scoring.taxonomy import KEYS

assert NUM_CELLS == NUM_STORED_CELLS

MAX_CATEGORIES = 1_000
"""A run with more categories gets no corrected rates per category."""

CATEGORY = f"coalesce(category, '{NO_GROUP}')"
ALL = "NULL"
"""SQL of groups: one for each category, or one for the whole run."""


@dataclass(frozen=True)
class AuditSql:
    scored: str
    """What to read from: the scored images, with what is computed once for each."""

    answers: Mapping[str, str]
    """Subject -> 1 if the run says yes, another number if it does not, null if it does not know."""

    cells: Mapping[str, str]
    """Subject -> number of the cell, never null."""

    num_screened: int
    """Images that a screen left out."""

    guard_mass: float
    """Images that a guarded image represents, itself included; 1 if there is none."""

    @property
    def columns(self) -> str:
        return ", ".join(f"{cell}::TINYINT AS cell_{subject}" for subject, cell in self.cells.items())


def audit_sql(run: Run, private: str) -> AuditSql:
    """Return the SQL for an audit. private: SQL condition; QueryError if it is not one over the rows of the run."""
    engine = run.record.engine
    (row,) = run.ask("audit_guard")
    num_screened, num_guarded = row["num_screened"], row["num_guarded"]
    guard_mass = 1 + num_screened / num_guarded if num_guarded else 1.0
    scored = (
        f"(SELECT *, ({private_sql(private, engine)}) AS is_private, {PROBABILITY_SQL} AS chance_private FROM scored)"
    )
    others = [
        f"WHEN is_private IS NULL OR level_high IN {PRIVATE_LEVELS} THEN {UNCLEAR}",
        f"WHEN level IN (3, 4) THEN {NEAR}",
    ]
    cells = {PRIVATE: _cell_sql("chance_private", "is_private", others)}
    for key in KEYS:
        null = UNCLEAR if key in not_presence_only(engine) else NOT_JUDGED
        others = [f"WHEN {key} = 0.5 THEN {UNCLEAR}", f"WHEN {key} IS NULL THEN {null}"]
        cells[key] = _cell_sql(Col.prob(key), f"{key} = 1", others)
    answers = {PRIVATE: "is_private::TINYINT", **{key: key for key in KEYS}}
    return AuditSql(scored, answers, cells, num_screened, guard_mass)


def _cell_sql(probability: str, is_yes: str, others: Sequence[str]) -> str:
    """Return the SQL of a row's cell. others: branches for rows without a probability that are not answered yes."""
    bins = " ".join(f"WHEN {probability} < {edge} THEN {number}" for number, edge in enumerate(EDGES))
    # `<= 1` leaves out NaN, which a damaged file may hold: DuckDB treats it as the largest number.
    binned = f"CASE {bins} WHEN {probability} <= 1 THEN {NUM_BINS - 1} END"
    shift = f"CASE WHEN {is_yes} THEN {NUM_BINS} ELSE 0 END"
    plain = f"CASE WHEN {is_yes} THEN {PRESENT} {' '.join(others)} ELSE {ABSENT} END"
    guard = f"CASE WHEN coalesce(stage = '{GUARD}', false) THEN {GUARDED} ELSE 0 END"
    return f"(coalesce({binned} + {shift}, {plain}) + {guard})"


NO_ANSWER, NO, UNSURE, YES = range(4)
"""Answers of the run about a subject."""


@dataclass(frozen=True)
class CellCounts:
    """Images of the population by the run's answer and by cell: a guarded image counts as all that it represents."""

    categories: tuple[str, ...]
    """Sorted; empty if there are more than `MAX_CATEGORIES`, or a screen: few images of each category are guarded."""

    of_answers: Mapping[str, Numbers]
    """Subject -> shape (number of categories, or 1, 4 answers, NUM_CELLS)."""

    guard_mass: float = 1.0

    num_hidden: int = 0
    """Images that a screen left out, if nothing represents them. They are in no answer."""

    def num_images(self, subject: str, weights: Numbers | None = None) -> Numbers:
        """Return the images in each cell, shape (NUM_CELLS,). weights: of an image of each category; None: 1."""
        counts = self.of_categories(subject)
        total = counts.sum(axis=0) if weights is None else weights @ counts
        total[GUARDED + NOT_JUDGED] += self.num_hidden
        return np.asarray(total, dtype=np.float64)

    def of_categories(self, subject: str) -> Numbers:
        """Return the images of each category in each cell, shape (number of categories, NUM_CELLS)."""
        return np.asarray(self.of_answers[subject].sum(axis=1), dtype=np.float64)

    def raw(self, subject: str, weights: Numbers | None = None) -> "RawCounts":
        """Return the answers of the run about a subject. weights: as in `num_images`."""
        of_categories = self.of_answers[subject].sum(axis=2)
        return RawCounts(of_categories.sum(axis=0) if weights is None else weights @ of_categories)


@dataclass(frozen=True)
class RawCounts:
    """Answers of the run about one subject; a guarded image counts as all that it represents."""

    counts: Numbers
    """Shape (4,): of each answer."""

    @property
    def num_answered(self) -> float:
        """Return the number of images answered with yes, no or 0.5."""
        return float(self.counts[NO:].sum())

    @property
    def num_scored(self) -> float:
        return float(self.counts.sum())

    @property
    def is_lower_bound(self) -> bool:
        """Return whether the raw rate is a lower bound: the engine finds the subject in some images and never rules it
        out."""
        return float(self.counts[NO]) == 0 and 0 < self.num_answered < self.num_scored

    @property
    def rate(self) -> float | None:
        """Return the share of yes among the images with an answer, or among all scored images if it is a lower bound,
        as in reports. None without such images."""
        num_images = self.num_scored if self.is_lower_bound else self.num_answered
        return float(self.counts[YES]) / num_images if num_images else None


def cell_counts(run: Run, sql: AuditSql, by_category: bool = False) -> CellCounts:
    """Count the images in each cell; also per category, if `by_category` is set and there are not too many."""
    is_split = False
    if by_category and not sql.num_screened:
        is_split = len(run.ask("audit_categories", category=CATEGORY, most=str(MAX_CATEGORIES + 1))) <= MAX_CATEGORIES
    names, counts = counts_by(run, sql, CATEGORY if is_split else ALL)
    num_hidden = sql.num_screened if sql.guard_mass == 1 else 0
    return CellCounts(names if is_split else (), counts, sql.guard_mass, num_hidden)


def counts_by(run: Run, sql: AuditSql, group: str) -> tuple[tuple[str, ...], dict[str, Numbers]]:
    """Count images: the groups, sorted; subject -> shape (groups, 4 answers, NUM_CELLS). group: SQL value."""
    cells = []
    for subject, answer in sql.answers.items():
        number = f"CASE WHEN {answer} IS NULL THEN {NO_ANSWER} WHEN {answer} = 0 THEN {NO} WHEN {answer} = 1 THEN {YES}"
        cells.append(f"{sql.cells[subject]} + {NUM_CELLS} * {number} ELSE {UNSURE} END AS cell_{subject}")
    numbers = " ".join(f"WHEN cell_{subject} IS NOT NULL THEN {number}" for number, subject in enumerate(SUBJECTS))
    rows = run.ask(
        "audit_cells",
        category=group,
        scored=sql.scored,
        cells=", ".join(cells),
        sets=", ".join(f"(category, cell_{subject})" for subject in SUBJECTS),
        subject=f"CASE {numbers} END",
        cell=f"coalesce({', '.join(f'cell_{subject}' for subject in SUBJECTS)})",
    )
    names = sorted({row["category"] for row in rows}, key=str)
    places = {name: index for index, name in enumerate(names)}
    totals = np.zeros((len(SUBJECTS), max(1, len(names)), 4, NUM_CELLS))
    for row in rows:
        totals[row["subject"], places[row["category"]], *divmod(row["cell"], NUM_CELLS)] += row["num_images"]
    totals *= masses_of(sql.guard_mass)
    return tuple(names), dict(zip(SUBJECTS, totals, strict=True))
