"""Ends the process where nothing happens for too long.

The timer is C's (`faulthandler`) and needs no Python lock, so no image can hold it up. A process has only one; several
slices may be under way in it, and progress in any of them counts.
"""

import faulthandler
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Watchdog:
    def __init__(self, stall_s: float):
        self._stall_s = stall_s
        self._nowhere = open(os.devnull, "w")  # noqa: SIM115 (the timer writes to it when it fires)
        self._lock = threading.Lock()
        self._num_watched = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Work begins that must call `progress` at least every `stall_s` seconds."""
        with self._lock:
            self._num_watched += 1
            self._arm()
        try:
            yield
        finally:
            with self._lock:
                self._num_watched -= 1
                self._arm()

    def progress(self) -> None:
        with self._lock:
            self._arm()

    def _arm(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        if self._num_watched:
            faulthandler.dump_traceback_later(self._stall_s, exit=True, file=self._nowhere)
