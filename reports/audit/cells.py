"""Cells: groups of rows about which a run says the same of one subject, such as "shows a face, P from 0.8 on".

A subject is the private decision or an attribute. Every scored row is in one cell of every subject. The sample is
drawn more densely from cells in which answers are often wrong, and errors are estimated cell by cell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.run.warehouse import Run
from scoring.gaps import not_presence_only
from scoring.privacy import PRIVATE_LEVELS, PROBABILITY_SQL, private_sql
from scoring.runs.audit_sample import NOT_JUDGED_CELL, NUM_CELLS, PRIVATE
from scoring.table import Col
from scoring.taxonomy import KEYS

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

EDGES = (0.01, 0.05, 0.2, 0.5, 0.8)
"""Where a stored probability passes from one cell into the next. More cells made the intervals no shorter (simulated),
and those of rare subjects too high."""

_MIDDLES = (0.004, 0.025, 0.1, 0.33, 0.65, 0.92)
NUM_BINS = len(_MIDDLES)

ABSENT, NEAR, NOT_JUDGED, UNCLEAR, PRESENT = range(2 * NUM_BINS, NUM_CELLS)
"""Cells of rows without a probability. NEAR: not private, but with attributes of level 3 or 4. UNCLEAR: 0.5, or a null
where the engine answers for other images. NOT_JUDGED: any other null. The first 6 cells are by probability, of rows
that are not answered "yes"; the next 6 of rows that are."""

assert NOT_JUDGED == NOT_JUDGED_CELL

IS_YES: Flags = np.isin(np.arange(NUM_CELLS), [*range(NUM_BINS, 2 * NUM_BINS), PRESENT])
"""The cells whose rows the run answers with 1."""


@dataclass(frozen=True)
class SubjectSql:
    """SQL over `AuditSql.scored`, for one subject."""

    answer: str
    """1 if the run says yes, another number if it does not, null if it does not know."""

    cell: str
    """Number of the cell, never null."""


@dataclass(frozen=True)
class AuditSql:
    """SQL for the questions of an audit."""

    scored: str
    """What to read from: the scored images, with what is computed once for each."""

    subjects: Mapping[str, SubjectSql]
    """The SQL of the private decision and of each attribute."""

    @property
    def cells(self) -> str:
        """The cells of all subjects, as `SQL AS cell_…`."""
        return ", ".join(f"{sql.cell} AS cell_{subject}" for subject, sql in self.subjects.items())


def audit_sql(run: Run, private: str) -> AuditSql:
    """private: SQL condition; QueryError if it is none over the rows."""
    engine = run.record.engine
    scored = (
        f"(SELECT *, ({private_sql(private, engine)}) AS is_private, {PROBABILITY_SQL} AS chance_private FROM scored)"
    )
    others = [
        f"WHEN is_private IS NULL OR level_high IN {PRIVATE_LEVELS} THEN {UNCLEAR}",
        f"WHEN level IN (3, 4) THEN {NEAR}",
    ]
    subjects = {PRIVATE: SubjectSql("is_private::TINYINT", _cell_sql("chance_private", "is_private", others))}
    for key in KEYS:
        null = UNCLEAR if key in not_presence_only(engine) else NOT_JUDGED
        others = [f"WHEN {key} = 0.5 THEN {UNCLEAR}", f"WHEN {key} IS NULL THEN {null}"]
        subjects[key] = SubjectSql(key, _cell_sql(Col.prob(key), f"{key} = 1", others))
    return AuditSql(scored, subjects)


def _cell_sql(probability: str, is_yes: str, others: Sequence[str]) -> str:
    """others: branches for rows without a probability that are not answered with yes."""
    bins = " ".join(f"WHEN {probability} < {edge} THEN {number}" for number, edge in enumerate(EDGES))
    # Not NaN, which a damaged file may hold and DuckDB takes for the largest number.
    binned = f"CASE {bins} WHEN {probability} <= 1 THEN {NUM_BINS - 1} END"
    shift = f"CASE WHEN {is_yes} THEN {NUM_BINS} ELSE 0 END"
    plain = f"CASE WHEN {is_yes} THEN {PRESENT} {' '.join(others)} ELSE {ABSENT} END"
    return f"coalesce({binned} + {shift}, {plain})::TINYINT"


def guesses(num_images: Counts | Numbers) -> Numbers:
    """Our guess before any label: the share of each cell in which the subject is truly there. Shape (NUM_CELLS,).

    It decides only where labels are placed, and which cells are alike: a wrong guess widens intervals and biases
    nothing. num_images: of each cell of the run, shape (NUM_CELLS,).
    """
    rate = min(0.9, float(num_images[IS_YES].sum()) / max(1.0, float(num_images.sum())))
    missed = 0.2 * rate / (1 - rate)
    shares = np.empty(NUM_CELLS)
    shares[: 2 * NUM_BINS] = np.clip(np.tile(_MIDDLES, 2), max(0.1 * rate, 0.001), 0.9)
    shares[ABSENT] = np.clip(missed, 0.002, 0.3)
    shares[NEAR] = np.clip(3 * missed, 0.01, 0.4)
    shares[NOT_JUDGED] = np.clip(rate, 0.02, 0.5)
    shares[UNCLEAR], shares[PRESENT] = 0.5, 0.8
    return shares
