"""Ends the process where some work makes no progress for too long.

The timer is C's (`faulthandler`) and needs no Python lock, so no image can hold it up. A process has only one timer;
where several slices are under way it is set to the earliest of their deadlines.
"""

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


class Watchdog:
    def __init__(self, stall_s: float):
        self._stall_s = stall_s
        self._nowhere = open(os.devnull, "w")  # noqa: SIM115 (the timer writes to it when it fires)
        self._lock = threading.Lock()
        self._deadlines: dict[object, float] = {}

    def close(self) -> None:
        self._nowhere.close()

    def watch(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items as they come. Each may take `stall_s` seconds; what the caller does between them is not watched."""
        work, source = object(), iter(items)
        while True:
            self._set(work, time.monotonic() + self._stall_s)
            try:
                item = next(source)
            except StopIteration:
                return
            finally:
                self._set(work, None)
            yield item

    def _set(self, work: object, deadline: float | None) -> None:
        with self._lock:
            self._deadlines.pop(work, None)
            if deadline is not None:
                self._deadlines[work] = deadline
            faulthandler.cancel_dump_traceback_later()
            if self._deadlines:
                left_s = max(0.01, min(self._deadlines.values()) - time.monotonic())
                faulthandler.dump_traceback_later(left_s, exit=True, file=self._nowhere)


def heard(items: Iterable[Item], limit_s: float, tell: Callable[[], object]) -> Iterator[Item]:
    """The items as they come. `tell` is called, from another thread, where the next one takes longer than `limit_s`.

    The driver needs it since a worker that is stopped (SIGSTOP) cannot be ended by its own watchdog.
    """
    source = iter(items)
    while True:
        timer = threading.Timer(limit_s, tell)
        timer.daemon = True
        timer.start()
        try:
            item = next(source)
        except StopIteration:
            return
        finally:
            timer.cancel()
        yield item
