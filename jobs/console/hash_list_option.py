"""`--hash-list`: the same option for every command that could show, name or copy a picture."""

from collections.abc import Callable
from typing import Any

import click

VARIABLE = "PRIVSIEVE_HASH_LIST"
"""One for all commands, so that an operator can set it once."""


def hash_list_option(then: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """then: what this command does with a listed picture, as the end of a sentence."""
    return click.option(
        "--hash-list",
        metavar="FILE",
        envvar=VARIABLE,
        help=f"File of hashes (sha256 or PDQ, one a line); a picture on it {then}. For all commands: {VARIABLE}.",
    )
