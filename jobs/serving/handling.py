"""What the servers of pages share: who may send requests, files, the name of a person, checked bodies, errors.

Only a page of this server may talk to it, in a browser on this machine that opened the printed address. Any page that
the browser has open can send requests to this machine. So a request needs a cookie that only the printed address gives,
and a host name that no other site can have (DNS rebinding), and it must come from a page of this server.
"""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.errors import PrivsieveError, StorageError
from jobs.serving.shown import ScreenedPicture
from scoring.labels.judgements import checked_name

HOSTS = ("127.0.0.1", "localhost")
MAX_SESSIONS = 256
MAX_NAME_BYTES = 2**12

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer. Pictures come as blobs that the page's own script has fetched."""


@dataclass
class Session:
    """A browser that opened the printed address."""

    reviewer: str | None
    """None until the person gave a name."""


class Guard:
    """ASGI middleware. Requests that pass have their `Session` in `scope["state"]["session"]`."""

    def __init__(self, app: ASGIApp, token: str, cookie: str, reviewer: str | None):
        """Guard an app. cookie: a name of its own for each port, since browsers share cookies between ports."""
        self._app, self._token, self._cookie, self._reviewer = app, token, cookie, reviewer
        self._sessions = OrderedDict[str, Session]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._pass(scope, receive, _with_headers(send))

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refused = _refused(scope["method"], headers)
        if refused is not None:
            await refused(scope, receive, send)
            return
        if scope["path"] == "/enter" and scope["method"] == "GET":
            await self._entered(scope)(scope, receive, send)
            return
        session = self._sessions.get(_cookie(headers, self._cookie))
        if session is None:
            text = "Open the address that privsieve printed last: it holds the key to this page."
            await PlainTextResponse(text, 403)(scope, receive, send)
            return
        scope.setdefault("state", {})["session"] = session
        await self._app(scope, receive, send)

    def _entered(self, scope: Scope) -> Response:
        given = scope["query_string"].removeprefix(b"token=")
        if not hmac.compare_digest(given, self._token.encode()):
            return PlainTextResponse("This address is of another server; open the one that was printed last.", 403)
        name = secrets.token_urlsafe(32)
        self._sessions[name] = Session(self._reviewer)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, name, httponly=True, samesite="strict")
        return answer


def _refused(method: str, headers: Headers) -> Response | None:
    host = headers.get("host", "")
    if host.rpartition(":")[0] not in HOSTS and host not in HOSTS:
        return PlainTextResponse("This server answers to 127.0.0.1 and localhost only.", 421)
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return PlainTextResponse("Requests from other pages are refused.", 403)
    if method not in ("GET", "POST"):
        return PlainTextResponse("Only GET and POST are answered.", 405)
    if method == "POST":
        if headers.get("origin") != f"http://{host}":
            return PlainTextResponse("Requests from other pages are refused.", 403)
        if headers.get("content-type", "").partition(";")[0] != "application/json":
            return PlainTextResponse("Only JSON is taken.", 415)
    return None


def _cookie(headers: Headers, name: str) -> str:
    pairs: Sequence[str] = headers.get("cookie", "").split("; ")
    return next((pair.partition("=")[2] for pair in pairs if pair.partition("=")[0] == name), "")


def _with_headers(send: Send) -> Send:
    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return send_with


TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}

Model = TypeVar("Model", bound=BaseModel)


class RefusedRequestError(PrivsieveError):
    """A request that is not what the page sends."""


class PostedName(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(max_length=1000)]


def page_app(room: str, names: Sequence[str], routes: Sequence[Route], shared: Sequence[str] = ()) -> Starlette:
    """Return an app of these routes and the files of a page. It has no protection: `Guard` must come before it.

    room: folder whose `page/` has `index.html` and the `own` files, such as "jobs.serving.browse". shared: files of
    `jobs.serving.review`.
    """
    files = [
        _file_route("/", room, "index.html"),
        *(_file_route(f"/{name}", room, name) for name in names),
        *(_file_route(f"/{name}", "jobs.serving.review", name) for name in shared),
        Route("/favicon.ico", lambda request: Response(status_code=204)),  # browsers ask for one
    ]
    return Starlette(routes=[*files, *routes], exception_handlers={PrivsieveError: _error_answer})


def session_of(request: Request) -> Session:
    session: Session = request.state.session
    return session


def reviewer_of(request: Request) -> str:
    """Return who looks. RefusedRequestError before the person gave a name."""
    reviewer = session_of(request).reviewer
    if reviewer is None:
        raise RefusedRequestError("give your name first")
    return reviewer


def name_route(check: Callable[[str], None] = lambda name: None) -> Route:
    """Return the route that takes the name of the person. check: raises PrivsieveError for a name that may not look."""

    async def name(request: Request) -> Response:
        reviewer = checked_name((await posted(request, PostedName, MAX_NAME_BYTES)).name)
        check(reviewer)
        session_of(request).reviewer = reviewer
        return JSONResponse({"reviewer": reviewer})

    return Route("/api/name", name, methods=["POST"])


def _file_route(address: str, room: str, name: str) -> Route:
    content = resources.files(room).joinpath("page", name).read_bytes()
    kind = TYPES[name.rpartition(".")[2]]
    answer: Callable[[Request], Response] = lambda request: Response(content, media_type=f"{kind}; charset=utf-8")  # noqa: E731
    return Route(address, answer)


def picture_answer(screened: ScreenedPicture) -> Response:
    """Return the picture as JPEG, or its state if it is not shown; 503 if the page may ask again."""
    if screened.state != "shown":
        return JSONResponse({"state": screened.state}, 503 if screened.state == "unreachable" else 200)
    return Response(screened.jpeg, media_type="image/jpeg")


def number_below(text: str, count: int) -> int | None:
    """Return the number; None for any text that is no whole number below count, or has too many digits for Python."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(count))
    return int(text) if is_number and int(text) < count else None


async def posted(request: Request, model: type[Model], max_bytes: int) -> Model:
    """Return the body as the model. RefusedRequestError if it is too long, or is something else."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise RefusedRequestError(f"the request has more than {max_bytes:,} bytes")
    try:
        return model.model_validate_json(body)
    except ValidationError:
        raise RefusedRequestError("this is not what the page sends; load it again") from None


def _error_answer(request: Request, error: Exception) -> Response:
    """Return the error in one line. After an error of the storage the page tries again."""
    text: dict[str, Any] = {"error": str(error)}
    return JSONResponse(text, 503 if isinstance(error, StorageError) else 400)
