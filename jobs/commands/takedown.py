"""`privsieve takedown RELEASE LIST`: removes pictures from a release that exists already."""

import click

from ingest.errors import number_of
from ingest.formats.released import (
    SIGNATURE,
)
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.releases.taking_down import TakedownRequest, run_takedown, write_copies_left, write_near, write_numbers
from jobs.runtime.progress import on_terminal


@click.command()
@takes(TakedownRequest)
@QUIET
def takedown(request: TakedownRequest, quiet: bool) -> int:
    """Take the pictures on LIST out of RELEASE.

    LIST names a picture on each line: by its sha256, key or SHARD/KEY, URL, "domain example.org", or "pdq" and a PDQ
    hash. It may also be the removed.parquet of another release.

    Their shards are written again, decisions.parquet names the pictures with the rule "(takedown)", removed.parquet
    says when and why, and release.json counts them. Copies with the same bytes go too, except where a line is a key or
    a domain. A PDQ hash finds other encodings of a picture, also turned or mirrored ones; nothing finds crops.

    May be interrupted at any moment; the same command continues. The exit code is 1 if a line names no picture that
    the release knows, so that a misspelled request does not pass for an honoured one.
    """
    result = run_takedown(request, on_terminal(quiet))
    pictures, shards = number_of(result.num_pictures, "picture"), number_of(result.num_shards, "shard")
    verb = "would be" if request.dry_run else "was" if result.num_pictures == 1 else "were"
    write_line(f"{pictures} in {shards} {verb} taken down, of {number_of(result.num_entries, 'line')} of the list")
    write_near(result.near, result.num_not_compared)
    write_copies_left(result.copies_left)
    write_numbers(result.gone_before, "not in the release any more, or never")
    write_numbers(result.unknown, "no picture that the release knows")
    if result.is_signature_void:
        write_line(f"the signature was of the release as it was, so {SIGNATURE} is removed; --sign-key signs anew")
    if not request.dry_run and result.num_pictures:
        write_line(f"next: privsieve verify {request.release}")
    return 1 if result.unknown else 0
