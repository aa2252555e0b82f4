"""`similarity ask`: a page of this machine on which people say what they recognise. The server is that of `review`."""

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingest.errors import number_of
from ingest.sample import printable
from ingest.storage.place import place
from jobs.runtime.progress import SILENT, Feedback
from jobs.serving.handling import name_route, number_below, page_app, picture_answer, posted, reviewer_of, session_of
from jobs.serving.local_server import LocalServer, local_server
from jobs.similarity.asking import Choices, PostedChoice, Study, study_of
from jobs.similarity.request import AskRequest
from scoring.labels.recognition import keep_questions, study_answers

MAX_BODY_BYTES = 2**12


def app(choices: Choices) -> Starlette:
    """Return the app, which `jobs.serving.handling.Guard` must protect."""

    def state(request: Request) -> Response:
        return JSONResponse({"reviewer": session_of(request).reviewer, "asked": choices.study.asked})

    def next_questions(request: Request) -> Response:
        reviewer = reviewer_of(request)
        choices.refresh()
        return JSONResponse(choices.progress(reviewer))

    def skipped(request: Request) -> Response:
        choices.ask_skipped(reviewer_of(request))
        return JSONResponse({})

    def picture(request: Request) -> Response:
        reviewer = reviewer_of(request)
        number = number_below(request.path_params["number"], len(choices.study.questions))
        shown_at = number_below(request.path_params["place"], len(choices.study.originals) + 1)
        shown = None if number is None or shown_at is None else choices.picture(reviewer, number, shown_at)
        return JSONResponse({"error": "there is no such picture"}, 404) if shown is None else picture_answer(shown)

    async def answer(request: Request) -> Response:
        body = await posted(request, PostedChoice, MAX_BODY_BYTES)
        await run_in_threadpool(choices.save, reviewer_of(request), body)
        return JSONResponse({})

    return page_app(
        "jobs.similarity",
        own=("ask.css", "ask.js"),
        shared=("review.css", "api.js"),
        routes=[
            Route("/api/state", state),
            Route("/api/next", next_questions),
            Route("/api/picture/{number}/{place}", picture),
            Route("/api/skipped", skipped, methods=["POST"]),
            name_route(),
            Route("/api/answer", answer, methods=["POST"]),
        ],
    )


@contextmanager
def serving(request: AskRequest, feedback: Feedback = SILENT) -> Iterator[LocalServer[Choices]]:
    """Draw or continue the study, and start its server.

    Errors as in `study_of` and `keep_questions`; PrivsieveError if the port is not available.
    """
    study = study_of(request, feedback)
    folder = place(request.out)
    keep_questions(folder, study.table())
    choices = Choices(study, study_answers(folder), request.votes, request.once, request.seed)
    for line in _in_words(study, request.votes):
        feedback.notice(line)
    with local_server(app(choices), choices, "similarity", request.port, request.reviewer) as server:
        yield server


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
