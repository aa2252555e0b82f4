"""The verb `review`: people look at pictures of a run in the browser, and say what they show."""

import click

from ingest.errors import number_of
from jobs.console.option_types import FiniteRange
from jobs.console.terminal import write_line

WHY = {
    "listed": "on the hash list",
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
    type=click.IntRange(min=1, max=100_000),
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
@click.option(
    "--hash-list",
    metavar="FILE",
    help="Hashes (sha256 or PDQ, one a line) of pictures that must never be shown.",
)
@click.option("--again", is_flag=True, help="Ask what a person has answered before, too.")
@click.option("--seed", type=click.IntRange(min=0, max=2**63 - 1), default=0, show_default=True, help="Of the order.")
@click.option(
    "--port", type=click.IntRange(min=0, max=65535), default=0, help="Of this machine.  [default: a free one]"
)
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
    from jobs.reviewing.request import ReviewRequest
    from jobs.reviewing.run import run_review
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
    for why, count in sorted(done.not_shown.items()):
        write_line(f"not shown: {number_of(count, 'picture')} {WHY[why]}")
    write_line(f"{number_of(done.num_answers, 'answer')} saved in {done.reviews_url}")
    if done.is_audit:
        write_line(f"next: privsieve audit apply {run} {done.reviews_url}")


def _opened(address: str) -> None:
    write_line(f"open {address}")
    write_line("Ctrl-C ends the review; what was answered stays.")
