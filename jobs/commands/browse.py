"""The verb `browse`: a page of this machine that shows the pictures of a run by filters."""

from typing import TYPE_CHECKING

import click

from jobs.console.request_options import takes
from jobs.runtime.progress import on_terminal

if TYPE_CHECKING:
    pass
from jobs.serving.browse.browsing import BrowseRequest, serving


@click.command()
@takes(BrowseRequest)
def browse(request: BrowseRequest) -> None:
    """Look through the pictures of RUN in the browser, by filters, and export what you see.

    Prints an address of this machine with a key in it; Ctrl-C ends the server. Nothing is written to RUN.
    """
    with serving(request, on_terminal(quiet=False)) as server:
        server.run_until_interrupted("the server.")
