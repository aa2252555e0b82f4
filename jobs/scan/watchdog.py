"""Ends the process if some work makes no progress for too long.

The timer is C's (`faulthandler`) and needs no Python lock, so no image can delay it. A process has only one timer; if
several slices are under way, it is set to the earliest of their deadlines.
"""

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TypeVar

Item = TypeVar("Item")


_lock = threading.Lock()
_deadlines: dict[object, float] = {}
"""Deadlines of all work that any watchdog of this process watches."""


class Watchdog:
    """Watches work. Cancels a timer that the program has set with `faulthandler.dump_traceback_later`."""

    def __init__(self, stall_s: float):
        self._stall_s = stall_s

    def watch(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items as they come. Each may take `stall_s` seconds; the time of the caller does not count."""
        work, source = object(), iter(items)
        while True:
            _set(work, time.monotonic() + self._stall_s)
            try:
                item = next(source)
            except StopIteration:
                return
            finally:
                _set(work, None)
            yield item


@cache
def _nowhere() -> int:
    """Return the file descriptor that the timer writes to when it fires."""
    return os.open(os.devnull, os.O_WRONLY)


def _set(work: object, deadline: float | None) -> None:
    with _lock:
        _deadlines.pop(work, None)
        if deadline is not None:
            _deadlines[work] = deadline
        faulthandler.cancel_dump_traceback_later()
        if _deadlines:
            left_s = max(0.01, min(_deadlines.values()) - time.monotonic())
            faulthandler.dump_traceback_later(left_s, exit=True, file=_nowhere())


def heard(items: Iterable[Item], limit_s: float, tell: Callable[[], object]) -> Iterator[Item]:
    """Yield the items as they come. Call `tell`, in another thread, if the next one takes longer than `limit_s`.

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
