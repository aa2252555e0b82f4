"""Progress of a review, for the page and the terminal: what each person answered, whether there are enough labels, and
what to run with the answers."""

import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import number_of
from jobs.serving.review.asking import Asking
from reports.audit.cells import audit_sql, cell_counts
from reports.audit.compute import private_rate
from reports.run.warehouse import Run
from scoring.labels.judgements import CHECKS, judgements
from scoring.labels.label_files import LABELS_SCHEMA
from scoring.labels.reviews import SKIP, UNCLEAR, standing
from scoring.labels.table import as_judged
from scoring.runs.audit_files import AuditSample

Estimate = Callable[[pa.Table], tuple[float, float] | None]
"""Labels -> 95 % interval of the corrected share of private pictures, None if they do not give one."""

_NUMBERS = (pa.int8(), pa.float32())


def estimate_of(run: Run, sample: AuditSample) -> Estimate:
    """Read what the correction needs of the run, and return a quick function that needs no open run."""
    counts = cell_counts(run, audit_sql(run, sample.design.private))

    def estimate(labels: pa.Table) -> tuple[float, float] | None:
        rate = private_rate(sample, counts, as_judged(labels))
        return None if rate.low is None or rate.high is None else (rate.low, rate.high)

    return estimate


def enough_labels(sample: AuditSample, labels: pa.Table, estimate: Estimate) -> dict[str, Any]:
    """Return how much of an audit sample is labelled, and the interval of the private rate, as JSON types.

    answered, twice: drawn pictures that at least one person, or two people, judged: skipped and unclear ones do not
    count. second_look: drawn pictures that a second person is asked for. labels: of `LABELS_SCHEMA`. estimate: of
    `estimate_of`.
    """
    columns = ["sha256", *(name for name in labels.column_names if labels.schema.field(name).type in _NUMBERS)]
    num_people = Counter(
        sha256
        for sha256, *values in zip(*(labels[name].to_pylist() for name in columns), strict=True)
        if any(value is not None for value in values)
    )
    drawn = sample.table["sha256"].to_pylist()
    return {
        "answered": sum(num_people[sha256] > 0 for sha256 in drawn),
        "drawn": len(drawn),
        "interval": estimate(labels),
        "second_look": sum(sample.is_for_second_look),
        "twice": sum(num_people[sha256] > 1 for sha256 in drawn),
    }


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
        """Return words such as "15 of 19 pictures answered (2 of them unclear), 1 skipped, 3 left"."""
        all_of = number_of(self.num_pictures, "picture")
        is_all = self.num_answered == self.num_pictures > 1
        said = f"all {all_of} answered" if is_all else f"{self.num_answered:,} of {all_of} answered"
        if self.num_unclear:
            said += f" ({self.num_unclear:,} of them unclear)"
        if self.num_skipped:
            said += f", {self.num_skipped:,} skipped"
        return said if is_all else f"{said}, {self.num_left:,} left"


def tally_of(asking: Asking, name: str) -> ReviewerTally:
    num_answers = asking.given(name)
    num_skipped = num_answers.pop(SKIP, 0)
    return ReviewerTally(name, num_answers.total(), num_answers[UNCLEAR], num_skipped, len(asking.left(name)))


def tallies(asking: Asking) -> tuple[ReviewerTally, ...]:
    """Return the tally of each person who answered or skipped a picture of the queue, by name."""
    return tuple(tally_of(asking, name) for name in asking.people())


@dataclass(frozen=True)
class ReviewPage:
    """What the page shows, and what it works with."""

    asking: Asking
    title: str

    owner: str | None
    """Who may see everybody's share of right answers."""

    audit: tuple[AuditSample, Estimate] | None
    """The drawn pictures of an audit, and its estimate."""

    checks: pa.Table | None
    """Known answers, as labels."""

    private_means: str
    """Which pictures are private, in words, for the people who judge them."""

    has_other_meaning: bool
    """Whether `private_means` is a condition of the user's, of which the taxonomy says nothing."""

    question: str | None
    """What is asked instead, to be answered with yes or no."""

    run_url: str
    reviews_url: str
    """The folder of the answers."""

    def next_commands(self) -> tuple[str, ...]:
        """Return commands that use the answers of the run's folder; none if no picture has been judged."""
        answers = standing(self.asking.answers.table())
        judged = [
            name
            for name, answer in zip(answers["annotator"].to_pylist(), answers["answer"].to_pylist(), strict=True)
            if answer not in (SKIP, UNCLEAR)
        ]
        if not judged or self.asking.judged == "question":
            return ()
        run, labels = shlex.quote(self.run_url), shlex.quote(self.reviews_url)
        if self.asking.kind == "audit":  # takes the labels of all people, and finds the majority
            return (f"privsieve audit apply {run} {labels}",)
        first = list[str]()
        if len(set(judged)) > 1:  # takes one label per picture
            first, labels = [f"privsieve labels consensus {labels} --out labels.parquet"], "labels.parquet"
        return (*first, f"privsieve evaluate {run} --labels {labels}")

    def progress(self, reviewer: str) -> dict[str, Any]:
        """Return the progress as JSON types."""
        asking = self.asking
        asking.answers.refresh()
        answers = standing(asking.answers.table())
        answers = answers.filter(pc.is_in(answers["sha256"], pa.array(asking.hashes, pa.string())))
        labels = answers.select(LABELS_SCHEMA.names)
        given, tally = labels.filter(pc.not_equal(answers["answer"], SKIP)), tally_of(asking, reviewer)
        says: dict[str, Any] = {
            "num_left": tally.num_left,
            "num_answered": tally.num_answered,
            "num_unclear": tally.num_unclear,
            "num_skipped": tally.num_skipped,
            "in_words": tally.in_words,
            "next": list(self.next_commands()),
            "not_shown": not_shown(asking),
            "people": dict(Counter(given["annotator"].to_pylist()).most_common()),
            "enough": None if self.audit is None else enough_labels(self.audit[0], labels, self.audit[1]),
            "known": None,
        }
        if self.checks is not None and (reviewer == self.owner or not tally.num_left):
            right = right_answers(labels, self.checks)
            says["known"] = {n: both for n, both in right.items() if reviewer in (self.owner, n)}
        return says


def not_shown(asking: Asking) -> dict[str, int]:
    """Return why -> pictures that were found not to be shown."""
    return dict(Counter(state for state in asking.screen.states().values() if state != "shown"))


def right_answers(labels: pa.Table, checks: pa.Table) -> dict[str, tuple[int, int]]:
    """Return person -> right answers, and all answers, to pictures whose answer is known."""
    of_checks = labels.filter(pc.is_in(labels["sha256"], checks["sha256"].combine_chunks()))
    if not of_checks.num_rows:
        return {}
    judged = judgements([("reviews", of_checks), (CHECKS, checks)])
    answers = np.concatenate([judged.values, judged.private[:, :, None]], axis=2)
    known = answers[judged.annotators.index(CHECKS)]
    is_asked = ~np.isnan(known) & ~np.isnan(answers)
    num_right = (is_asked & (answers == known)).sum(axis=(1, 2)).tolist()
    num_asked = is_asked.sum(axis=(1, 2)).tolist()
    counted = zip(judged.annotators, num_right, num_asked, strict=True)
    return {name: (right, asked) for name, right, asked in sorted(counted) if asked and name != CHECKS}
