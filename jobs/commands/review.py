"""The verb `review`: people look at pictures of a run in the browser, and say what they show."""

import click

from jobs.console.request_options import takes
from jobs.console.terminal import write_line
from jobs.runtime.progress import on_terminal
from jobs.serving.review.reviewing import ReviewRequest, result_of, serving, summary


@click.command()
@takes(ReviewRequest)
def review(request: ReviewRequest) -> None:
    """Look at pictures of RUN in the browser, and say what they show.

    Prints an address of this machine with a key in it; Ctrl-C ends the review. Answers are saved in RUN/reviews at
    once: give that folder wherever a command takes labels.
    """
    with serving(request, on_terminal(quiet=False)) as server:
        server.run_until_interrupted("the review; what was answered stays.")
        result = result_of(server.page)
    for line in summary(result):
        write_line(line)
