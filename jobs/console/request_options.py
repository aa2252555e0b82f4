"""Options of a command: those of the fields of its requests (`jobs.console.requests`), and some that are shared."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING
from functools import wraps
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem
from pydantic.fields import FieldInfo

from jobs.console.requests import Parameter, asked, parameters, text_of

LARGEST = 2**63 - 1

MAX_SECONDS = 10**7
"""About four months; the clocks of some systems accept no times that are much further away."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem | str]]
Function = Callable[..., Any]

TEXT_OR_JSON = click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
"""For commands that print a document; JSON holds its figures in full. The function gets `output`."""

QUIET = click.option("--quiet", is_flag=True, help="No progress.")


class OneSource(click.Argument):
    """The argument SOURCE (`cls=` of `click.argument`). If several are given, the error says to quote the pattern."""

    def __init__(self, names: Sequence[str], required: bool = True):
        super().__init__(names, required=required, nargs=-1, metavar="SOURCE")

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        value_ = super().process_value(ctx, value)
        if not value_ or len(value_) == 1:
            return value_[0] if value_ else None
        first = value_[0]
        raise click.UsageError(
            f"{len(value_)} SOURCEs, {first} first, and one is wanted: put a pattern between quotation marks, so that "
            'the shell leaves it alone ("shards/*.tar"), or give the folder that holds them',
            ctx,
        )


class WholeRange(click.IntRange):
    """A whole number of a range, and of 64 bits; click itself has no limit."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = int(super().convert(value, param, ctx))
        if abs(number) > LARGEST:
            self.fail(f"{value} is too large; the largest number is {LARGEST}.", param, ctx)
        return number


class FiniteRange(click.FloatRange):
    """A number of a range; click itself lets NaN and infinity pass."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not math.isfinite(float(click.FLOAT.convert(value, param, ctx))):
            self.fail(f"{value} is no finite number.", param, ctx)
        return float(super().convert(value, param, ctx))


class YamlFile(click.ParamType[bytes]):
    """A file of YAML or JSON -> its content. PrivsieveError, with option and file, if it is neither."""

    name = "filename"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        from ingest.storage.given_files import given_content
        from ingest.storage.place import place
        from scoring.yaml_files import load_yaml

        what = f"{'' if param is None else max(param.opts, key=len)} {value}".lstrip()
        content = given_content(place(value), what)
        load_yaml(content, what)  # parsed again later, where its name is not known
        return content


def offering(names: Iterable[str]) -> Complete:
    """Return `shell_complete=` of an option: it offers names that begin with what is typed; others are allowed."""
    known = tuple(names)

    def complete(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem | str]:
        return [name for name in known if name.startswith(typed)]

    return complete


def takes(*requests: type) -> Callable[[Function], Function]:
    """Turn a function of these requests, and of options of its own, into a function of options, for `click.command`.
    Two fields of the same name would be one option, so they are refused."""
    declared = [parameter for request in requests for parameter in parameters(request)]
    names = [item.name for item in declared]
    assert len(names) == len(set(names)), f"two fields have the same name: {sorted(names)}"

    def decorate(function: Function) -> Function:
        @wraps(function)
        def called(**values: Any) -> Any:
            given = {name: values.pop(name) for name in names}
            given = {item.name: given[item.name] for item in declared if given[item.name] not in (None, ())}
            return function(*(asked(request, given) for request in requests), **values)

        command: Function = called
        for item in reversed(declared):
            command = _declared(item)(command)
        # Its requests put names in place of the queries of URLs, so `jobs.console.settings` need not.
        command.names_urls = True  # type: ignore[attr-defined]
        headings = dict[str, list[str]]()
        for item in declared:
            if heading := item.spelled("heading"):
                headings.setdefault(heading, []).append(_names(item)[0].partition("/")[0])
        command.headings = headings  # type: ignore[attr-defined]
        return command

    return decorate


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


def _limit(limits: list[Any], closed_name: str, open_name: str) -> tuple[Any, bool]:
    """Return the limit, and whether the limit itself is outside of the range."""
    inside, outside = (
        next((value for limit in limits if (value := getattr(limit, name, None)) is not None), None)
        for name in (closed_name, open_name)
    )
    return (outside, True) if outside is not None else (inside, False)


def _refusing_blank(advice: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def refusing(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if isinstance(value, str) and not value.strip():
            raise click.BadParameter(f"it is empty; {advice}", context, parameter)
        return value

    return refusing
