"""One image at a time in a child process: finds the image that kills or hangs whoever looks at it.

    python -m jobs.isolation FD     the child; the parent talks to it through the inherited connection FD

The child is a fresh interpreter, so nothing that killed the worker is shared with it. An image that the child does
not survive becomes a row `crash` (the process died or took too much memory) or `timeout`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ingest.errors import EngineError, PrivsieveError
from ingest.sample import Sample
from jobs.batch import BatchScorer, quarantined
from jobs.memory import available_bytes, resident_bytes
from scoring.engines import engine_module

if TYPE_CHECKING:
    from jobs.scanner import ScanSettings

START_LIMIT_S = 600
"""Time for the child to import and start the engine."""

MEMORY_SHARE = 0.5
"""Of the memory that is available when the child starts: what an image may take, where the user does not say."""

TRIES = 2
"""The second in a fresh child: whatever images before it have left behind is no fault of the last one."""


Fault = tuple[str, str]
"""Reason code and message of a row without a score."""


class IsolationError(PrivsieveError):
    """The engine does not work in a child; that says nothing of the image."""


def isolated_rows(settings: "ScanSettings", samples: Iterable[Sample]) -> Iterator[pa.Table]:
    """The row of each sample, in order; bounded by twice `settings.stall_s` per image.

    IsolationError where the engine itself does not work in the child.
    """
    child: _Child | None = None
    try:
        for sample in samples:
            for _ in range(TRIES):
                child = child or _Child(settings)
                answer = child.score(sample, settings.stall_s)
                if isinstance(answer, pa.Table):
                    break
                if isinstance(answer, EngineError):
                    raise IsolationError(str(answer))
                child.stop()
                child = None
            yield quarantined(sample, *answer) if isinstance(answer, tuple) else answer
    finally:
        if child is not None:
            child.stop()


class _Child:
    def __init__(self, settings: "ScanSettings"):
        self._memory_limit = settings.image_memory_bytes or int(available_bytes() * MEMORY_SHARE)
        self._connection, theirs = Pipe()
        # -P: nothing is imported from the working directory, which is the user's.
        arguments = [sys.executable, "-P", "-m", "jobs.isolation", str(theirs.fileno())]
        path = os.pathsep.join(p for p in sys.path if p)
        self._process = subprocess.Popen(
            arguments,
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an engine may have processes of its own, which must end with it
        )
        theirs.close()
        self._connection.send((settings.engine, settings.options, settings.limits))
        self._memory_at_start = 0
        answer = self._answer(START_LIMIT_S)
        if answer is not True:
            self.stop()
            why = answer[1] if isinstance(answer, tuple) else "no answer"
            raise IsolationError(f"the {settings.engine} engine does not start in a process of its own: {why}")
        self._memory_at_start = resident_bytes(self._process.pid)

    def score(self, sample: Sample, limit_s: float) -> "pa.Table | Fault | EngineError":
        """The row, or what the engine raised, or why the child did not come back; then it must be stopped."""
        try:
            self._connection.send(sample)
        except OSError:  # it died after the sample before
            return "crash", self._cause_of_death()
        return self._answer(limit_s)

    def _answer(self, limit_s: float) -> Any:
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            try:
                if self._connection.poll(0.05):
                    return self._connection.recv()
            except (EOFError, OSError):
                return "crash", self._cause_of_death()
            taken = resident_bytes(self._process.pid) - self._memory_at_start
            if self._memory_at_start and taken > self._memory_limit:
                return "crash", f"needs more than {self._memory_limit // 2**20} MB of memory"
        return "timeout", f"no answer within {limit_s:g} s"

    def _cause_of_death(self) -> str:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return "the process does not answer any more"
        return f"the process was killed by {signal.Signals(-code).name}" if code < 0 else f"the process ended ({code})"

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()


def _serve(connection: Connection) -> None:
    """The child's side: settings first, then a sample at a time."""
    try:  # where memory runs out, this process goes and not its parent
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    engine, options, limits = connection.recv()
    scorer = BatchScorer(engine_module(engine).load(options), limits, num_threads=1)
    connection.send(True)
    while True:
        try:
            sample = connection.recv()
        except EOFError:
            return
        try:
            connection.send(scorer.rows([sample]))
        except EngineError as error:
            connection.send(error)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
