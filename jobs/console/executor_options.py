"""`--executor` and `--ray-address`, the same on every command that does its work on Ray or in this process."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from jobs.runtime.executors import EXECUTORS

Command = TypeVar("Command", bound=Callable[..., Any])


def executor_options(default: str) -> Callable[[Command], Command]:
    """Adds both to a click command. default: what happens without --executor, in words."""

    def add(command: Command) -> Command:
        command = click.option("--ray-address", help="Ray cluster to use; default RAY_ADDRESS, else one of its own.")(
            command
        )
        return click.option(
            "--executor", type=click.Choice(EXECUTORS), help=f"Where the work runs; default {default}."
        )(command)

    return add
