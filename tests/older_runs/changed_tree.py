"""privsieve with a change, in a folder of its own. All commands run in one process: to import it takes a second."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent

COMMANDS = """
import contextlib, io, json, sys
from jobs.cli import main

for line in sys.stdin:
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(json.loads(line))
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


@dataclass(frozen=True)
class ChangedTree:
    folder: Path
    process: subprocess.Popen[str]

    def run(self, *args: object, code: int = 0) -> str:
        """Run a command and return what it printed; an error is on stderr."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(arg) for arg in args]) + "\n")
        self.process.stdin.flush()
        ended, out, err = json.loads(self.process.stdout.readline())
        assert ended == code, err
        assert "Traceback" not in err
        return str(out if code == 0 else err)

    def json(self, *args: object) -> Any:
        return json.loads(self.run(*args, "--format", "json"))


@contextmanager
def changed_tree(folder: Path, change: Callable[[Path], None]) -> Iterator[ChangedTree]:
    """Copy the rooms, change them, and start the process of the commands."""
    for room in ("ingest", "scoring", "reports", "jobs", "privsieve"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    change(folder)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", COMMANDS], cwd=folder, env=environment, **pipes) as process:  # type: ignore[call-overload]
        yield ChangedTree(folder, process)
        process.communicate()
