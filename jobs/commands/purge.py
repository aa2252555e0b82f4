"""`privsieve purge RUN`: deletes what a run knows of single pictures."""

import click

from ingest.errors import number_of
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.runtime.progress import on_terminal
from jobs.scanning.purging import REPORT, PurgeRequest, run_purge
from scoring.runs import PURGED


@click.command()
@takes(PurgeRequest)
@QUIET
def purge(request: PurgeRequest, quiet: bool) -> None:
    """Delete what RUN knows of single pictures: rows with their boxes and keys, reviews, audit samples, canary answers.

    The figures stay: what `report --format json` says is written to RUN/figures/report.json, without the names of
    images, and RUN/purged.json says when and what was deleted. No other command reads the run afterwards.
    Releases, exported labels and backups are not touched. May be interrupted; the same command continues.
    """
    result = run_purge(request, on_terminal(quiet))
    verb = "deleted" if request.yes else "would be deleted"
    for name, num_files in result.deleted.items():
        write_line(f"  {verb}  {name}  {number_of(num_files, 'file')}")
    for name in result.left:
        write_line(f"  not of privsieve, so it stays: {name}")
    if result.was_begun and not result.deleted:
        write_line(f"{request.run} was purged before; {PURGED} says when")
    elif not request.yes:
        write_line("nothing is deleted; --yes does it, and the run cannot be read then")
    else:
        write_line(f"{request.run} is purged; its figures are in {REPORT}, the record is {PURGED}")
