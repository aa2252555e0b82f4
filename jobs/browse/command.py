"""The verb `browse`: the pictures of a run in the browser, by filters."""

import click

from jobs.console.completion import offering
from jobs.console.hash_list_option import hash_list_option
from jobs.console.option_types import WholeRange
from jobs.console.terminal import write_line
from scoring.policies.shipped import SHIPPED


@click.command()
@click.argument("run")
@click.option("--where", metavar="SQL", help='Only rows that fit this condition, such as "level IN (1, 2)".')
@click.option(
    "--policy",
    shell_complete=offering(SHIPPED),
    help=f"Begin with the decisions of this policy: a YAML file, or one that is shipped ({', '.join(SHIPPED)}).",
)
@hash_list_option("is never shown, named or exported, and only counted")
@click.option("--port", type=WholeRange(min=0, max=65535), default=0, help="Of this machine.  [default: a free one]")
def browse(run: str, where: str | None, policy: str | None, hash_list: str | None, port: int) -> None:
    """Look through the pictures of RUN in the browser, by filters, and export what you see.

    Prints an address of this machine with a key in it; Ctrl-C ends the server. Nothing is written to RUN.
    """
    from jobs.browse.request import BrowseRequest
    from jobs.browse.run import run_browse
    from jobs.runtime.feedback import on_terminal
    from jobs.runtime.requests import refused_in_one_line

    with refused_in_one_line():
        request = BrowseRequest(run, where, policy, hash_list, port)
    run_browse(request, _opened, on_terminal(quiet=False))


def _opened(address: str) -> None:
    write_line(f"open {address}")
    write_line("Ctrl-C ends the server.")
