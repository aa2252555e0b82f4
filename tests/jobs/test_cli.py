"""The command line itself."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from jobs.cli import command_module
from tests.jobs.made import privsieve
from tests.making import Capture, Patch

ROOT = Path(__file__).parent.parent.parent
ADVICE = "take it off PYTHONPATH, or install privsieve into an environment of its own"


def test_without_arguments_the_help_is_shown(capsys: Capture) -> None:
    assert privsieve() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: privsieve [OPTIONS] COMMAND")
    assert "Score every image of a corpus into a run." in err
    assert "privsieve:" not in err


@pytest.mark.parametrize(
    ("verb", "advice"),
    [
        ("scan", "; run the same command again to continue"),
        ("filter", "; run the same command with --resume to continue"),
        ("sql", ""),
        ("report", ""),
    ],
)
def test_ctrl_c_says_how_to_continue_where_there_is_something_to(
    capsys: Capture, monkeypatch: Patch, verb: str, advice: str
) -> None:
    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_module(verb), verb, interrupted)
    assert privsieve(verb) == 130
    assert capsys.readouterr().err.strip() == f"privsieve: interrupted{advice}"


@pytest.mark.slow
def test_sql_shows_six_digits_of_a_fraction_and_csv_all_of_them(scanned: Path, capsys: Capture) -> None:
    statement = "SELECT 1 / 3 AS share, 12345678 AS num, NULL AS none"
    assert privsieve("sql", scanned, statement) == 0
    assert re.search(r"^ +0\.333333 +12345678 +null *$", capsys.readouterr().out, re.MULTILINE)
    assert privsieve("sql", scanned, statement, "--format", "csv") == 0
    assert "0.3333333333333333,12345678," in capsys.readouterr().out


def test_sql_shows_the_beginning_of_a_long_text_and_csv_all_of_it(scanned: Path, capsys: Capture) -> None:
    """A table with a text of 20 million characters took longer than anyone waits."""
    statement = "SELECT repeat('a', 20000000) AS long"
    assert privsieve("sql", scanned, statement) == 0
    shown = "".join(capsys.readouterr().out.split())
    assert (
        shown
        == f"long{'─' * shown.count('─')}{'a' * 10_000}…and19,990,000morecharacters;--formatcsvorjsongivesallofthem"
    )
    assert privsieve("sql", scanned, statement, "--format", "csv") == 0
    assert capsys.readouterr().out == f"long\n{'a' * 20_000_000}\n"


def with_hidden(room: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs Python where a package of another project is found before the room."""
    (folder / room).mkdir()
    (folder / room / "__init__.py").touch()
    environment = {"PYTHONPATH": f"{folder}:{ROOT}"}
    return subprocess.run(
        [sys.executable, "-P", *arguments], env=environment, cwd=folder, capture_output=True, text=True
    )


@pytest.mark.parametrize("room", ["ingest", "scoring", "reports"])
def test_a_package_that_hides_one_of_ours_is_named_in_one_line(tmp_path: Path, room: str) -> None:
    done = with_hidden(room, tmp_path, "-m", "jobs", "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"privsieve: {tmp_path}/{room} hides privsieve's own package {room}; {ADVICE}\n"
