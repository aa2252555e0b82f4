"""`privsieve screen …`: a cheap first stage with a miss rate that labels prove."""

from dataclasses import asdict

import click

from jobs.console.commands import Commands
from jobs.console.request_options import QUIET, TEXT_OR_JSON, takes
from jobs.console.terminal import write_document, write_json, write_line
from jobs.runtime.progress import on_terminal
from jobs.screening.request import FitRequest


@click.group(cls=Commands)
def screen() -> None:
    """Fit a cheap first stage for scans, whose miss rate labels prove."""


@screen.command()
@takes(FitRequest)
@TEXT_OR_JSON
@QUIET
def fit(request: FitRequest, output: str, quiet: bool) -> None:
    """Fit a screen on labelled pictures of CORPUS.

    Part of the labels is kept to prove how many private pictures the screen leaves out; the screen is refused with the
    number of labels that is missing for that.

    Example: privsieve screen fit photos/ --labels labels.csv --target-miss 0.01 --out my-screen
    """
    from jobs.screening.fitting import run_screen_fit
    from reports.screening.words import fit_document

    result = run_screen_fit(request, on_terminal(quiet))
    if output == "json":
        tried = [asdict(each) for each in result.made.tried]
        write_json({"screen": result.screen.record.model_dump(), "tried": tried}, indent=1)
        return

    write_document(fit_document(result.made, result.num_labelled))
    write_line(f"screen written to {request.out}; next: privsieve scan CORPUS --run RUN --screen {request.out}")
