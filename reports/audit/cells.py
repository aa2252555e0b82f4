"""In which cell of `reports.statistics.cells` each row of a run is, as SQL, and how many rows each cell has.

The subjects are the private decision and the attributes. DuckDB counts in one pass over the rows for each question, so
that memory does not grow with the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.run.warehouse import Run
from reports.statistics.cells import ABSENT, EDGES, NEAR, NOT_JUDGED, NUM_BINS, NUM_CELLS, PRESENT, UNCLEAR
from scoring.gaps import not_presence_only
from scoring.privacy import PRIVATE_LEVELS, PROBABILITY_SQL, private_sql
from scoring.runs.audit_sample import NOT_JUDGED_CELL, PRIVATE
from scoring.runs.audit_sample import NUM_CELLS as NUM_STORED_CELLS
from scoring.taxonomy import KEYS

assert NUM_CELLS == NUM_STORED_CELLS
assert NOT_JUDGED == NOT_JUDGED_CELL


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
        subjects[key] = SubjectSql(key, _cell_sql(f"prob_{key}", f"{key} = 1", others))
    return AuditSql(scored, subjects)


def _cell_sql(probability: str, is_yes: str, others: Sequence[str]) -> str:
    """others: branches for rows without a probability that are not answered with yes."""
    bins = " ".join(f"WHEN {probability} < {edge} THEN {number}" for number, edge in enumerate(EDGES))
    # Not NaN, which a damaged file may hold and DuckDB takes for the largest number.
    binned = f"CASE {bins} WHEN {probability} <= 1 THEN {NUM_BINS - 1} END"
    shift = f"CASE WHEN {is_yes} THEN {NUM_BINS} ELSE 0 END"
    plain = f"CASE WHEN {is_yes} THEN {PRESENT} {' '.join(others)} ELSE {ABSENT} END"
    return f"coalesce({binned} + {shift}, {plain})::TINYINT"
