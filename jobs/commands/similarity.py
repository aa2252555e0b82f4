"""The verb `similarity`: whether changed pictures still show what the originals did."""

import click

from jobs.console.commands import Commands
from jobs.console.request_options import QUIET, TEXT_OR_JSON, takes
from jobs.console.terminal import write_document, write_line, wrote_json
from jobs.runtime.progress import on_terminal
from jobs.similarity.request import CompareRequest


@click.group(cls=Commands)
def similarity() -> None:
    """Say whether covered, blurred or otherwise changed pictures still show the same person or thing."""


@similarity.command()
@takes(CompareRequest)
@TEXT_OR_JSON
@QUIET
def compare(request: CompareRequest, output: str, quiet: bool) -> None:
    """Compare ORIGINALS with CHANGED pictures of the same keys.

    Each CHANGED is a set with a row of figures: how many pictures can be found again among all originals, SemSim, SSIM,
    PSNR and MSE.

    Example: privsieve similarity compare photos/ release/
    """
    from jobs.similarity.run import run_compare

    similarity = run_compare(request, on_terminal(quiet))
    if wrote_json(similarity, output):
        return
    from reports.similarity.words import document

    write_document(document(similarity))
    if request.out is not None:
        write_line(f"rows written to {request.out}")
