"""Rates that labels of people have corrected, if `audit apply` has left some in the run."""

from dataclasses import dataclass, field, fields, replace

from reports.audit.results import CONTRADICTED
from reports.report.figures import CorrectedRate
from reports.warehouse import Run
from scoring.runs.audit_sample import PRIVATE
from scoring.runs.corrected_rates import LabelGaps, read_stored


@dataclass(frozen=True)
class Corrected:
    """What an audit has left."""

    rates: tuple[CorrectedRate, ...] = ()
    """Of the report's condition and groups only; empty if there are none."""

    gaps: LabelGaps = field(default_factory=LabelGaps)
    """What the labels leave open."""

    other_condition: str | None = None
    """What the audit took as private, if that is not what the report does."""

    is_stale: bool = False
    """The audit is of other rows than the run has now, so its rates are left out."""


def corrected_rates(run: Run, by: str, private: str) -> Corrected:
    """by, private: as in the report; rates of another condition or other groups do not belong beside its own.

    RunError in one line if the file is damaged.
    """
    stored = read_stored(run.root)
    if stored is None:
        return Corrected()
    table, state = stored
    if not run.has_rows_of(state):
        return Corrected(is_stale=True)
    rows = table.select([one.name for one in fields(CorrectedRate)]).to_pylist()
    rates = (CorrectedRate(**row) for row in rows if row["num_labels"])
    return Corrected(
        tuple(
            _without_contradicted(rate)
            for rate in rates
            if (rate.subject != PRIVATE or state.private == private) and (rate.category is None or by == "category")
        ),
        gaps=state.gaps,
        other_condition=None if state.private == private else state.private,
    )


def _without_contradicted(rate: CorrectedRate) -> CorrectedRate:
    """A rate whose assumption the labels contradict is shown as unknown."""
    if rate.note != CONTRADICTED:
        return rate
    return replace(rate, corrected_rate=None, low=None, high=None)
