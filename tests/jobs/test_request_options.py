"""Options that follow from the fields of a request."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner
from pydantic import Field

from jobs.console.commands import Command
from jobs.console.request_options import takes
from jobs.console.requests import Below, Count, Option, Url


@dataclass(frozen=True)
class Size:
    width: Annotated[int, Field(ge=1, le=9)] = 3
    """Width of the picture."""

    is_hidden: bool = False


@dataclass(frozen=True)
class Wish:
    run: Annotated[Url, Option(argument="RUN")]
    """Folder of the run."""

    sample: Annotated[Count | None, Option(heading="Which")] = None
    """Images to draw."""

    kind: Literal["a", "b"] = "a"
    """One of two."""

    is_blurred: Annotated[bool, Option("--blur/--clear")] = True
    """How pictures are shown."""

    size: Annotated[Size, Below({"width": Option("--w")}, frozenset(["is_hidden"]))] = field(default_factory=Size)

    names: tuple[str, ...] = ()
    """Any number of names."""


def asked(*arguments: str) -> Any:
    """The request, or what the command prints."""
    made = list[Wish]()

    @click.command(cls=Command)
    @takes(Wish)
    def command(wish: Wish) -> None:
        made.append(wish)

    done = CliRunner().invoke(command, arguments)
    return made[0] if made else done.output


def test_a_command_without_options_has_the_defaults_of_the_fields() -> None:
    assert asked("r") == Wish("r")


def test_each_option_fills_its_field_also_one_of_a_group() -> None:
    given = ("r", "--sample", "7", "--kind", "b", "--clear", "--w", "4", "--names", "x", "--names", "y")
    assert asked(*given) == Wish("r", 7, "b", False, Size(4), ("x", "y"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'RUN'"),
        (("r", "--sample", "0"), "0 is not in the range x>=1"),
        (("r", "--kind", "c"), "'c' is not one of 'a', 'b'"),
        (("r", "--w", "10"), "10 is not in the range 1<=x<=9"),
        (("r", "--is-hidden"), "No such option"),
    ],
)
def test_a_wrong_value_is_refused_as_the_type_of_the_field_says(arguments: tuple[str, ...], message: str) -> None:
    assert message in asked(*arguments)


def test_help_shows_docstrings_defaults_and_ranges_below_their_headings() -> None:
    shown = " ".join(asked("--help").split())
    assert "--kind [a|b] One of two. [default: a]" in shown
    assert "--blur / --clear How pictures are shown. [default: blur]" in shown
    assert "--w INTEGER Width of the picture. [default: 3; 1<=x<=9]" in shown
    assert "Which: --sample INTEGER Images to draw. [x>=1]" in shown
    assert "hidden" not in shown


def test_two_fields_of_one_name_are_refused() -> None:
    with pytest.raises(AssertionError, match="two fields have the same name"):
        takes(Wish, Size)
