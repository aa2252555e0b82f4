"""The addresses of the page."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingest.errors import PrivsieveError, StorageError
from jobs.reviewing.asking import Asking
from jobs.reviewing.guard import Session
from jobs.reviewing.posted import MAX_BODY_BYTES, PostedAnswer, PostedName
from jobs.reviewing.progress import progress
from jobs.reviewing.request import checked_name
from jobs.reviewing.tally import next_commands
from reports.review_progress import Estimate
from scoring.runs.audit_sample import AuditSample
from scoring.taxonomy import ATTRIBUTES, LEVELS

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Review:
    """What the page is about."""

    asking: Asking
    title: str
    """Of the run."""

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


class _RefusedError(PrivsieveError):
    """A request that is not what the page sends."""


def app(review: Review) -> Starlette:
    """Without any protection: `guard.Guard` must stand before it."""
    asking = review.asking

    def state(request: Request) -> Response:
        session = _session(request)
        attributes = [
            {"key": a.key, "title": a.title, "level": a.level, "shows": a.shows, "ambiguous": a.ambiguous}
            for a in ATTRIBUTES
        ]
        found = {"reviewer": session.reviewer, "owner": review.owner, "title": review.title, "queue": asking.kind}
        return JSONResponse(
            {
                **found,
                "judged": asking.judged,
                "private_means": review.private_means,
                "attributes": attributes,
                "levels": LEVELS,
                "total": len(asking.hashes),
            }
        )

    def next_pictures(request: Request) -> Response:
        reviewer = _reviewer(request)
        return JSONResponse({"numbers": asking.next(reviewer), "num_left": len(asking.left(reviewer))})

    def skipped(request: Request) -> Response:
        asking.ask_skipped(_reviewer(request))
        return next_pictures(request)

    def picture(request: Request) -> Response:
        _reviewer(request)
        number = _number(request.path_params["number"], len(asking.hashes))
        if number is None:
            return JSONResponse({"error": "there is no such picture"}, 404)
        screened = asking.screen.picture(number)
        if screened.state != "shown":
            return JSONResponse({"state": screened.state}, 503 if screened.state == "unreachable" else 200)
        return Response(screened.jpeg, media_type="image/jpeg")

    def says(request: Request) -> Response:
        found = progress(asking, _reviewer(request), review.owner, review.audit, review.checks, review.next_commands)
        return JSONResponse(found)

    async def name(request: Request) -> Response:
        posted = await _posted(request, PostedName)
        _session(request).reviewer = checked_name(posted.name)
        return JSONResponse({"reviewer": _session(request).reviewer})

    async def answer(request: Request) -> Response:
        posted = await _posted(request, PostedAnswer)
        return JSONResponse({"model": await run_in_threadpool(asking.save, _reviewer(request), posted)})

    return Starlette(
        routes=[
            *(Route(path, _file(name)) for path, name in PAGE.items()),
            Route("/favicon.ico", lambda request: Response(status_code=204)),
            Route("/api/state", state),
            Route("/api/next", next_pictures),
            Route("/api/picture/{number}", picture),
            Route("/api/progress", says),
            Route("/api/skipped", skipped, methods=["POST"]),
            Route("/api/name", name, methods=["POST"]),
            Route("/api/answer", answer, methods=["POST"]),
        ],
        exception_handlers={PrivsieveError: _error},
    )


PAGE = {
    "/": "index.html",
    **{f"/{name}": name for name in ("review.css", "api.js", "boxes.js", "panel.js", "review.js")},
}
"""Address -> file of `page/`."""


def _file(name: str) -> Callable[[Request], Response]:
    content = resources.files("jobs.reviewing").joinpath("page", name).read_bytes()
    kind = TYPES[name.rpartition(".")[2]]
    return lambda request: Response(content, media_type=f"{kind}; charset=utf-8")


def _number(text: str, count: int) -> int | None:
    """Below count; None for any other text, such as more digits than Python converts."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(count))
    return int(text) if is_number and int(text) < count else None


def _session(request: Request) -> Session:
    session: Session = request.state.session
    return session


def _reviewer(request: Request) -> str:
    reviewer = _session(request).reviewer
    if reviewer is None:
        raise _RefusedError("give your name first")
    return reviewer


async def _posted(request: Request, model: type[Model]) -> Model:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise _RefusedError(f"the answer has more than {MAX_BODY_BYTES:,} bytes")
    try:
        return model.model_validate_json(body)
    except ValidationError:
        raise _RefusedError("this is not what the page sends; load it again") from None


def _error(request: Request, error: Exception) -> Response:
    """Of the storage: the page tries again."""
    text: dict[str, Any] = {"error": str(error)}
    return JSONResponse(text, 503 if isinstance(error, StorageError) else 400)
