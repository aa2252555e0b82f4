"""What became of the pictures of a queue, and what to run with the answers: for the page and the terminal."""

import shlex
from dataclasses import dataclass

from ingest.errors import number_of
from jobs.review.asking import Asking
from scoring.labels.reviews import SKIP, standing

UNCLEAR = "unclear"


@dataclass(frozen=True)
class ReviewerTally:
    """The pictures of one person: each is answered, skipped or left. Those that cannot be shown are not among them."""

    name: str

    num_answered: int
    """Unclear ones included; an answer that was taken back is none."""

    num_unclear: int
    """The person looked and could not say: no label."""

    num_skipped: int

    num_left: int
    """Not asked yet."""

    @property
    def num_pictures(self) -> int:
        return self.num_answered + self.num_skipped + self.num_left

    @property
    def in_words(self) -> str:
        """Such as "15 of 19 pictures answered (2 of them unclear), 1 skipped, 3 left"."""
        all_of = number_of(self.num_pictures, "picture")
        is_all = self.num_answered == self.num_pictures > 1
        said = f"all {all_of} answered" if is_all else f"{self.num_answered:,} of {all_of} answered"
        if self.num_unclear:
            said += f" ({self.num_unclear:,} of them unclear)"
        if self.num_skipped:
            said += f", {self.num_skipped:,} skipped"
        return said if is_all else f"{said}, {self.num_left:,} left"


def tally_of(asking: Asking, name: str) -> ReviewerTally:
    given = asking.given(name)
    num_skipped = given.pop(SKIP, 0)
    return ReviewerTally(name, given.total(), given[UNCLEAR], num_skipped, len(asking.left(name)))


def tallies(asking: Asking) -> tuple[ReviewerTally, ...]:
    """Return the tally of each person who answered or skipped a picture of the queue, by name."""
    return tuple(tally_of(asking, name) for name in asking.people())


def next_commands(asking: Asking, run_url: str, reviews_url: str) -> tuple[str, ...]:
    """Commands that use the answers of the run's folder; none if no picture has been judged."""
    answers = standing(asking.answers.table())
    judged = [
        name
        for name, answer in zip(answers["annotator"].to_pylist(), answers["answer"].to_pylist(), strict=True)
        if answer not in (SKIP, UNCLEAR)
    ]
    if not judged:
        return ()
    run, labels = shlex.quote(run_url), shlex.quote(reviews_url)
    if asking.kind == "audit":  # takes the labels of all people, and finds the majority
        return (f"privsieve audit apply {run} {labels}",)
    first = list[str]()
    if len(set(judged)) > 1:  # takes one label per picture
        first, labels = [f"privsieve labels consensus {labels} --out labels.parquet"], "labels.parquet"
    return (*first, f"privsieve evaluate {run} --labels {labels}")
