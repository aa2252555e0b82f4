"""The verb `diff`: what one run says of the same pictures that another does not."""

from typing import Annotated

import click

from jobs.console.request_options import TEXT_OR_JSON, takes
from jobs.console.requests import HashListUrl, Option, PagePath, Url, checked_request
from jobs.console.terminal import write_document, write_json, write_line
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.pictures import clear_rows
from jobs.runtime.progress import SILENT, Feedback, on_terminal
from reports.diff.compute import compare_runs
from reports.diff.results import RunDifference, as_json
from reports.diff.words import document, render
from reports.pages import write_page

MAX_GROUPS = 20
"""In the terminal."""


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


@click.command()
@takes(DiffRequest)
@TEXT_OR_JSON
def diff(request: DiffRequest, output: str) -> None:
    """Compare two runs on the pictures that both hold: levels, attributes, and the private share of each category.

    Pictures are joined by the hash of their bytes, so the runs may be of different engines, versions or crawls.
    """
    difference = run_diff(request, on_terminal(quiet=True))
    if output == "json":
        write_json(as_json(difference), indent=1)
        return

    write_document(document(difference, MAX_GROUPS))
    if request.html is not None:
        write_line(f"page written to {request.html}")
