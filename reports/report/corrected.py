"""Rates that labels of people have corrected, where `audit apply` has left some in the run.

The file is `RUN/audit/corrected_rates.parquet`; the only reader of it is `reports.audit.stored`.
"""

from importlib import import_module

from reports.report.figures import CorrectedRate
from reports.warehouse import Run


def corrected_rates(run: Run, num_images: int) -> tuple[CorrectedRate, ...]:
    """None in a run without labels. RunError in one line where they are of another state of the run."""
    try:
        stored = import_module("reports.audit.stored")
    except ModuleNotFoundError:  # a version without `audit`
        return ()
    table = stored.read_corrected_rates(run.root, run.record, num_images)
    if table is None:
        return ()
    names = list(CorrectedRate.__dataclass_fields__)
    return tuple(CorrectedRate(**row) for row in table.select(names).to_pylist())
