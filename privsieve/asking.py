"""Functions of `privsieve` that make a request of their parameters: each parameter is a field of the request."""

import inspect
import os
import re
from collections.abc import Callable
from typing import TypeVar

from ingest.errors import PrivsieveError
from ingest.storage.web import named
from jobs.console.requests import docstrings, parameters, text_of

Url = str | os.PathLike[str]
"""A path of this machine, or an fsspec URL."""

Function = TypeVar("Function", bound=Callable[..., object])

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


def text(name: str, value: Url) -> str:
    """Return a path, or a URL as it may be written (`ingest.storage.web`). PrivsieveError if the value is neither."""
    if not isinstance(value, (str, os.PathLike)) or "\0" in os.fspath(value):
        raise PrivsieveError(f"{name}={value!r:.80}: give a path or URL")
    return named(os.fspath(value))


def _in_python(text: str) -> str:
    """Return the text with names of Python: `--per-category` of the command line is `per_category`."""
    return re.sub(r"--([a-z][a-z-]*)", lambda name: name[1].replace("-", "_"), text)
