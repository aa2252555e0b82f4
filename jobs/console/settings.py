"""Options from a YAML file (`--config`) and from variables (`PRIVSIEVE_SCAN_ENGINE`), the same for every command. The
command line wins, then variables, then the file."""

import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from ingest.errors import PrivsieveError, StorageError, did_you_mean
from ingest.storage.web import named, refuse_credentials

PREFIX = "PRIVSIEVE"


def add_settings(command: click.Command, words: Sequence[str], examples: Sequence[str] = ()) -> None:
    """Add `--config`, variables and their explanation to a command, or to each command of a group. words: of the
    command, such as ("labels", "import"). examples: command lines for `--help`."""
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            add_settings(below, (*words, name))
        return
    if any(isinstance(parameter, _Config) for parameter in command.params):
        return
    command.params.append(_Config(words))
    shown = None
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.envvar is None:
            parameter.envvar = _variable(words, _name(parameter))
            shown = shown or f"{parameter.opts[0]} by {parameter.envvar}"
    explained = (
        f"Options can also be set by variables ({shown}) and in a YAML file of names and values (--config). The "
        "command line wins, then variables, then the file."
    )
    if command.callback is not None and not hasattr(command.callback, "names_urls"):
        command.callback = _naming(command.callback)
    lines = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples) if examples else ""
    command.epilog = "\n\n".join(text for text in (command.epilog or "", lines, explained) if text)


def _naming(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command, which may print them, get names in place of the queries of URLs (`ingest.storage.web`)."""

    @wraps(callback)
    def called(*args: Any, **kwargs: Any) -> Any:
        return callback(*args, **{name: _named(value) for name, value in kwargs.items()})

    return called


def _named(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_named(item) for item in value)
    return named(value) if isinstance(value, str) else value


def _name(parameter: click.Parameter) -> str:
    """Return the name in a file: an option's long name without its dashes, or an argument's name in lower case."""
    if isinstance(parameter, click.Argument):
        return (parameter.metavar or str(parameter.name)).lower()
    return max(parameter.opts, key=len).lstrip("-")


def _variable(words: Sequence[str], name: str) -> str:
    return "_".join((PREFIX, *words, name)).replace("-", "_").upper()


class _Config(click.Option):
    def __init__(self, words: Sequence[str]):
        super().__init__(
            ["--config"],
            type=click.Path(dir_okay=False, path_type=Path),
            is_eager=True,
            expose_value=False,
            callback=self._read,
            help="YAML file with values of options.",
        )
        self._words = words

    def _read(self, ctx: click.Context, parameter: click.Parameter, path: Path | None) -> None:
        if ctx.resilient_parsing:
            return
        begin, verb = _variable(self._words, ""), " ".join(self._words)
        known = [str(p.envvar) for p in ctx.command.params if isinstance(p, click.Option)]
        for name in sorted(os.environ):
            if name.startswith(begin) and name not in known:
                raise click.UsageError(f"the variable {name} is no option of {verb}{did_you_mean(name, known)}", ctx)
        if path is not None:
            ctx.default_map = _values(ctx.command, verb, path)


def _values(command: click.Command, verb: str, path: Path) -> dict[str, Any]:
    """Return parameter -> value, as the command line would give it. PrivsieveError names the first that is wrong."""
    from ingest.storage.given_files import given_content
    from ingest.storage.place import place
    from scoring.yaml_files import load_yaml

    what = f"--config {path}"
    settings = load_yaml(given_content(place(str(path)), what), what, yes_is_text=True)
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise PrivsieveError(f"--config {path}: wanted are names of options with their values, such as engine: canned")
    parameters = {_name(p): p for p in command.params if p.name and not isinstance(p, _Config)}
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in parameters:
            near = did_you_mean(str(name), parameters)
            raise PrivsieveError(f'--config {path}: "{name}" is no option of {verb}{near}')
        values[str(parameters[name].name)] = _value(parameters[name], value, f'--config {path}: "{name}"')
    return values


def _value(parameter: click.Parameter, value: Any, what: str) -> Any:
    if isinstance(parameter, click.Option) and parameter.is_flag:
        if not isinstance(value, bool):
            raise PrivsieveError(f"{what} is true or false")
        return value
    if parameter.nargs == -1 or parameter.multiple:
        return [_text(item, what) for item in (value if isinstance(value, list) else [value])]
    return _text(value, what)


def _text(value: Any, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PrivsieveError(f"{what} wants one number or text; put quotation marks around a text")
    try:
        refuse_credentials(str(value))
    except StorageError as error:
        raise PrivsieveError(f"{what}: {error}") from None
    return str(value)
