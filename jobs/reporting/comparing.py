"""The verb `diff`: what one run says of the same pictures that another does not."""

from typing import Annotated

from jobs.console.requests import HashListUrl, Option, PagePath, Url, checked_request
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.pictures import clear_rows
from jobs.runtime.progress import SILENT, Feedback
from reports.diff.compute import compare_runs
from reports.diff.results import RunDifference
from reports.diff.words import render
from reports.pages import write_page


@checked_request
class DiffRequest:
    run_a: Annotated[Url, Option(argument="RUN_A")]
    """Folder or fsspec URL of the first run."""

    run_b: Annotated[Url, Option(argument="RUN_B")]
    """Folder or fsspec URL of the second run."""

    by: str = "category"
    """Column or SQL expression that groups the pictures."""

    html: PagePath | None = None
    """Write one self-contained page as well, to this file."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is counted and not named."""


def run_diff(request: DiffRequest, feedback: Feedback = SILENT) -> RunDifference:
    """Compare two runs. Nothing is written but the page.

    RunError, StorageError of the runs; QueryError if `by` is no expression over the row. LabelsError of the hash list;
    SourceError if its PDQ hashes need pictures that cannot be read.
    """
    hash_list = hash_list_of(request.hash_list)
    difference = compare_runs(request.run_a, request.run_b, request.by, clear_rows(hash_list, feedback))
    if request.html is not None:
        write_page(render(difference), request.html)
    return difference
