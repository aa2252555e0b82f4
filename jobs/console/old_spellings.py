"""Options that were renamed: the old name is still accepted, with a notice."""

from collections.abc import Mapping

import click

from jobs.console.command import Command
from jobs.console.terminal import write_line


def with_old_spellings(new_names: Mapping[str, str]) -> type[Command]:
    """A class of commands (`cls=` of `click.command`) that take each option by its old name, too.

    new_names: old name -> new name, as `--gpus` -> `--num-engines`.
    """

    class Renamed(Command):
        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            end = args.index("--") if "--" in args else len(args)
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
