"""`diff` from start to end. Nothing is written but temporary files."""

from pydantic.dataclasses import dataclass as checked_dataclass

from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.listed import clear_rows
from jobs.runtime.requests import STRICT, Name
from reports.comparing_runs.compare import compare_runs
from reports.comparing_runs.results import RunDifference


@checked_dataclass(frozen=True, config=STRICT)
class DiffRequest:
    run_a: Name
    """Folder or fsspec URL of the first run."""

    run_b: Name
    """Folder or fsspec URL of the second run."""

    by: str = "category"
    """Column or SQL expression that groups the pictures."""

    hash_list_url: Name | None = None
    """File of hashes of pictures that are not named; see jobs/runtime/hash_list.py."""


def run_diff(request: DiffRequest, feedback: Feedback = SILENT) -> RunDifference:
    """RunError, StorageError of the runs; QueryError if `by` is no expression over the row.

    LabelsError of the hash list; SourceError if its PDQ hashes need pictures that cannot be read.
    """
    hash_list = hash_list_of(request.hash_list_url)
    return compare_runs(request.run_a, request.run_b, request.by, clear_rows(hash_list, feedback))
