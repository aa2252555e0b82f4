"""A line for the user if this process ends without one: killed from outside, by Ray, or by a picture."""

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

BY_RAY = (
    "ended by Ray or from outside, before its work was done; run the same command again to continue (filter: with "
    "--resume)"
)

_SHELL = 'while IFS= read -r line; do [ -n "$line" ] || exit 0; set -- "$line"; done; printf "%s\\n" "$1" >&2'
"""Keeps the newest line of its input, and writes it if the input ends without an empty line."""


@contextmanager
def last_word(line: str = BY_RAY) -> Iterator[Callable[[str], None]]:
    """Write `line` if this process ends silently, as when Ray ends it because its GCS or raylet died. A shell that
    outlives the process writes the line. Call the yielded function to replace it by a better reason."""
    shell = subprocess.Popen(["sh", "-c", _SHELL, "sh", f"privsieve: {line}"], stdin=subprocess.PIPE)

    def replace_by(newer: str) -> None:
        assert shell.stdin is not None  # a pipe, see above
        with suppress(BrokenPipeError):  # a Ctrl-C ends the shell too
            shell.stdin.write(f"privsieve: {' '.join(newer.split())}\n".encode())
            shell.stdin.flush()

    try:
        yield replace_by
    finally:
        shell.communicate(b"\n")


_hiding = threading.Lock()
_num_hiding = 0


@contextmanager
def native_stderr_hidden() -> Iterator[None]:
    """Hide what C++ code writes to file descriptor 2, which no user can act on; Python's own stderr stays.

    If several threads have such a block, the first hides it for all, and it is shown again when that block ends.
    """
    global _num_hiding
    with _hiding:
        is_first = _num_hiding == 0
        _num_hiding += 1
    try:
        with _hidden() if is_first else nullcontext():
            yield
    finally:
        with _hiding:
            _num_hiding -= 1


@contextmanager
def _hidden() -> Iterator[None]:
    shown, python_stderr = os.dup(2), sys.stderr
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        if python_stderr is sys.__stderr__:
            sys.stderr = os.fdopen(os.dup(shown), "w", buffering=1)
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(shown, 2)
        os.close(shown)
        os.close(nowhere)
        if sys.stderr is not python_stderr:
            sys.stderr.close()
            sys.stderr = python_stderr


@contextmanager
def inline_session(how_to_continue: str) -> Iterator[None]:
    """Within the block, write a line if the process ends in it, and hide what libraries write.

    Image libraries write about damaged files to stderr, from Python and from C.
    """
    line = f"ended from outside or by an image, before its work was done; {how_to_continue}"
    with last_word(line), native_stderr_hidden(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@contextmanager
def command_session() -> Iterator[None]:
    """Let SIGTERM interrupt a command as Ctrl-C does. Functions that other programs call leave signals alone."""
    sigterm_before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, sigterm_before or signal.SIG_DFL)
