"""Rates that labels of people have corrected, if `audit apply` has left some in the run."""

from dataclasses import dataclass, fields

from reports.audit.stored import is_stale
from reports.report.figures import CorrectedRate
from reports.warehouse import Run
from scoring.runs.audit_sample import PRIVATE
from scoring.runs.corrected_rates import read_stored


@dataclass(frozen=True)
class Corrected:
    """What an audit has left."""

    rates: tuple[CorrectedRate, ...] = ()
    """Of the report's condition and groups only; empty if there are none."""

    is_stale: bool = False
    """The audit is of other rows than the run has now, so its rates are left out."""


def corrected_rates(run: Run, num_images: int, by: str, private: str) -> Corrected:
    """by, private: as in the report; rates of another condition or other groups do not belong beside its own.

    RunError in one line if the file is damaged.
    """
    stored = read_stored(run.root)
    if stored is None:
        return Corrected()
    table, state = stored
    if is_stale(state, run.record, num_images):
        return Corrected(is_stale=True)
    rows = table.select([field.name for field in fields(CorrectedRate)]).to_pylist()
    rates = (CorrectedRate(**row) for row in rows)
    return Corrected(
        tuple(
            rate
            for rate in rates
            if (rate.subject != PRIVATE or state.private == private) and (rate.category is None or by == "category")
        )
    )
