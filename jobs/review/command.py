"""The verb `review`: people look at pictures of a run in the browser, and say what they show."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ingest.errors import number_of
from jobs.console.request_options import takes
from jobs.console.terminal import write_line
from jobs.review.request import ReviewRequest

if TYPE_CHECKING:
    from jobs.review.run import ReviewResult

WHY = {
    "listed": "on the hash list",
    "not_compared": "that cannot be compared with the hash list",
    "changed": "changed since the scan",
    "gone": "not in the source any more",
    "undecodable": "cannot be decoded",
}
"""Why a picture was not shown, in words."""


@click.command()
@takes(ReviewRequest)
def review(request: ReviewRequest) -> None:
    """Look at pictures of RUN in the browser, and say what they show.

    Prints an address of this machine with a key in it; Ctrl-C ends the review. Answers are saved in RUN/reviews at
    once: give that folder wherever a command takes labels.
    """
    from jobs.review.run import run_review
    from jobs.runtime.progress import on_terminal

    done = run_review(request, _opened, on_terminal(quiet=False))
    for line in summary(done):
        write_line(line)


def summary(done: "ReviewResult") -> Iterator[str]:
    """Yield what was answered, what is left, and what to run next, one line each."""
    for why, count in sorted(done.not_shown.items()):
        yield f"not shown: {number_of(count, 'picture')} {WHY[why]}"
    for person in done.people:
        yield f"{person.name}: {person.in_words}"
    if done.num_saved:
        yield f"{number_of(done.num_saved, 'answer')} saved in {done.reviews_url}, changed and undone ones included"
    else:
        yield "no new answer was saved"
    if any(person.num_left or person.num_skipped for person in done.people):
        yield "to go on: the same command again"
    for command in done.next_commands:
        yield f"next: {command}"


def _opened(address: str) -> None:
    write_line(f"open {address}")
    write_line("Ctrl-C ends the review; what was answered stays.")
