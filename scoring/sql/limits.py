"""Limits on a DuckDB query's time and on the memory of the process, how a query is stopped, and a database that
spills to disk.

The query runs in a thread of its own, so that Ctrl-C works at once. DuckDB checks between batches of rows whether it
should stop, so a single function call that takes minutes cannot be stopped. Its thread keeps running, and the command
must not wait for it when it ends (`jobs.cli`).
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ingest.errors import StorageError
from ingest.machine import available_bytes, resident_bytes

if TYPE_CHECKING:
    import duckdb

GRACE_S = 2.0
"""Time that an interrupted query has to stop."""

MEMORY_SHARE = 0.6
"""Share of the memory that is free at the start which the queries of a command may use."""

_LOOK_S = 0.1
_THREAD = "duckdb-query"

Answer = TypeVar("Answer")


class StoppedError(Exception):
    """A query reached a limit; `str(error)` says which, such as "after 600 s"."""


class OutOfTimeError(StoppedError):
    def __init__(self, seconds: float):
        super().__init__(f"after {seconds:g} s")


class OutOfMemoryError(StoppedError):
    def __init__(self, memory_bytes: int):
        super().__init__(f"at {memory_bytes / 1e9:.1f} GB of memory")


@dataclass(frozen=True)
class Limits:
    """Limits of one statement; None: no limit."""

    seconds: float | None = None
    """Time in DuckDB, without the time in which its rows wait to be read."""

    memory_bytes: int | None = None
    """Growth allowed to the process. DuckDB's own limit does not count text made by functions. Linux only."""


NO_LIMITS = Limits()


def limits_of_command(seconds: float) -> Limits:
    """Return a limit of time, and of a share of the memory that is free now."""
    return Limits(seconds, int(MEMORY_SHARE * available_bytes()))


class Watch:
    """Runs the parts of one query, one after the other, within common limits."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", limits: Limits = NO_LIMITS):
        self._connection, self._limits, self._spent_s = connection, limits, 0.0
        self._memory_at_start = resident_bytes(os.getpid())

    def run(self, work: Callable[[], Answer]) -> Answer:
        """Return what `work` returns, or raise what it raises. StoppedError at a limit; KeyboardInterrupt stops the
        query as well."""
        answer = Future[Answer]()

        def target() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:
                answer.set_exception(error)

        self._check(self._spent_s)
        started_s = time.monotonic()
        thread = threading.Thread(target=target, name=_THREAD, daemon=True)
        thread.start()
        try:
            while not wait([answer], _LOOK_S).done:  # Ctrl-C inside Thread.join would mark the thread as ended
                self._check(self._spent_s + time.monotonic() - started_s)
        except BaseException:
            self._connection.interrupt()
            if wait([answer], GRACE_S).done:
                thread.join()
            raise
        thread.join()
        self._spent_s += time.monotonic() - started_s
        return answer.result()

    def _check(self, spent_s: float) -> None:
        seconds, memory_bytes = self._limits.seconds, self._limits.memory_bytes
        if seconds is not None and spent_s > seconds:
            raise OutOfTimeError(seconds)
        if memory_bytes is not None and resident_bytes(os.getpid()) - self._memory_at_start > memory_bytes:
            raise OutOfMemoryError(memory_bytes)


def is_left_behind() -> bool:
    """Return whether a query that should have stopped still runs in this process."""
    return any(thread.name == _THREAD for thread in threading.enumerate())


SPILLING_SHARE = 0.5
"""Share of the free memory that `spilling_database` may take."""


@contextmanager
def spilling_database(what: str, max_bytes: int | None = None) -> "Iterator[duckdb.DuckDBPyConnection]":
    """Open a database for a pass over all rows of a run, which spills to a temporary folder that is removed afterwards.

    what: the work, for the StorageError of a full disk. max_bytes: of memory; None for a share of what is free.
    """
    import duckdb

    from scoring.sql.expressions import first_line

    with tempfile.TemporaryDirectory(prefix="privsieve-") as folder:
        database = duckdb.connect()
        try:
            share = int(SPILLING_SHARE * available_bytes())
            database.execute(f"SET memory_limit = '{share if max_bytes is None else min(share, max_bytes)}B'")
            database.execute("SET temp_directory = ?", [folder])
            database.execute("SET preserve_insertion_order = false; SET python_enable_replacements = false")
            yield database
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise StorageError(
                f"{what} needs more room in {tempfile.gettempdir()} (set TMPDIR to a larger disk): {first_line(error)}"
            ) from None
        finally:
            database.close()
