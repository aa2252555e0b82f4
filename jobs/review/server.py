"""The addresses of the page."""

from dataclasses import dataclass

import pyarrow as pa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingest.errors import PrivsieveError
from jobs.review.asking import MAX_BODY_BYTES, Asking, PostedAnswer, PostedName
from jobs.review.handling import (
    RefusedRequestError,
    Session,
    error_answer,
    no_icon,
    number_below,
    page_route,
    picture_answer,
    posted,
)
from jobs.review.progress import next_commands, progress
from jobs.review.request import checked_name
from reports.audit.review_progress import Estimate
from scoring.labels.votes import SHOWN_TO
from scoring.privacy import PRIVATE_CLASSES
from scoring.runs.audit_files import AuditSample
from scoring.taxonomy import ATTRIBUTES, LEVELS


@dataclass(frozen=True)
class ReviewPage:
    """What the page shows, and what it works with."""

    asking: Asking
    title: str
    """Title of the run."""

    owner: str | None
    audit: tuple[AuditSample, Estimate] | None
    """The drawn pictures of an audit, and its estimate."""

    checks: pa.Table | None
    """Known answers, as labels."""

    private_means: str
    """Which pictures are private, in words, for the people who judge them."""

    run_url: str
    reviews_url: str
    """The folder of the answers."""

    def next_commands(self) -> tuple[str, ...]:
        return next_commands(self.asking, self.run_url, self.reviews_url)


def app(review: ReviewPage) -> Starlette:
    """Return the app. It has no protection of its own: `handling.Guard` must come before it."""
    asking = review.asking

    def state(request: Request) -> Response:
        session = _session(request)
        attributes = [
            {"key": a.key, "title": a.title, "level": a.level, "shows": a.shows, "ambiguous": a.ambiguous}
            for a in ATTRIBUTES
        ]
        of_attributes = [[a.title, f"{a.shows} (GDPR: {a.laws.gdpr or 'not mapped'})"] for a in ATTRIBUTES]
        of_classes = [[name, f"{rule} (GDPR: {articles})"] for name, (rule, articles) in PRIVATE_CLASSES.items()]
        found = {"reviewer": session.reviewer, "owner": review.owner, "title": review.title, "queue": asking.kind}
        return JSONResponse(
            {
                **found,
                "judged": asking.judged,
                "votes": SHOWN_TO,
                "private_means": review.private_means,
                "rules": of_attributes if asking.judged == "attributes" else of_classes,
                "attributes": attributes,
                "levels": LEVELS,
                "total": len(asking.hashes if session.reviewer is None else asking.of_person(session.reviewer)),
            }
        )

    def next_pictures(request: Request) -> Response:
        reviewer = _reviewer(request)
        return JSONResponse({"numbers": asking.next(reviewer), "num_left": len(asking.left(reviewer))})

    def skipped(request: Request) -> Response:
        asking.ask_skipped(_reviewer(request))
        return next_pictures(request)

    def picture(request: Request) -> Response:
        reviewer = _reviewer(request)
        number = number_below(request.path_params["number"], len(asking.hashes))
        if number is None:
            return JSONResponse({"error": "there is no such picture"}, 404)
        return picture_answer(asking.picture(reviewer, number))

    def says(request: Request) -> Response:
        tallies = progress(asking, _reviewer(request), review.owner, review.audit, review.checks, review.next_commands)
        return JSONResponse(tallies)

    async def name(request: Request) -> Response:
        body = await posted(request, PostedName, MAX_BODY_BYTES)
        reviewer = checked_name(body.name)
        asking.refuse_stranger(reviewer)
        _session(request).reviewer = reviewer
        return JSONResponse({"reviewer": _session(request).reviewer})

    async def answer(request: Request) -> Response:
        body = await posted(request, PostedAnswer, MAX_BODY_BYTES)
        return JSONResponse({"model": await run_in_threadpool(asking.save, _reviewer(request), body)})

    return Starlette(
        routes=[
            *(page_route(path, "jobs.review", name) for path, name in PAGE.items()),
            no_icon(),
            Route("/api/state", state),
            Route("/api/next", next_pictures),
            Route("/api/picture/{number}", picture),
            Route("/api/progress", says),
            Route("/api/skipped", skipped, methods=["POST"]),
            Route("/api/name", name, methods=["POST"]),
            Route("/api/answer", answer, methods=["POST"]),
        ],
        exception_handlers={PrivsieveError: error_answer},
    )


PAGE = {
    "/": "index.html",
    **{f"/{name}": name for name in ("review.css", "api.js", "boxes.js", "panel.js", "review.js")},
}
"""Address -> file of `page/`."""


def _session(request: Request) -> Session:
    session: Session = request.state.session
    return session


def _reviewer(request: Request) -> str:
    reviewer = _session(request).reviewer
    if reviewer is None:
        raise RefusedRequestError("give your name first")
    return reviewer
