"""Python in a process of its own, for what could hang or crash."""

import os
import subprocess
import sys

PROCESS_LIMIT_S = 120


def python_process(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs the same Python with the same modules to its end."""
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        capture_output=True,
        text=True,
        timeout=PROCESS_LIMIT_S,
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )
