"""The one way to stdout and stderr: every line escapes what a corpus, a file or a library may have put into it.

A name that holds an escape sequence could otherwise colour, hide or rewrite what the terminal shows.
"""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click


def escaped(text: str) -> str:
    """Return the text on one line; control characters and those that reverse the writing become backslash escapes."""
    if text.isprintable():
        return text
    from ingest.sample import printable  # here, since it loads pyarrow: `--help` and most errors need none

    return printable(text)


def write_line(text: str = "", to_stderr: bool = False, nl: bool = True) -> None:
    """Write one line; a line break in the text is escaped too. nl: whether the line ends here."""
    click.echo(escaped(text), err=to_stderr, nl=nl)


def write_cautions(cautions: Iterable[str]) -> None:
    """Write each on a line of stderr, if the output has no place for them: rows for a file or another program."""
    sys.stdout.flush()
    for caution in cautions:
        write_line(caution, to_stderr=True)


def answered_yes(question: str) -> bool:
    """Ask until y or n is typed. Ends the command where there is no input."""
    return click.confirm(escaped(question))


def write_lines(text: str) -> None:
    """Write a text of several lines to stdout."""
    for line in text.removesuffix("\n").split("\n"):
        write_line(line)


def write_json(value: Any, indent: int | None = None) -> None:
    click.echo(as_json(value, indent))


def as_json(value: Any, indent: int | None = None, default: Callable[[Any], str] | None = None) -> str:
    """Return ASCII only. The delete character is the one control character that JSON leaves as it is."""
    return json.dumps(value, indent=indent, default=default).replace("\x7f", "\\u007f")
