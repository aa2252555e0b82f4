"""Makes a function of Python from the requests of a command: each field of a request is a parameter of the function."""

import dataclasses
import inspect
import os
import re
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, get_origin

from ingest.errors import PrivsieveError
from ingest.storage.web import named
from jobs.console import requests
from jobs.console.requests import asked, text_of
from scoring.assessment import EngineOptions

Url = str | os.PathLike[str]
"""A path of this machine, or an fsspec URL."""

REQUESTS: dict[str, tuple[Callable[..., Any], tuple[type, ...]]] = {}
"""Name of a function -> the function that does the work, and the requests that it takes."""

OPTIONS = requests.Parameter("options", EngineOptions, (), None, "The options of the engine, an EngineOptions.")


def command(name: str, run: Callable[..., Any], *kinds: type) -> Callable[..., Any]:
    """Return the function `name`, which gives its parameters to `run` as requests of these kinds.

    Fields without a default come first, several values of an argument are `*name`, and the others are given by name.
    Type checkers read `commands.pyi`, which `python -m tests.privsieve.types` writes from the same fields.
    """
    REQUESTS[name] = run, kinds
    fields = fields_of(kinds)
    signature = Signature(_parameters(fields))

    def called(*values: Any, **named_values: Any) -> Any:
        try:
            given = signature.bind(*values, **named_values)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        given.apply_defaults()
        return run(*(asked(kind, given.arguments) for kind in kinds))

    lines = "\n".join(f"    {field.name}: {_in_python(text_of(field))}" for field in fields)
    called.__doc__ = f"{inspect.cleandoc(run.__doc__ or '')}\n\nParameters:\n{lines}\n"
    called.__module__, called.__name__, called.__qualname__ = "privsieve", name, name
    called.__signature__ = signature  # type: ignore[attr-defined]
    return called


def fields_of(kinds: tuple[type, ...]) -> list[requests.Parameter]:
    """Return the fields of these requests; all options of an engine are one of them."""
    fields = list[requests.Parameter]()
    for kind in kinds:
        has_options = any(field.name == OPTIONS.name for field in dataclasses.fields(kind))
        of_engine = {field.name for field in requests.parameters(EngineOptions)} if has_options else set[str]()
        fields += [OPTIONS] if has_options else []
        fields += [field for field in requests.parameters(kind) if field.name not in of_engine]
    return fields


def _parameters(fields: list[requests.Parameter]) -> list[Parameter]:
    parameters, is_named = list[Parameter](), False
    for field in fields:
        if field.spelled("argument") is not None and get_origin(field.type) is tuple:
            parameters.append(Parameter(field.name, Parameter.VAR_POSITIONAL))
            is_named = True
        elif field.default is dataclasses.MISSING:
            kind = Parameter.KEYWORD_ONLY if is_named else Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(Parameter(field.name, kind))
        else:
            parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default))
    return sorted(parameters, key=lambda parameter: parameter.kind)


def text(name: str, value: Url) -> str:
    """Return a path, or a URL as it may be written (`ingest.storage.web`). PrivsieveError if the value is neither."""
    if not isinstance(value, (str, os.PathLike)) or "\0" in os.fspath(value):
        raise PrivsieveError(f"{name}={value!r:.80}: give a path or URL")
    return named(os.fspath(value))


def _in_python(text: str) -> str:
    """Return the text with names of Python: `--per-category` of the command line is `per_category`."""
    return re.sub(r"--([a-z][a-z-]*)", lambda name: name[1].replace("-", "_"), text)
