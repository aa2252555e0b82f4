"""The verb `review`: people look at pictures of a run in the browser, and say what they show."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from ingest.errors import PrivsieveError, number_of
from ingest.sample import printable
from ingest.storage.place import place
from jobs.console.requests import Count, HashListUrl, Name, Option, RunUrl, Seed, Url, checked_request
from jobs.runtime.hash_list import NOTHING, HashList, hash_list_of
from jobs.runtime.pictures import READS_AGAIN, PictureRef, Pictures, clearances, reads_pictures
from jobs.runtime.progress import SILENT, Feedback
from jobs.serving.local_server import LocalServer, local_server, refuse_missing
from jobs.serving.review.asking import Asking
from jobs.serving.review.progress import ReviewerTally, ReviewPage, estimate_of, not_shown, tallies, tally_of
from jobs.serving.review.queue import Judged, Queue, assignment, known_answers, mixed, people_of, queue_of
from jobs.serving.shown import Screen
from reports.report.opened import OpenRun
from reports.run.warehouse import open_warehouse
from scoring.labels.judgements import checked_name
from scoring.labels.reviews import ReviewAnswers
from scoring.privacy import follows_taxonomy, private_condition, private_for_people
from scoring.runs import REVIEWS
from scoring.runs.source import source_of
from scoring.table import Col

MAX_PICTURES = 100_000


@checked_request
class ReviewRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    queue: Annotated[Name | None, Option(metavar="audit|borderline|guard|SQL|LABELS")] = None
    """Which pictures: the drawn audit sample, those near the decision, those of the guard of a screen that the engine
    calls private, a SQL condition such as "level = 1 AND
    biometrics IS NULL", or a labels file (.parquet, .csv) that names them. [default: audit if a sample was drawn, else
    borderline]"""

    judged: Annotated[Judged, Option("--for")] = "private"
    """What people say of a picture: whether it is private by the levels of the taxonomy, which class of PrivBench it
    is of, one of PrivacyAlert's four votes, which attributes it shows, or yes or no to --question. The page has the
    definition of this question only."""

    question: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """With --for question: what is asked, such as "Does this show a tattoo of a person?". The answers of a run are to
    one question."""

    reviewer: Annotated[Name | None, Option("--as", metavar="NAME")] = None
    """Who looks; without it the page asks for a name."""

    num_pictures: Annotated[Annotated[int, Field(ge=1, le=MAX_PICTURES)] | None, Option("--n")] = None
    """Pictures. [default: the audit sample, else 400]"""

    gold: Annotated[Url | None, Option(metavar="LABELS")] = None
    """Labels that are known to be right; such pictures are mixed in unmarked."""

    gold_share: Annotated[float, Field(ge=0, le=0.5)] = 0.05
    """Share of all pictures that these make up."""

    assign: Annotated[Url | None, Option(metavar="CSV")] = None
    """People, in a column `name`: each is asked about --per-person pictures, and each picture goes to nearly as many
    people, within every level too."""

    per_person: Count | None = None
    """Pictures of each person of --assign; gold pictures come on top."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is never shown, and only counted."""

    blind: bool = False
    """Show nothing that the engine says, not even after the answer; always so with --assign, --gold, --question and the
    queues audit and guard."""

    again: bool = False
    """Ask what a person has answered before, too."""

    seed: Seed = 0
    """Seed of the order and of every draw."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port of this machine. [default: a free one]"""

    def __post_init__(self) -> None:
        if self.reviewer is not None:
            checked_name(self.reviewer)
        if (self.assign is None) != (self.per_person is None):
            raise PrivsieveError("--assign and --per-person belong together: give both, or neither")
        if (self.question is None) != (self.judged != "question"):
            raise PrivsieveError("--question and --for question belong together: give both, or neither")
        if self.question is not None and (self.gold is not None or self.queue in (None, "audit", "borderline")):
            raise PrivsieveError("--question wants --queue SQL or LABELS, such as --queue true, and takes no --gold")


@contextmanager
def prepared(request: ReviewRequest, feedback: Feedback = SILENT) -> Iterator[ReviewPage]:
    """Prepare everything but the server. RunError, LabelsError, SourceError, QueryError in one line; writes nothing."""
    hash_list = hash_list_of(request.hash_list)
    root, checks = place(request.run), None
    opened = open_warehouse(request.run)
    with OpenRun(opened) as run:
        queue = queue_of(run, root, request.queue, request.judged, request.num_pictures, request.seed)
        rows = queue.rows
        if request.gold is not None:
            gold, checks = known_answers(run, request.gold, request.judged)
            rows = mixed(queue, gold, checks, request.gold_share, request.seed)
        record = run.record
        hidden = _hidden(run, rows, hash_list)
        if reads_pictures(record, hash_list):
            feedback.notice(READS_AGAIN)
        audit = None if queue.sample is None else (queue.sample, estimate_of(opened, queue.sample))
        for line in run.cautions:
            feedback.notice(line)
    columns = (rows[name].to_pylist() for name in (Col.SHARD, Col.INDEX, Col.SHA256, Col.KEY))
    places = [PictureRef(*row) for row in zip(*columns, strict=True)]
    compared = hash_list if reads_pictures(record, hash_list) else NOTHING
    screen = Screen(Pictures(source_of(record), places), places, record, hidden, compared)
    known = frozenset[str]() if checks is None else frozenset(checks["sha256"].to_pylist())
    try:
        assigned = None
        if request.assign is not None and request.per_person is not None:
            of_queue = queue.rows[Col.SHA256].to_pylist(), queue.rows[Col.LEVEL].to_pylist()
            assigned = assignment(people_of(request.assign), *of_queue, request.per_person, request.seed)
        answers = ReviewAnswers(root.at(REVIEWS))
        is_blind = request.blind or request.judged == "question" or queue.kind in ("audit", "guard")
        is_blind |= request.assign is not None or request.gold is not None
        how = (request.judged, answers, screen, record.engine, request.again, is_blind, request.seed, assigned)
        asking = Asking(queue, rows, known, *how)
        if request.reviewer is not None:
            asking.refuse_stranger(request.reviewer)
        if assigned is not None:
            counts = Counter(sha256 for pictures in assigned.values() for sha256 in pictures)
            fewest, most = min(counts.values()), max(counts.values())
            times = f"{fewest:,}" if fewest == most else f"{fewest:,} or {most:,}"
            feedback.notice(
                f"each of {len(assigned):,} people is asked about {request.per_person:,}; each picture {times} times"
            )
        feedback.notice(_asked(queue, asking, request.reviewer))
        private = private_condition(record.engine) if queue.sample is None else queue.sample.design.private
        means = private_for_people(private)
        has_other = request.judged == "private" and not follows_taxonomy(private)
        of_run = (request.run, root.at(REVIEWS).path)
        yield ReviewPage(
            asking, root.name, request.reviewer, audit, checks, means, has_other, request.question, *of_run
        )
    finally:
        screen.close()


def _hidden(run: OpenRun, rows: pa.Table, hash_list: HashList) -> dict[int, Literal["listed", "not_compared"]]:
    """Return numbers of the pictures whose rows show that they are on the list, or cannot be compared with it."""
    if reads_pictures(run.record, hash_list):
        hashes = rows[Col.SHA256].to_pylist()
        return {number: "listed" for number, sha256 in enumerate(hashes) if sha256 in hash_list.sha256}
    numbered = enumerate(clearances(run, rows, hash_list))
    return {n: "listed" if each == "listed" else "not_compared" for n, each in numbered if each != "clear"}


@contextmanager
def serving(request: ReviewRequest, feedback: Feedback = SILENT) -> Iterator[LocalServer[ReviewPage]]:
    """Start the server. Errors as in `prepared`; PrivsieveError if the extra `review` or the port is not available."""
    refuse_missing("review")
    from jobs.serving.review.server import app

    with (
        prepared(request, feedback) as page,
        local_server(app(page), page, "review", request.port, request.reviewer) as server,
    ):
        yield server


@dataclass(frozen=True)
class ReviewResult:
    """What one server did."""

    num_saved: int
    """Answers that this server saved, those that were taken back or changed later included."""

    people: tuple[ReviewerTally, ...]
    """What everybody did with the pictures of the queue, in earlier reviews too."""

    not_shown: Mapping[str, int]
    """Why -> pictures: on the hash list, changed, gone, not decodable."""

    reviews_url: str
    """The folder of the answers."""

    next_commands: tuple[str, ...]
    """Commands that use them."""


def result_of(review: ReviewPage) -> ReviewResult:
    """Return the result so far, with the answers of other servers."""
    asking = review.asking
    asking.answers.refresh()
    return ReviewResult(
        asking.num_saved, tallies(asking), not_shown(asking), review.reviews_url, review.next_commands()
    )


def _asked(queue: Queue, asking: Asking, reviewer: str | None) -> str:
    kinds = {"audit": "the audit sample", "borderline": "near the decision", "sql": "those that fit the condition"}
    kinds |= {"guard": "guarded ones that the engine calls private", "list": "those of the list"}
    hidden = Counter(asking.screen.states().values())  # before anything is loaded
    said = f"{number_of(len(asking.hashes) - hidden.total(), 'picture')}: {kinds[queue.kind]}"
    if hidden["listed"]:
        said += f"; {number_of(hidden['listed'], 'more picture')} on the hash list, never shown"
    if hidden["not_compared"]:
        said += f"; {number_of(hidden['not_compared'], 'more picture')} that cannot be compared with it, never shown"
    if queue.num_without_bytes:
        said += f"; {queue.num_without_bytes:,} drawn rows have no picture to show"
    if reviewer is not None and asking.given(reviewer):
        said += f"; {reviewer}: {tally_of(asking, reviewer).in_words}"
    return printable(said)


WHY = {
    "listed": "on the hash list",
    "not_compared": "that cannot be compared with the hash list",
    "changed": "changed since the scan",
    "gone": "not in the source any more",
    "undecodable": "cannot be decoded",
}
"""Why a picture was not shown, in words."""


def summary(done: ReviewResult) -> Iterator[str]:
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
