"""Ends work that stands still."""

import faulthandler
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TypeVar

Item = TypeVar("Item")

_lock = threading.Lock()

_deadlines: dict[object, float] = {}
"""Deadlines of all that `watched` waits for in this process."""

_LATE = 0.05
"""Part of the time by which the process may end later than a deadline: setting the timer starts a thread, so it is not
set again for each batch."""

_fires_at = math.inf
"""When the timer ends the process; infinite while it is not set."""


def watched(items: Iterable[Item], stall_s: float) -> Iterator[Item]:
    """Yield the items as they come; end the process if one takes more than `stall_s`. The caller's time does not count.

    The timer is C's (`faulthandler.dump_traceback_later`) and needs no Python lock, so no image can delay it. A process
    has only one; if several slices are under way, it is set to the earliest of their deadlines.
    """
    work, source = object(), iter(items)
    while True:
        _set(work, time.monotonic() + stall_s)
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
    global _fires_at
    with _lock:
        _deadlines.pop(work, None)
        if deadline is not None:
            _deadlines[work] = deadline
        earliest = min(_deadlines.values(), default=math.inf)
        left_s = max(0.01, earliest - time.monotonic())
        latest = earliest + _LATE * left_s
        if earliest <= _fires_at <= latest:
            return
        _fires_at = math.inf
        faulthandler.cancel_dump_traceback_later()
        if _deadlines:
            faulthandler.dump_traceback_later((1 + _LATE) * left_s, exit=True, file=_nowhere())
            _fires_at = latest
