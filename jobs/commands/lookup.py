"""`privsieve lookup RELEASE PICTURE|URL`: says whether a release, or a copy of its shards, holds a picture."""

import click

from ingest.errors import number_of
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.releases.looking_up import URL, LookupRequest, run_lookup
from jobs.runtime.progress import on_terminal

MAX_PRINTED = 100


@click.command()
@takes(LookupRequest)
@QUIET
def lookup(request: LookupRequest, quiet: bool) -> int:
    """Say whether RELEASE holds a picture, under which shard and key.

    A picture is found by its bytes, as scanned or as released; else if it is near, as scanned or as released, such as
    another encoding or size, turned or mirrored; crops are not found. A URL is found if the source gave it. The exit
    code is 0 if the release holds it, else 1.
    """
    result = run_lookup(request, on_terminal(quiet))
    for match in result.matches[:MAX_PRINTED]:
        how = "the same URL" if URL.match(request.wanted) else "the same bytes"
        if match.distance is not None:
            near = "near" if match.rewritten is None else "covered; the scanned one is near"
            how = f"{near}: {match.distance} of 256 bits differ"
        elif match.rewritten is not None:
            how = f"{match.rewritten}; the file differs, the scanned one had these bytes"
        write_line(f"{match.state:10}  {match.name}  {how}")
    if len(result.matches) > MAX_PRINTED:
        write_line(f"and {number_of(len(result.matches) - MAX_PRINTED, 'more picture')}")
    is_released = any(match.state in ("released", "found") for match in result.matches)
    if not is_released:
        no_crops = "" if request.exact or result.is_list else "; crops of a picture are not found"
        write_line(f"not in {request.release}{no_crops}")
    is_exact = any(match.state == "released" and match.distance is None for match in result.matches)
    if is_exact and not (request.exact or result.is_list or URL.match(request.wanted)):
        write_line("the same bytes are there, so near pictures were not searched for")
    if result.is_list and not URL.match(request.wanted):
        write_line("it is a list of URLs without pictures, so only the same bytes were searched for")
    if not result.is_decodable:
        write_line("the file is no picture that can be decoded, so only the same bytes were searched for")
    if result.num_not_compared:
        write_line(f"{number_of(result.num_not_compared, 'picture')} of the release cannot be decoded, so not compared")
    return 0 if is_released else 1
