"""`privsieve takedown RELEASE LIST`: pictures leave a release that exists already."""

import click

from ingest.errors import number_of
from ingest.formats.released import SIGNATURE
from jobs.console.request_options import takes
from jobs.console.terminal import write_line
from jobs.takedown.run import TakedownRequest, run_takedown


@click.command()
@takes(TakedownRequest)
def takedown(request: TakedownRequest) -> int:
    """Take the pictures on LIST out of RELEASE.

    Their shards are written again, decisions.parquet names the pictures with the rule "(takedown)", removed.parquet
    says when and why, and release.json counts them. Copies with the same bytes go too; crops and other encodings of a
    picture are not found.

    May be interrupted at any moment; the same command continues. The exit code is 1 if a line names no picture of the
    release's run, so that a misspelled request does not pass for an honoured one.
    """
    result = run_takedown(request)
    pictures, shards = number_of(result.num_pictures, "picture"), number_of(result.num_shards, "shard")
    verb = "would be" if request.dry_run else "was" if result.num_pictures == 1 else "were"
    write_line(f"{pictures} in {shards} {verb} taken down, of {number_of(result.num_entries, 'line')} of the list")
    for numbers, why in (
        (result.gone_before, "not in the release any more, or never"),
        (result.unknown, "no picture of the release's run, or a URL or domain of none that was released"),
    ):
        if numbers:
            shown = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
            write_line(f"  {number_of(len(numbers), 'line')}: {why} ({shown})")
    if result.is_signature_void:
        write_line(f"the signature was of the release as it was, so {SIGNATURE} is removed; --sign-key signs anew")
    if not request.dry_run and result.num_pictures:
        write_line(f"next: privsieve verify {request.release}")
    return 1 if result.unknown else 0
