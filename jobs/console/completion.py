"""What the shell offers for options with known values."""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem | str]]


def offering(names: Iterable[str]) -> Complete:
    """For `shell_complete=` of an option: the names that begin like what is typed; any other value is accepted too."""
    known = tuple(names)

    def complete(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem | str]:
        return [name for name in known if name.startswith(typed)]

    return complete
