"""`similarity ask`: a page of this machine on which people say what they recognise. The server is that of `review`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.errors import PrivsieveError, number_of
from ingest.sample import printable
from ingest.storage.place import place
from jobs.review.local_server import LocalServer, local_server, refuse_missing
from jobs.review.progress import ReviewerTally
from jobs.review.request import checked_name
from jobs.runtime.progress import SILENT, Feedback
from jobs.similarity.asking import Choices, PostedChoice, Study, study_of
from jobs.similarity.request import AskRequest
from scoring.labels.recognition import keep_questions, study_answers

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

MAX_BODY_BYTES = 2**12

PAGE = {"/": ("jobs.similarity", "index.html")}
PAGE |= {f"/{name}": ("jobs.similarity", name) for name in ("ask.css", "ask.js")}
PAGE |= {f"/{name}": ("jobs.review", name) for name in ("review.css", "api.js")}
"""Address -> folder of `jobs` and file of its `page/`."""


def app(choices: Choices) -> "Starlette":
    """Return the app. It has no protection of its own: `jobs.review.handling.Guard` must come before it."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from jobs.review.asking import PostedName
    from jobs.review.handling import (
        RefusedRequestError,
        error_answer,
        no_icon,
        number_below,
        page_route,
        picture_answer,
        posted,
    )

    def reviewer_of(request: "Request") -> str:
        reviewer: str | None = request.state.session.reviewer
        if reviewer is None:
            raise RefusedRequestError("give your name first")
        return reviewer

    def state(request: "Request") -> "Response":
        return JSONResponse({"reviewer": request.state.session.reviewer, "asked": choices.study.asked})

    def next_questions(request: "Request") -> "Response":
        reviewer = reviewer_of(request)
        choices.refresh()
        return JSONResponse(choices.progress(reviewer))

    def skipped(request: "Request") -> "Response":
        choices.ask_skipped(reviewer_of(request))
        return JSONResponse({})

    def picture(request: "Request") -> "Response":
        reviewer = reviewer_of(request)
        number = number_below(request.path_params["number"], len(choices.study.questions))
        shown_at = number_below(request.path_params["place"], len(choices.study.originals) + 1)
        shown = None if number is None or shown_at is None else choices.picture(reviewer, number, shown_at)
        return JSONResponse({"error": "there is no such picture"}, 404) if shown is None else picture_answer(shown)

    async def name(request: "Request") -> "Response":
        body = await posted(request, PostedName, MAX_BODY_BYTES)
        request.state.session.reviewer = checked_name(body.name)
        return JSONResponse({"reviewer": request.state.session.reviewer})

    async def answer(request: "Request") -> "Response":
        body = await posted(request, PostedChoice, MAX_BODY_BYTES)
        await run_in_threadpool(choices.save, reviewer_of(request), body)
        return JSONResponse({})

    return Starlette(
        routes=[
            *(page_route(path, room, name) for path, (room, name) in PAGE.items()),
            no_icon(),
            Route("/api/state", state),
            Route("/api/next", next_questions),
            Route("/api/picture/{number}/{place}", picture),
            Route("/api/skipped", skipped, methods=["POST"]),
            Route("/api/name", name, methods=["POST"]),
            Route("/api/answer", answer, methods=["POST"]),
        ],
        exception_handlers={PrivsieveError: error_answer},
    )


@dataclass(frozen=True)
class AskServing(LocalServer):
    """The server of a study."""

    choices: Choices


@contextmanager
def serving(request: AskRequest, feedback: Feedback = SILENT) -> Iterator[AskServing]:
    """Draw or continue the study, and start its server.

    Errors as of `study_of` and `keep_questions`; PrivsieveError if the extra `review` or the port is not available.
    """
    refuse_missing("similarity ask")
    study = study_of(request, feedback)
    folder = place(request.out)
    keep_questions(folder, study.table())
    choices = Choices(study, study_answers(folder), request.votes, request.once, request.seed)
    for line in _in_words(study, request.votes):
        feedback.notice(line)
    with local_server(app(choices), "similarity", request.port, request.reviewer) as local:
        yield AskServing(local.address, local.server, local.listening, choices)


def _in_words(study: Study, votes: int) -> Iterator[str]:
    num_decoys = sum(each.is_decoy for each in study.questions)
    pairs = number_of(len(study.questions) - num_decoys, "pair")
    said = f"{pairs} of {number_of(len(study.sets), 'set')}, each for {number_of(votes, 'vote')}"
    if num_decoys:
        said += f"; {number_of(num_decoys, 'decoy')} in between"
    if study.left_out:
        said += "; not asked about: " + ", ".join(f"{n:,} {why}" for why, n in sorted(study.left_out.items()))
    yield printable(said)
    if study.asked != "classes" and study.num_other_shapes:
        yield (
            f"caution: {number_of(study.num_other_shapes, 'question')} with originals of another shape, which gives "
            "away that they are wrong; give more originals, or ones of one shape"
        )


@dataclass(frozen=True)
class AskResult:
    """What one server did."""

    num_saved: int
    """Answers that this server saved, those that were taken back or changed later included."""

    people: tuple[ReviewerTally, ...]
    """What everybody did, at other servers too."""


def run_ask(request: AskRequest, opened: Callable[[str], None], feedback: Feedback = SILENT) -> AskResult:
    """Serve the page until the process is interrupted. opened: takes the address. Errors as of `serving`."""
    with serving(request, feedback) as served:
        opened(served.address)
        with suppress(KeyboardInterrupt):
            served.run()
        return result_of(served.choices)


def result_of(choices: Choices) -> AskResult:
    """Return the result as of now, with the answers of other servers."""
    choices.refresh()
    return AskResult(choices.num_saved, choices.tallies())
