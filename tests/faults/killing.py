"""Runs commands in children that end themselves with SIGKILL before a given change of a folder.

    python -m tests.faults.killing

Reads a line of JSON for each command, [the folder, number of the change, from 1, and the arguments], and answers with
the exit code of the child, -9 if it was killed, and the kinds of the changes that it saw. A change is a file that is
opened for writing, renamed or removed, or a folder that is made or removed. What a child has imported that came to its
end is imported here, and the templates of releases are compiled here, so that the next ones begin at once.
"""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")

NEVER = 10_000


class Killing:
    """Runs commands in children of one process."""

    def __init__(self, server: subprocess.Popen[str]):
        self._server = server

    def run(self, folder: Path, number: int, *args: object) -> int:
        """Run a command that is killed before a change of the folder, counted from 1; return its exit code."""
        return self._ask(folder, number, args)[0]

    def steps(self, folder: Path, *args: object) -> list[int]:
        """Run a command to its end; return the numbers of the first and the last change of each kind, and one more.

        Kinds are what is done to which file, whatever the numbers in its name: between two changes of one kind, others
        of that kind only do the same to the next shard."""
        code, kinds = self._ask(folder, NEVER, args)
        assert code == 0
        assert len(kinds) > 5
        last = {kind: number for number, kind in enumerate(kinds, 1)}
        first = {kind: number for number, kind in reversed([*enumerate(kinds, 1)])}
        return sorted({*first.values(), *last.values(), len(kinds) + 1})

    def _ask(self, folder: Path, number: int, args: Sequence[object]) -> tuple[int, list[str]]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([str(folder), number, *map(str, args)]) + "\n")
        self._server.stdin.flush()
        code, kinds = json.loads(self._server.stdout.readline())
        return code, kinds


@contextmanager
def killing() -> Iterator[Killing]:
    """Start the process that makes the children."""
    command = [sys.executable, "-m", "tests.faults.killing"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield Killing(server)
        assert server.stdin is not None
        server.stdin.close()


def _killed_at(number: int, folder: str, kinds: list[str]) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that ends the process before a change. number: of the change, from 1. kinds: gets the kind
    of each change."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        is_change = event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & 3 != os.O_RDONLY)
        if is_change and str(args[0]).startswith(folder):
            kinds.append(f"{event} {re.sub(r'[0-9]+', '0', str(args[0]).removeprefix(folder))}")
            if len(kinds) == number:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


def main() -> None:
    from jobs.releases.card import _template
    from tests.jobs.made import privsieve

    _template()
    for line in sys.stdin:
        folder, number, *args = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            kinds: list[str] = []
            sys.addaudithook(_killed_at(number, folder, kinds))
            with redirect_stdout(sys.stderr):
                code = privsieve(*args)
            with open(writer, "w") as answer:
                json.dump([kinds, [*sys.modules]], answer)
            os._exit(code)
        os.close(writer)
        with open(reader) as answer:
            kinds, modules = json.loads(answer.read() or "[[], []]")
        for name in modules:
            if name not in sys.modules:
                with suppress(ImportError):  # some packages make modules that have no file
                    importlib.import_module(name)
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), kinds]), flush=True)


if __name__ == "__main__":
    main()
