"""Functions of `privsieve` that make a request of their parameters: each parameter is a field of the request."""

import inspect
import os
import re
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from ingest.errors import PrivsieveError
from ingest.storage.web import named
from jobs.console.requests import docstrings, parameters, text_of
from jobs.serving.local_server import LocalServer

Url = str | os.PathLike[str]
"""A path of this machine, or an fsspec URL."""

Function = TypeVar("Function", bound=Callable[..., object])
Page = TypeVar("Page")
Result = TypeVar("Result")

REQUESTS: dict[str, tuple[type, ...]] = {}
"""Name of a function -> the requests that it makes of its parameters."""


def takes(*requests: type) -> Callable[[Function], Function]:
    """Add what the fields of these requests say about the parameters to the docstring of a function."""

    def documented(function: Function) -> Function:
        REQUESTS[function.__name__] = requests
        texts = {name: text for request in requests for name, text in docstrings(request).items()}
        texts |= {parameter.name: text_of(parameter) for request in requests for parameter in parameters(request)}
        names = [name for name in inspect.signature(function).parameters if name in texts]
        lines = "\n".join(f"    {name}: {_in_python(texts[name])}" for name in names)
        function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nParameters:\n{lines}\n"
        return function

    return documented


class ServedPage(Generic[Result]):
    """A page that people answer, while its `with` block lasts."""

    def __init__(self, server: LocalServer[Page], result_of: Callable[[Page], Result]):
        self._address, self._result = server.address, partial(result_of, server.page)

    @property
    def address(self) -> str:
        """Return the address to open in a browser of this machine. It holds a token, with which anyone can answer."""
        return self._address

    def result(self) -> Result:
        """Return what everybody has answered until now."""
        return self._result()


def text(name: str, value: Url) -> str:
    """Return a path, or a URL as it may be written (`ingest.storage.web`). PrivsieveError if the value is neither."""
    if not isinstance(value, (str, os.PathLike)) or "\0" in os.fspath(value):
        raise PrivsieveError(f"{name}={value!r:.80}: give a path or URL")
    return named(os.fspath(value))


def _in_python(text: str) -> str:
    """Return the text with names of Python: `--per-category` of the command line is `per_category`."""
    return re.sub(r"--([a-z][a-z-]*)", lambda name: name[1].replace("-", "_"), text)
