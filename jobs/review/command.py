"""The verb `review`: people look at pictures of a run in the browser, and say what they show."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ingest.errors import number_of
from jobs.console.hash_list_option import hash_list_option
from jobs.console.option_types import FiniteRange, WholeRange
from jobs.console.terminal import write_line

if TYPE_CHECKING:
    from jobs.review.run import ReviewResult

WHY = {
    "listed": "on the hash list",
    "not_compared": "that cannot be compared with the hash list",
    "changed": "changed since the scan",
    "gone": "not in the source any more",
    "undecodable": "cannot be decoded",
}
"""Why a picture was not shown -> in words."""


@click.command()
@click.argument("run")
@click.option(
    "--queue",
    metavar="audit|borderline|SQL",
    help="Which pictures: the drawn audit sample, those near the decision, or a SQL condition such as "
    '"level = 1 AND biometrics IS NULL".  [default: audit if a sample was drawn, else borderline]',
)
@click.option("--as", "reviewer", metavar="NAME", help="Who looks; without it the page asks for a name.")
@click.option(
    "--n",
    "num_pictures",
    type=WholeRange(min=1, max=100_000),
    help="Pictures.  [default: the audit sample, else 400]",
)
@click.option(
    "--for",
    "judged",
    type=click.Choice(["private", "attributes"]),
    default="private",
    show_default=True,
    help="What people say of a picture: whether it is private, or which attributes it shows.",
)
@click.option(
    "--gold", metavar="LABELS", help="Labels that are known to be right; such pictures are mixed in unmarked."
)
@click.option(
    "--gold-share",
    type=FiniteRange(min=0, max=0.5),
    default=0.05,
    show_default=True,
    help="Share of all pictures that these make up.",
)
@hash_list_option("is never shown, and only counted")
@click.option("--again", is_flag=True, help="Ask what a person has answered before, too.")
@click.option("--seed", type=WholeRange(min=0, max=2**63 - 1), default=0, show_default=True, help="Of the order.")
@click.option("--port", type=WholeRange(min=0, max=65535), default=0, help="Of this machine.  [default: a free one]")
def review(
    run: str,
    queue: str | None,
    reviewer: str | None,
    num_pictures: int | None,
    judged: str,
    gold: str | None,
    gold_share: float,
    hash_list: str | None,
    again: bool,
    seed: int,
    port: int,
) -> None:
    """Look at pictures of RUN in the browser, and say what they show.

    Prints an address of this machine with a key in it; Ctrl-C ends the review. Answers are saved in RUN/reviews at
    once: give that folder wherever a command takes labels.
    """
    from jobs.review.request import ReviewRequest
    from jobs.review.run import run_review
    from jobs.runtime.feedback import on_terminal
    from jobs.runtime.requests import refused_in_one_line

    with refused_in_one_line():
        request = ReviewRequest(
            run_url=run,
            queue=queue,
            judged="private" if judged == "private" else "attributes",
            reviewer=reviewer,
            num_pictures=num_pictures,
            gold_url=gold,
            gold_share=gold_share,
            hash_list_url=hash_list,
            again=again,
            seed=seed,
            port=port,
        )
    done = run_review(request, _opened, on_terminal(quiet=False))
    for line in summary(done):
        write_line(line)


def summary(done: "ReviewResult") -> Iterator[str]:
    """What was answered, what is left, and what to run next, one line each."""
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
