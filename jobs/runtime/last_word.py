"""A line for the user where this process ends without one: killed from outside, by Ray, or by a picture."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from jobs.runtime.executors import Executor


@contextmanager
def last_word() -> Iterator[None]:
    """Where its GCS or raylet dies, Ray ends this process at once and without a word. A shell that outlives it says so:
    it waits for a line, and finds the end of its input instead."""
    what_to_do = "run the same command again to continue (filter: with --resume)"
    line = f"privsieve: ended by Ray or from outside, before its work was done; {what_to_do}"
    shell = subprocess.Popen(["sh", "-c", f'read -r _ || echo "{line}" >&2'], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        shell.communicate(b"\n")


def command_session(executor: Executor) -> AbstractContextManager[None]:
    """For a command that works in this process: SIGTERM interrupts it as Ctrl-C does, and a sudden end gets a line.

    On Ray, `ray_session` brings both. Functions that other programs call leave signals alone.
    """
    return _inline_session() if executor == "inline" else nullcontext()


@contextmanager
def _inline_session() -> Iterator[None]:
    sigterm_before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with last_word():
            yield
    finally:
        signal.signal(signal.SIGTERM, sigterm_before or signal.SIG_DFL)
