"""The verb `release`: checks a release, looks pictures up in it, and takes pictures out of it and of older copies."""

from collections.abc import Sequence

import click

from ingest.errors import IncompleteError, number_of
from ingest.formats.released import SHA256SUMS, SIGNATURE
from jobs.console.commands import Commands
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.releases.applying_removals import ApplyRemovalsRequest, run_apply_removals
from jobs.releases.checking import UNCHECKED, VerifyRequest, run_verify
from jobs.releases.entries import is_url
from jobs.releases.looking_up import LookupRequest, run_lookup
from jobs.releases.taking_down import RemovalResult, TakedownRequest, run_takedown
from jobs.runtime.progress import on_terminal

MAX_PRINTED = 20


@click.group(cls=Commands)
def release() -> None:
    """Check a release, look pictures up in it, and take pictures out of it."""


@release.command()
@takes(VerifyRequest)
@QUIET
def verify(request: VerifyRequest, quiet: bool) -> None:
    """Check that RELEASE still is what filter wrote: each file by its hash, each picture by the decisions, all counts.

    It does not judge what the pictures show; to let an engine look again, scan RELEASE. The exit code is 1 if anything
    is wrong.

    Example: privsieve release verify my-release
    """
    result = run_verify(request, on_terminal(quiet))
    _write_first(result.faults, "fault", indent="")
    if result.faults:
        faults = number_of(len(result.faults), "fault")
        raise IncompleteError(f"{request.release} is not what filter wrote: {faults}")
    files = number_of(result.num_files, "file")
    write_line(f"{files} and {result.compared} as released, and all counts agree")
    if result.is_published_copy:
        write_line(UNCHECKED)


@release.command()
@takes(LookupRequest)
@QUIET
def lookup(request: LookupRequest, quiet: bool) -> int:
    """Say whether RELEASE holds a picture, under which shard and key.

    A picture is found by its bytes, as scanned or as released; else if it is near, as scanned or as released, such as
    another encoding or size, turned or mirrored; crops are not found. A URL is found if the source gave it. The exit
    code is 0 if the release holds it, else 1.

    Example: privsieve release lookup my-release photo.jpg
    """
    result = run_lookup(request, on_terminal(quiet))
    lines = list[str]()
    for match in result.matches:
        how = "the same URL" if is_url(request.wanted) else "the same bytes"
        if match.distance is not None:
            near = "near" if match.rewritten is None else "covered; the scanned one is near"
            how = f"{near}: {match.distance} of 256 bits differ"
        elif match.rewritten is not None:
            how = f"{match.rewritten}; the file differs, the scanned one had these bytes"
        lines.append(f"{match.state:10}  {match.name}  {how}")
    _write_first(lines, "picture", indent="")
    is_released = any(match.state in ("released", "found") for match in result.matches)
    if not is_released:
        no_crops = "" if request.exact or result.is_list else "; crops of a picture are not found"
        write_line(f"not in {request.release}{no_crops}")
    is_exact = any(match.state == "released" and match.distance is None for match in result.matches)
    if is_exact and not (request.exact or result.is_list or is_url(request.wanted)):
        write_line("these bytes are known to the release, so near pictures were not searched for")
    if result.is_list and not is_url(request.wanted):
        write_line("it is a list of URLs without pictures, so only the same bytes were searched for")
    if not result.is_decodable:
        write_line("the file is no picture that can be decoded, so only the same bytes were searched for")
    if result.num_not_compared:
        write_line(f"{number_of(result.num_not_compared, 'picture')} of the release cannot be decoded, so not compared")
    return 0 if is_released else 1


@release.command()
@takes(TakedownRequest)
@QUIET
def takedown(request: TakedownRequest, quiet: bool) -> int:
    """Take the pictures on LIST out of RELEASE.

    LIST names a picture on each line: by its sha256, key or SHARD/KEY, URL, or "domain example.org". It may also be
    the removed.parquet of another release. "release lookup" finds the names of a picture's other encodings.

    Their shards are written again, decisions.parquet names the pictures with the rule "(takedown)", removed.parquet
    says when, and release.json counts them. Copies with the same bytes go too, except where a line is a key or a
    domain.

    May be interrupted at any moment; the same command continues. The exit code is 1 if a line names no picture that
    the release knows, so that a misspelled request does not pass for an honoured one.

    Example: privsieve release takedown my-release requests.txt --dry-run
    """
    result = run_takedown(request, on_terminal(quiet))
    _write_removed(result, request.dry_run, "taken down", "no picture that the release knows")
    if result.is_signature_void:
        write_line(f"the signature was of the release as it was, so {SIGNATURE} is removed; sign {SHA256SUMS} anew")
    if not request.dry_run and result.num_pictures:
        write_line(f"next: privsieve release verify {request.release}")
    return 1 if result.unknown else 0


@release.command()
@takes(ApplyRemovalsRequest)
@QUIET
def apply(request: ApplyRemovalsRequest, quiet: bool) -> None:
    """Remove from COPY, an older copy of a release's shards, what LIST names.

    LIST is the removed.parquet of the release as it is now: the same pictures go, and no others with the same bytes.
    The shards that hold them are written again; everything else stays as it is. May be interrupted at any moment; the
    same command continues.

    Example: privsieve release apply copied-shards removed.parquet --dry-run
    """
    result = run_apply_removals(request, on_terminal(quiet))
    _write_removed(result, request.dry_run, "removed", "no picture of this copy")


def _write_removed(result: RemovalResult, is_dry_run: bool, done: str, unknown: str) -> None:
    """Print what was removed, and which lines of the list found it: their numbers, since lines may name people."""
    pictures, shards = number_of(result.num_pictures, "picture"), number_of(result.num_shards, "shard")
    verb = "would be" if is_dry_run else "was" if result.num_pictures == 1 else "were"
    write_line(f"{pictures} in {shards} {verb} {done}; the list has {number_of(result.num_entries, 'line')}")
    _write_first(result.names, "picture", result.num_pictures)
    if copies := result.copies_left:
        shown = "1 copy" if len(copies) == 1 else f"{len(copies):,} copies"
        stay, first = ("stays", "") if len(copies) == 1 else ("stay", " first")
        write_line(
            f"  {shown} with the same bytes {stay}, {copies[0]}{first}; a line with the sha256 of the picture takes "
            "all down"
        )
    for numbers, why in ((result.gone_before, "not in the release any more, or never"), (result.unknown, unknown)):
        if numbers:
            few = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
            write_line(f"  {number_of(len(numbers), 'line')}: {why} ({few})")


def _write_first(lines: Sequence[str], noun: str, num_all: int | None = None, indent: str = "  ") -> None:
    """Print the first lines, and how many there are more. num_all: if these are not all."""
    for line in lines[:MAX_PRINTED]:
        write_line(f"{indent}{line}")
    if (num_more := (len(lines) if num_all is None else num_all) - MAX_PRINTED) > 0:
        write_line(f"{indent}and {number_of(num_more, f'more {noun}')}")
