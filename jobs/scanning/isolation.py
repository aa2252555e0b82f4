"""One picture at a time in a child process: finds the picture that kills or hangs a worker.

The child is a process of `jobs.runtime.processes`: a fresh interpreter, so nothing that killed the worker is shared
with it. This process reads the samples, which decodes nothing here; the child decodes and scores them. A picture that
it does not survive becomes a row `crash` (the process died or took too much memory) or `timeout`.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from ingest.child import ANSWER_LIMIT_S, DEATH_LIMIT_S, ChildProcess
from ingest.errors import Fault, PrivsieveError
from ingest.machine import available_bytes, resident_bytes
from ingest.sample import Sample, Slice
from jobs.runtime.processes import OnProgress
from jobs.scanning.batch import BatchScorer, facts_of
from jobs.scanning.slice_tasks import ScanSettings
from jobs.scanning.watchdog import watched
from scoring.engines import engine_module
from scoring.table import Facts, to_table
from scoring.taxonomy import CARRIED_VARIABLES

START_LIMIT_S = 600
"""Time for the child to import and start the engine."""

MEMORY_SHARE = 0.5
"""Share of the memory available when the child starts that an image may take, unless the user sets a limit."""

TRIES = 2
"""The second try is in a fresh child: the last image is not to blame for what earlier ones left behind."""


class IsolationError(PrivsieveError):
    """The engine does not work in a child; that says nothing of the image."""


def isolated_rows(settings: ScanSettings, slice_: Slice) -> Iterator[pa.Table]:
    """Yield the rows of a slice, in order, within twice `settings.stall_s` per image. IsolationError if the engine
    itself does not work in the child; SourceError, StorageError from reading."""
    child: _Child | None = None
    # Parquet is decoded in a child with a limit of its own, which comes first.
    samples = watched(settings.source.read(slice_), settings.stall_s + ANSWER_LIMIT_S)
    try:
        for sample in samples:
            for _ in range(TRIES):
                child = child or _Child(settings)
                answer = child.row_of(sample, settings.stall_s)
                if isinstance(answer, pa.Table):
                    break
                child.stop()
                child = None
            facts = facts_of(sample)
            if facts.sha256 in settings.hash_list.sha256:  # of these, a row says only where they are
                facts = Facts.of_listed(facts.shard, facts.index)
            yield answer if isinstance(answer, pa.Table) else to_table([facts], [answer])
    finally:
        if child is not None:
            child.stop()


class _Child:
    """The process that scores samples, one at a time."""

    def __init__(self, settings: ScanSettings):
        self._image_memory = settings.image_memory_bytes or int(available_bytes() * MEMORY_SHARE)
        self._process = ChildProcess("jobs.runtime.processes", CARRIED_VARIABLES)
        source = replace(settings.source, shards=())  # names would take long to send
        answer = self._answer(partial(scoring, replace(settings, source=source)), START_LIMIT_S, sys.maxsize)
        if isinstance(answer, Fault):
            self.stop()
            raise IsolationError(
                f"the {settings.engine} engine does not start in a process of its own: {answer.message}"
            )

    def row_of(self, sample: Sample, limit_s: float) -> pa.Table | Fault:
        """Return the row of the sample, or why the child did not survive; then it must be stopped."""
        answer = self._answer(sample, limit_s, self._image_memory)
        if isinstance(answer, PrivsieveError):
            raise IsolationError(str(answer))
        return answer

    def _answer(self, request: object, limit_s: float, max_bytes: int) -> Any:
        """Return the child's answer, or a Fault if there is none."""
        until, bytes_before = time.monotonic() + limit_s, resident_bytes(self._process.pid)
        try:
            self._process.connection.send(request)
            while time.monotonic() < until:
                if self._process.connection.poll(0.05):
                    _, answer = self._process.connection.recv()
                    return answer
                if resident_bytes(self._process.pid) - bytes_before > max_bytes:
                    return Fault("crash", f"needs more than {max_bytes // 2**20} MB of memory")
        except (EOFError, OSError):
            return Fault("crash", self._cause_of_death())
        return Fault("timeout", f"no answer within {limit_s:g} s")

    def _cause_of_death(self) -> str:
        try:
            code = self._process.wait(DEATH_LIMIT_S)
        except subprocess.TimeoutExpired:
            return "the process does not answer any more"
        return f"the process was killed by {signal.Signals(-code).name}" if code < 0 else f"the process ended ({code})"

    def stop(self) -> None:
        self._process.kill()
        self._process.connection.close()


@contextmanager
def scoring(settings: ScanSettings, on_progress: OnProgress) -> Iterator[Callable[[Sample], pa.Table | PrivsieveError]]:
    """Load the engine, report that, and yield what scores a sample. Runs in the child."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if memory runs out, this process is killed and not its parent
    engine, record = engine_module(settings.engine).load(settings.options), settings.record
    uses_caption = settings.description.uses_caption
    scorer = BatchScorer(engine, record.limits, 1, uses_caption, settings.hash_list, screen=settings.screen)

    def score(sample: Sample) -> pa.Table | PrivsieveError:
        try:
            return scorer.rows([sample])
        except PrivsieveError as error:
            return error

    on_progress("", 0)
    yield score
