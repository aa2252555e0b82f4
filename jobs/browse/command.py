"""The verb `browse`: the pictures of a run in the browser, by filters."""

import click

from jobs.browse.request import BrowseRequest
from jobs.console.request_options import takes
from jobs.console.terminal import write_line


@click.command()
@takes(BrowseRequest)
def browse(request: BrowseRequest) -> None:
    """Look through the pictures of RUN in the browser, by filters, and export what you see.

    Prints an address of this machine with a key in it; Ctrl-C ends the server. Nothing is written to RUN.
    """
    from jobs.browse.run import run_browse
    from jobs.runtime.progress import on_terminal

    run_browse(request, _opened, on_terminal(quiet=False))


def _opened(address: str) -> None:
    write_line(f"open {address}")
    write_line("Ctrl-C ends the server.")
