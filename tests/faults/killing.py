"""Runs commands in children that end themselves with SIGKILL before a given change of a folder.

    python -m tests.faults.killing FOLDER

Reads a line of JSON for each command, [number of the change, from 1, and the arguments], and answers with the exit code
of the child, -9 if it was killed. A change is a file that is opened for writing, renamed or removed, or a folder that
is made or removed. All is imported before, so that a child begins at once.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")

Run = Callable[..., int]
"""Takes the number of the change and the arguments of a command; returns the exit code."""


@contextmanager
def killing(folder: Path) -> Iterator[Run]:
    """Start the process that makes the children."""
    command = [sys.executable, "-m", "tests.faults.killing", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        stdin, stdout = server.stdin, server.stdout
        assert stdin is not None
        assert stdout is not None

        def run(number: int, *args: object) -> int:
            stdin.write(json.dumps([number, *map(str, args)]) + "\n")
            stdin.flush()
            return int(stdout.readline())

        yield run
        stdin.close()


def _killed_at(number: int, folder: str) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that ends the process before a change. number: of the change, from 1."""
    left = number

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal left
        is_change = event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & 3 != os.O_RDONLY)
        if is_change and str(args[0]).startswith(folder):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


def main(folder: str) -> None:

    from tests.jobs.made import privsieve

    for line in sys.stdin:
        number, *args = json.loads(line)
        child = os.fork()
        if child == 0:
            sys.addaudithook(_killed_at(number, folder))
            with redirect_stdout(sys.stderr):
                code = privsieve(*args)
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
