"""`privsieve verify RELEASE`: options and output; the work is in `jobs.releases.checking`."""

import click

from ingest.errors import IncompleteError, number_of
from jobs.console.commands import Command
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.releases.checking import UNCHECKED, run_verify
from jobs.releases.verify_request import VerifyRequest
from jobs.runtime.progress import on_terminal

MAX_FAULTS_PRINTED = 20


@click.command(cls=Command)
@takes(VerifyRequest)
@QUIET
def verify(request: VerifyRequest, quiet: bool) -> None:
    """Check that RELEASE still is what filter wrote: each file by its hash, each picture by the decisions, all counts.

    It does not judge what the pictures show. --labels bounds how many may be private after all; --rescan-engine looks
    at them again and says what it finds, which is no bound; --contact-sheet shows people what was covered. The exit
    code is 1 if anything is wrong.
    """
    result = run_verify(request, on_terminal(quiet))
    for fault in result.faults[:MAX_FAULTS_PRINTED]:
        write_line(fault)
    if len(result.faults) > MAX_FAULTS_PRINTED:
        write_line(f"and {number_of(len(result.faults) - MAX_FAULTS_PRINTED, 'more fault')}")
    if result.faults:
        faults = number_of(len(result.faults), "fault")
        raise IncompleteError(f"{request.release} is not what filter wrote: {faults}")
    files = number_of(result.num_files, "file")
    write_line(f"{files} and {result.compared} as released, and all counts agree")
    if result.is_published_copy:
        write_line(UNCHECKED)
    if result.signed_by is not None:
        write_line(f"signed by {result.signed_by}")
    elif result.has_unchecked_signature:
        write_line("it has a signature, which was not checked; --signer ALLOWED_SIGNERS does that")
    if result.left is not None:
        write_line(str(result.left))
    if result.rescan is not None:
        write_line(str(result.rescan))
        for name in result.rescan.private[:MAX_FAULTS_PRINTED]:
            write_line(f"  {name}")
        if (num_more := len(result.rescan.private) - MAX_FAULTS_PRINTED) > 0:
            write_line(f"  and {number_of(num_more, 'more picture')}")
    if result.num_on_sheet is not None:
        pictures = number_of(result.num_on_sheet, "covered picture")
        write_line(
            f"{pictures} before and after: {request.contact_sheet}; it shows private pictures uncovered, so keep it as "
            "you keep the source"
        )
