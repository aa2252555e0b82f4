"""One image at a time in a child process: finds the image that kills or hangs a worker.

    python -m jobs.scanning.isolation FD     the child; the parent talks to it through the inherited connection FD

The child is a fresh interpreter, so nothing that killed the worker is shared with it. It reads and scores. An image
that it does not survive becomes a row `crash` (the process died or took too much memory) or `timeout`. So do the rows
of a Parquet row group that it does not survive reading. Reading a tar or folder decodes nothing, so there the storage
is at fault and the slice is given up.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

from ingest.child import DEATH_LIMIT_S, ChildProcess
from ingest.errors import EngineError, Fault, PrivsieveError, StorageError
from ingest.formats import parquet
from ingest.formats.parquet_decoding import READ_BYTES
from ingest.machine import available_bytes, resident_bytes
from ingest.sample import Locator, Slice, printable
from jobs.scanning.batch import BatchScorer, facts_of
from jobs.scanning.slice_tasks import ScanSettings
from scoring.engines import engine_module
from scoring.table import Facts, to_table
from scoring.taxonomy import CARRIED_VARIABLES

START_LIMIT_S = 600
"""Time for the child to import and start the engine."""

MEMORY_SHARE = 0.5
"""Share of the memory available when the child starts that an image may take, unless the user sets a limit."""

TRIES = 2
"""The second try is in a fresh child: the last image is not to blame for what earlier ones left behind."""


@dataclass(frozen=True)
class Lost:
    """A sample that the child did not survive."""

    fault: Fault

    facts: Facts | None
    """What is known of the sample; None if it could not be read."""


class IsolationError(PrivsieveError):
    """The engine does not work in a child; that says nothing of the image."""


def isolated_rows(settings: ScanSettings, slice_: Slice) -> Iterator[pa.Table]:
    """Yield the rows of a slice, in order, within four times `settings.stall_s` per image.

    IsolationError if the engine itself does not work in the child; SourceError, StorageError from reading, which in a
    tar or folder must not kill or hang the child either.
    """
    child: _Child | None = None
    rest: Sequence[Locator] = slice_.locators
    try:
        while rest:
            for _ in range(TRIES):
                child = child or _Child(settings, replace(slice_, locators=list(rest)))
                answer = child.next(settings.stall_s)
                if isinstance(answer, pa.Table):
                    break
                child.stop()
                child = None
            rows = [answer] if isinstance(answer, pa.Table) else _lost_rows(answer, slice_.shard, rest)
            yield from rows
            rest = rest[len(rows) :]
    finally:
        if child is not None:
            child.stop()


def _lost_rows(lost: Lost, shard: str, rest: Sequence[Locator]) -> list[pa.Table]:
    """Return one row, or all left of the row group if it could not be read. StorageError without row groups."""
    if lost.facts is not None:
        return [to_table([lost.facts], [lost.fault])]
    why, group = lost.fault.message, rest[0].get("group")
    if group is None:
        raise StorageError(f"{printable(shard)}: while sample {rest[0]['index']} was read: {why}")
    fault = Fault(lost.fault.reason, f"while it was read: {why}")
    together = takewhile(lambda locator: locator.get("group") == group, rest)
    return [to_table([facts_of(parquet.lost(shard, locator, fault))], [fault]) for locator in together]


class _Child:
    """The process that reads and scores the samples of a slice, one at a time on request."""

    def __init__(self, settings: ScanSettings, slice_: Slice):
        self._image_memory = settings.image_memory_bytes or int(available_bytes() * MEMORY_SHARE)
        self._process = ChildProcess("jobs.scanning.isolation", CARRIED_VARIABLES)
        self._connection = self._process.connection
        source = replace(settings.source, shards=(slice_.shard,))  # its other names would take long to send
        self._connection.send((replace(settings, source=source), slice_))
        answer = self._answer(START_LIMIT_S, sys.maxsize, 0)
        if answer is not True:
            self.stop()
            why = answer.message if isinstance(answer, Fault) else "no answer"
            raise IsolationError(f"the {settings.engine} engine does not start in a process of its own: {why}")
        self._memory_at_start = resident_bytes(self._process.pid)

    def next(self, limit_s: float) -> pa.Table | Lost:
        """Return the row of the next sample, or why the child did not survive; then it must be stopped.

        What is left over from the images before counts as reading, which a fresh child may survive.
        """
        facts = self._answer(limit_s, max(self._image_memory, READ_BYTES), self._memory_at_start)
        if not isinstance(facts, Facts):
            return Lost(facts, None)
        memory = resident_bytes(self._process.pid)
        try:
            self._connection.send(True)
        except OSError:
            return Lost(Fault("crash", self._cause_of_death()), facts)
        row = self._answer(limit_s, self._image_memory, memory)
        return row if isinstance(row, pa.Table) else Lost(row, facts)

    def _answer(self, limit_s: float, max_bytes: int, bytes_before: int) -> Any:
        """Return the child's answer, or a Fault if there is none. Errors that it sends are raised."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            try:
                if self._connection.poll(0.05):
                    answer = self._connection.recv()
                    if isinstance(answer, EngineError):
                        raise IsolationError(str(answer))
                    if isinstance(answer, PrivsieveError):
                        raise answer
                    return answer
            except (EOFError, OSError):
                return Fault("crash", self._cause_of_death())
            if resident_bytes(self._process.pid) - bytes_before > max_bytes:
                return Fault("crash", f"needs more than {max_bytes // 2**20} MB of memory")
        return Fault("timeout", f"no answer within {limit_s:g} s")

    def _cause_of_death(self) -> str:
        try:
            code = self._process.wait(DEATH_LIMIT_S)
        except subprocess.TimeoutExpired:
            return "the process does not answer any more"
        return f"the process was killed by {signal.Signals(-code).name}" if code < 0 else f"the process ended ({code})"

    def stop(self) -> None:
        self._process.kill()
        self._connection.close()


def _serve(connection: Connection) -> None:
    """Send what is known of a sample, then its row as soon as the parent is ready for it. Runs in the child."""
    try:  # if memory runs out, this process is killed and not its parent
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    settings: ScanSettings
    slice_: Slice
    settings, slice_ = connection.recv()
    engine = engine_module(settings.engine).load(settings.options)
    scorer = BatchScorer(
        engine, settings.record.limits, 1, settings.description.uses_caption, settings.hash_list, screen=settings.screen
    )
    connection.send(True)
    try:
        for sample in settings.source.read(slice_):
            connection.send(scorer.nameable_facts_of(sample))
            connection.recv()
            connection.send(scorer.rows([sample]))
    except PrivsieveError as error:
        connection.send(error)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
