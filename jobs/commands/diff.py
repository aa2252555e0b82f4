"""The verb `diff`: what one run says of the same pictures that another does not."""

import click

from jobs.console.request_options import TEXT_OR_JSON, takes
from jobs.console.terminal import write_document, write_json, write_line
from jobs.reporting.comparing import DiffRequest, run_diff
from jobs.runtime.progress import on_terminal
from reports.diff.results import as_json
from reports.diff.words import document

MAX_GROUPS = 20
"""In the terminal."""


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
