"""The corrected rates that `audit apply` left in a run, refused if the run has changed since."""

import pyarrow as pa

from ingest.errors import RunError
from ingest.storage.place import Place
from reports.warehouse import STALE_AUDIT
from scoring.runs.corrected_rates import State, read_stored
from scoring.runs.record import RunRecord


def read_corrected_rates(root: Place, record: RunRecord, num_images: int) -> pa.Table | None:
    """Rows of `scoring.runs.corrected_rates.CORRECTED_SCHEMA`; None if the run was not audited.

    root: the run. num_images: how many rows it has now.
    RunError in one line if the file is damaged, or of another state of the run.
    """
    found = read_stored(root)
    if found is None:
        return None
    table, state = found
    if is_stale(state, record, num_images):
        raise RunError(f"{root.path}: {STALE_AUDIT}")
    return table


def is_stale(state: State, record: RunRecord, num_images: int) -> bool:
    """Whether the run was made with other settings, or has other rows."""
    return state.settings != record.settings_hash() or state.num_rows != num_images
