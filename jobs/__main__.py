"""Where every command begins: `privsieve VERB`, and `python -m jobs VERB` on a cluster, where it is not installed."""

import os
import shutil
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from jobs import hidden_room

HELP = ("--help", "-h")
COMMANDS_PAGE = Path(__file__).parent / "docs" / "commands.md"
FULL_WIDTH = 80
"""Columns from which on help is as wide as on the page."""


def main() -> None:
    """Run `jobs.cli.main`. It is imported only after the check that no other package hides ours."""
    if hidden := hidden_room():
        print(f"privsieve: {hidden}", file=sys.stderr)
        sys.exit(2)
    if shown := written_help(sys.argv[1:]):
        print(shown, end="")
        return
    if not sys.warnoptions:  # lines of libraries name files of Python code, and no user can act on them
        warnings.simplefilter("ignore")
        os.environ.setdefault("PYTHONWARNINGS", "ignore")  # for the processes that a command starts
    from jobs.cli import main as run_command

    try:
        run_command()
    except SystemExit as end:
        # An interpreter that ends aborts if a thread of pyarrow frees memory meanwhile, and waits for threads at work.
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)


def written_help(arguments: Sequence[str]) -> str:
    """Return the help of a command as docs/commands.md has it, which takes a tenth of the time of importing the
    command; empty if it must be made."""
    is_asked = len(arguments) > 1 and arguments[-1] in HELP
    if not is_asked or sys.stdout is None or sys.stdout.encoding.lower() != "utf-8":
        return ""
    if shutil.get_terminal_size().columns < FULL_WIDTH or not COMMANDS_PAGE.exists():
        return ""
    begin = f"\n## privsieve {' '.join(arguments[:-1])}\n\n```\n"
    return COMMANDS_PAGE.read_text(encoding="utf-8").partition(begin)[2].partition("```\n")[0]


if __name__ == "__main__":
    main()
