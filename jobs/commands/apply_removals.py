"""`privsieve apply-removals COPY LIST`: removes what a release has removed from an older copy."""

import click

from ingest.errors import number_of
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.releases.applying_removals import ApplyRemovalsRequest, run_apply_removals
from jobs.releases.taking_down import write_copies_left, write_near, write_numbers
from jobs.runtime.progress import on_terminal


@click.command()
@takes(ApplyRemovalsRequest)
@QUIET
def apply_removals(request: ApplyRemovalsRequest, quiet: bool) -> None:
    """Remove from COPY, an older copy of a release's shards, what LIST names.

    LIST is the removed.parquet of the release as it is now: the same pictures go, and no others with the same bytes.
    The shards that hold them are written again; everything else stays as it is. May be interrupted at any moment; the
    same command continues.
    """
    result = run_apply_removals(request, on_terminal(quiet))
    pictures, shards = number_of(result.num_pictures, "picture"), number_of(result.num_shards, "shard")
    verb = "would be" if request.dry_run else "was" if result.num_pictures == 1 else "were"
    write_line(f"{pictures} in {shards} {verb} removed, by {number_of(result.num_entries, 'line')} of the list")
    write_near(result.near, result.num_not_compared)
    write_copies_left(result.copies_left)
    write_numbers(result.absent, "no picture of this copy")
