"""Options of a command: those of the fields of its requests (`jobs.console.requests`), and some that are shared."""

from collections.abc import Callable, Iterable
from dataclasses import MISSING
from functools import wraps
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem
from pydantic.fields import FieldInfo

from jobs.console.command import OneSource
from jobs.console.option_types import FiniteRange, WholeRange, YamlFile
from jobs.console.requests import Parameter, asked, parameters, text_of

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem | str]]
Function = Callable[..., Any]

TEXT_OR_JSON = click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
"""For commands that print a document; JSON holds its figures in full. The function gets `output`."""

QUIET = click.option("--quiet", is_flag=True, help="No progress.")


def offering(names: Iterable[str]) -> Complete:
    """Return `shell_complete=` of an option: it offers names that begin with what is typed; others are allowed."""
    known = tuple(names)

    def complete(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem | str]:
        return [name for name in known if name.startswith(typed)]

    return complete


def takes(*requests: type) -> Callable[[Function], Function]:
    """Make a function that takes these requests, and options of its own, one that takes options, for `click.command`.

    Two fields of the same name would be one option, so they are refused.
    """
    declared = [parameter for request in requests for parameter in parameters(request)]
    names = [item.name for item in declared]
    assert len(names) == len(set(names)), f"two fields have the same name: {sorted(names)}"

    def decorate(function: Function) -> Function:
        @wraps(function)
        def called(**values: Any) -> Any:
            given = {name: values.pop(name) for name in names}
            given = {item.name: given[item.name] for item in declared if _is_given(given[item.name], item)}
            return function(*(asked(request, given) for request in requests), **values)

        command: Function = called
        for item in reversed(declared):
            command = _declared(item)(command)
        command.names_urls = True  # type: ignore[attr-defined]  # the fields of requests do it, each by its type
        return command

    return decorate


def headings(*requests: type) -> dict[str, tuple[str, ...]]:
    """Return heading -> names of options, for `jobs.console.command.Command`."""
    by_heading: dict[str, tuple[str, ...]] = {}
    for item in (parameter for request in requests for parameter in parameters(request)):
        if heading := item.spelled("heading"):
            by_heading[heading] = (*by_heading.get(heading, ()), _names(item)[0].partition("/")[0])
    return by_heading


def _is_given(value: Any, parameter: Parameter) -> bool:
    return value is not None and value != () and (value is not False or parameter.default is not None)


def _names(parameter: Parameter) -> tuple[str, ...]:
    name = parameter.spelled("name")
    return (name or f"--{parameter.name.replace('_', '-')}", parameter.name)


def _declared(parameter: Parameter) -> Callable[[Function], Function]:
    is_several = get_origin(parameter.type) is tuple
    metavar = parameter.spelled("argument")
    kind = parameter.spelled("kind") or _kind(parameter)
    is_required = parameter.default is MISSING
    if metavar == "SOURCE":
        return click.argument(parameter.name, cls=OneSource)
    if metavar is not None:
        metavar = None if metavar == parameter.name.upper() else metavar  # click adds dots where several are taken
        return click.argument(
            parameter.name, metavar=metavar, type=kind, nargs=-1 if is_several else 1, required=is_required
        )
    text, default, variable = text_of(parameter), parameter.spelled("default"), parameter.spelled("variable")
    if default is None and not is_required and parameter.default not in (None, ()):
        default = parameter.default
    more: dict[str, Any] = {"is_flag": True} if parameter.type is bool and kind is None else {"type": kind}
    more |= {} if default is None else {"default": default}
    is_opposed = "/" in _names(parameter)[0]
    is_shown = default not in (None, "") and (default is not False or is_opposed) and "default" not in text
    return click.option(
        *_names(parameter),
        **more,
        required=is_required,
        multiple=is_several and kind is None,
        metavar=parameter.spelled("metavar"),
        envvar=variable,
        show_default=is_shown,
        help=f"{text} For all commands: {variable}." if variable else text,
        shell_complete=offering(offers) if (offers := parameter.spelled("offers")) else None,
        callback=_refusing_blank(advice) if (advice := parameter.spelled("if_blank")) else None,
    )


def _kind(parameter: Parameter) -> Any:
    """Return the type for click; None for a text or a flag."""
    limits = [each for item in parameter.metadata for each in (item.metadata if isinstance(item, FieldInfo) else ())]
    low, is_open_low = _limit(limits, "ge", "gt")
    high, is_open_high = _limit(limits, "le", "lt")
    if parameter.type is int:
        return WholeRange(min=low, max=None if is_open_high else high)
    if parameter.type is float:
        return FiniteRange(low, high, min_open=is_open_low, max_open=is_open_high)
    if parameter.type is bytes:
        return YamlFile()
    if parameter.type is Path:
        return click.Path(dir_okay=False, path_type=Path)
    return click.Choice(get_args(parameter.type)) if get_origin(parameter.type) is Literal else None


def _limit(limits: list[Any], closed: str, is_open: str) -> tuple[Any, bool]:
    """Return the limit, and whether the limit itself is outside of the range."""
    inside = next((getattr(limit, closed) for limit in limits if getattr(limit, closed, None) is not None), None)
    outside = next((getattr(limit, is_open) for limit in limits if getattr(limit, is_open, None) is not None), None)
    return (outside, True) if outside is not None else (inside, False)


def _refusing_blank(advice: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def refusing(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if isinstance(value, str) and not value.strip():
            raise click.BadParameter(f"it is empty; {advice}", context, parameter)
        return value

    return refusing
