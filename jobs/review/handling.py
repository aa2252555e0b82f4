"""What the servers of `review` and `browse` do alike with requests: files of a page, checked bodies, errors."""

from collections.abc import Callable
from importlib import resources
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingest.errors import PrivsieveError, StorageError

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}

Model = TypeVar("Model", bound=BaseModel)


class RefusedRequestError(PrivsieveError):
    """A request that is not what the page sends."""


def page_route(address: str, room: str, name: str) -> Route:
    """The file `page/<name>` of a folder of `jobs`, such as "jobs.review", at this address."""
    content = resources.files(room).joinpath("page", name).read_bytes()
    kind = TYPES[name.rpartition(".")[2]]
    answer: Callable[[Request], Response] = lambda request: Response(content, media_type=f"{kind}; charset=utf-8")  # noqa: E731
    return Route(address, answer)


def no_icon() -> Route:
    """Browsers ask for one."""
    return Route("/favicon.ico", lambda request: Response(status_code=204))


def number_below(text: str, count: int) -> int | None:
    """None for any text that is no whole number below count, such as more digits than Python converts."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(count))
    return int(text) if is_number and int(text) < count else None


async def posted(request: Request, model: type[Model], max_bytes: int) -> Model:
    """The body as the model. RefusedError if it is longer, or is something else."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise RefusedRequestError(f"the request has more than {max_bytes:,} bytes")
    try:
        return model.model_validate_json(body)
    except ValidationError:
        raise RefusedRequestError("this is not what the page sends; load it again") from None


def error_answer(request: Request, error: Exception) -> Response:
    """One line. After an error of the storage the page tries again."""
    text: dict[str, Any] = {"error": str(error)}
    return JSONResponse(text, 503 if isinstance(error, StorageError) else 400)
