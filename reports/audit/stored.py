"""The corrected rates that `audit apply` left in a run, refused if the run has changed since."""

import pyarrow as pa

from ingest.errors import RunError
from reports.run.warehouse import STALE_AUDIT, Run
from scoring.runs.corrected_rates import read_stored


def read_corrected_rates(run: Run) -> pa.Table | None:
    """Rows of `scoring.runs.corrected_rates.CORRECTED_SCHEMA`; None if the run was not audited.

    RunError in one line if the file is damaged, or of other rows than the run has now.
    """
    found = read_stored(run.root)
    if found is None:
        return None
    table, state = found
    if not run.has_rows_of(state):
        raise RunError(f"{run.url}: {STALE_AUDIT}")
    return table
