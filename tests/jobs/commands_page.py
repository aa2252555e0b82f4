"""Write docs/commands.md, the help of every command: `python -m tests.jobs.commands_page`."""

from collections.abc import Iterator
from pathlib import Path

import click

from jobs.cli import cli

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


def helps(command: click.Command = cli, words: tuple[str, ...] = ("privsieve",)) -> Iterator[tuple[str, str]]:
    """Each command and what its `--help` shows on 80 columns, groups before their commands."""
    context = click.Context(command, info_name=" ".join(words), terminal_width=78, help_option_names=["-h", "--help"])
    command._help_option = None  # click keeps that of an earlier context, which may have other names for it
    yield " ".join(words), f"{command.get_help(context)}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from helps(below, (*words, name))


def page() -> str:
    parts = ["# Commands\n\nWhat `--help` of each command shows.\n"]
    parts += [f"\n## {words}\n\n```\n{text}```\n" for words, text in helps()]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
