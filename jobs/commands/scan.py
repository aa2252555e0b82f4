"""`privsieve scan SOURCE --run RUN`: every image becomes one row (`jobs.scanning.run.run_scan`)."""

from shlex import quote

import click

from ingest.errors import number_of
from jobs.console.commands import Command
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.runtime.cluster import command_session
from jobs.runtime.progress import duration, on_terminal, weights_shown
from jobs.scanning.request import IncompleteScanError, ScanRequest, ScanResources, ScanResult, Supervision


@click.command(cls=Command)
@takes(ScanRequest, ScanResources, Supervision)
@QUIET
@click.option("--dry-run", is_flag=True, help="Only show the prompt, and how the engine would see the first pictures.")
def scan(request: ScanRequest, resources: ScanResources, supervision: Supervision, quiet: bool, dry_run: bool) -> None:
    """Score every image of SOURCE (a folder, tar, Parquet file, picture, glob or fsspec URL) into RUN.

    The same command again continues a scan that was interrupted.
    """
    if dry_run:
        from jobs.scanning.prepared import show

        with weights_shown(on_terminal(quiet)):
            show(request, resources, on_terminal(quiet))
        return
    from jobs.scanning.run import run_scan

    try:
        with command_session():
            result = run_scan(request, resources, supervision, on_terminal(quiet))
    except IncompleteScanError as error:
        write_line(str(error.result))
        raise
    write_line(str(result))
    if not quiet:
        write_line(_pace(result), to_stderr=True)  # stdout stays one line, for programs
        if result.num_images:
            write_line(f"next: privsieve report {quote(request.run)} --html report.html", to_stderr=True)
    if result.damage.num_shards:  # the source has lost images, and scanning again does not bring them back
        write_line(
            f"DAMAGED: {result.damage.named}; replace what is damaged and scan into a new run; all of it: privsieve "
            f'sql {quote(request.run)} "FROM damaged"',
            to_stderr=True,
        )


def _pace(result: ScanResult) -> str:
    if not result.num_images:
        what = "no picture could be read" if result.damage.num_shards else "there is no picture in the source"
        return f"{what} ({duration(result.seconds)})"
    if not result.num_new_images:
        return f"nothing was left to scan ({duration(result.seconds)})"
    images = number_of(result.num_new_images, "image")
    new = f"{images} of them in this scan, " if result.num_new_images < result.num_images else ""
    rate = "" if result.images_per_s is None else f", {result.images_per_s:.1f} images/s after the start"
    return f"{new}{duration(result.seconds)}{rate}"
