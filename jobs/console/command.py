"""Commands of many options: `--help` shows these under headings."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from jobs.console.terminal import write_line


class Command(click.Command):
    """A command (`cls=` of `click.command`) with options in groups."""

    def __init__(self, *args: Any, headings: Mapping[str, Sequence[str]] | None = None, **kwargs: Any):
        """Group the options. headings: heading -> long names, such as `--limit`. Others come first, below "Options"."""
        super().__init__(*args, **kwargs)
        self._headings = headings or {}
        known = {name for parameter in self.params for name in parameter.opts}
        unknown = [name for names in self._headings.values() for name in names if name not in known]
        assert not unknown, f"headings of {self.name} name no option: {unknown}"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        heading_of = {name: heading for heading, names in self._headings.items() for name in names}
        records: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *self._headings)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record is not None:
                heading = next((heading_of[name] for name in parameter.opts if name in heading_of), "Options")
                records[heading].append(record)
        for heading, options in records.items():
            if options:
                with formatter.section(heading):
                    formatter.write_dl(options)


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


def with_old_spellings(new_names: Mapping[str, str], removed: Mapping[str, str] = {}) -> type[Command]:
    """Return a class of commands (`cls=` of `click.command`) that also take each option by its old name.

    new_names: old name -> new name, as `--gpus` -> `--num-engines`. removed: option that was removed -> why.
    """

    class Renamed(Command):
        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            end = args.index("--") if "--" in args else len(args)
            for option in removed.keys() & args[:end]:
                raise click.UsageError(f"{option} was removed: {removed[option]}; leave it out", ctx)
            return super().parse_args(ctx, [*(_renamed(argument, new_names) for argument in args[:end]), *args[end:]])

    return Renamed


def _renamed(argument: str, new_names: Mapping[str, str]) -> str:
    name, equals, value = argument.partition("=")
    if name not in new_names:
        return argument
    write_line(
        f"{name} is called {new_names[name]} now; the old name will be refused in a later version", to_stderr=True
    )
    return f"{new_names[name]}{equals}{value}"
