"""`privsieve fetch METADATA --out SHARDS`: image URLs become WebDataset shards, each URL with an outcome."""

import shlex
import sys

import click

from ingest.errors import IncompleteError, number_of
from jobs.console.commands import Command
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.fetching.download import FetchResources
from jobs.fetching.fetching import FetchRequest, run_fetch
from jobs.runtime.progress import on_terminal


@click.command(cls=Command)
@takes(FetchRequest, FetchResources)
@QUIET
def fetch(request: FetchRequest, resources: FetchResources, quiet: bool) -> None:
    """Download the images of METADATA (Parquet, CSV or TSV: a file, folder, glob or fsspec URL) as shards.

    Images that ask not to be used for AI (X-Robots-Tag, TDM-Reservation) are not kept. Bytes are kept as they are.
    The first fetch installs img2dataset, in an environment of its own.
    """
    result = run_fetch(request, resources, on_terminal(quiet), _may_install)
    num_failed = result.num_urls - result.num_downloaded
    reasons = ", ".join(f"{reason} {count}" for reason, count in result.failures.items())
    write_line(
        f"{number_of(result.num_urls, 'URL')}: {result.num_downloaded} downloaded, {num_failed} failed"
        f"{f' ({reasons})' if reasons else ''}"
    )
    if result.num_urls and not result.num_downloaded:
        raise IncompleteError("no image was downloaded; fetch.parquet says why")
    write_line(f"next: privsieve scan {shlex.quote(request.out)} --run RUN")


def _may_install(what: str) -> bool:
    write_line(what, to_stderr=True)
    return not sys.stdin.isatty() or click.confirm("install it now?", default=True, err=True)
