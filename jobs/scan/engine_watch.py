"""How much of the time an engine has fewer requests than a step of its model takes, and why.

A thread samples many times a second: what is missing to a full step is in preparation, in the decoders, or was not read
yet. So each moment is divided among the causes by the number of pictures that each of them holds back.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping

from jobs.scan.flow import Flow
from scoring.assessment import TakesSteps
from scoring.runs.engine_time import EngineTime

LOOK_EVERY_S = 0.01
"""Far less than a step takes on a GPU."""

CAUSES = ("preparing", "decoding", "memory", "reading", "writing", "slices")
"""memory: as many bytes were ahead as are allowed. slices: there was no further slice, as at the end of a scan."""


def causes(num_missing: int, num_prepared: int, flow: Mapping[str, int], slices_at_once: int) -> dict[str, float]:
    """Return cause -> its part of a moment in which `num_missing` requests were missing to a step; empty if none
    were."""
    if num_missing <= 0:
        return {}
    preparing = min(num_prepared, num_missing)
    decoding = min(flow.get("decoding", 0), num_missing - preparing)
    shares = {"preparing": preparing, "decoding": decoding}
    if flow.get("memory", 0):
        rest = "memory"
    elif flow.get("reading", 0):
        rest = "reading"
    else:
        rest = "slices" if flow.get("slices", 0) < slices_at_once and not flow.get("writing", 0) else "writing"
    shares[rest] = num_missing - preparing - decoding
    return {cause: number / num_missing for cause, number in shares.items() if number}


class EngineWatch:
    """Looks from its start to its `stop`, while slices are under way."""

    def __init__(self, engine: TakesSteps, flow: Flow, slices_at_once: int):
        self._engine = engine
        self._flow = flow
        self._slices_at_once = slices_at_once
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._short_s = defaultdict[str, float](float)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look_again_and_again, name="engine watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def taken(self) -> EngineTime:
        """What was seen since this was last asked."""
        with self._lock:
            time_ = EngineTime(
                seconds=self._seconds,
                short_s={cause: self._short_s[cause] for cause in CAUSES if self._short_s[cause]},
                most_bytes_ahead=self._flow.most_bytes_ahead(),
            )
            self._seconds, self._short_s = 0.0, defaultdict[str, float](float)
        return time_

    def look(self, seconds: float) -> None:
        """Attribute the seconds to the present causes."""
        flow = self._flow.now()
        if not flow["slices"]:
            return
        num_missing = self._engine.requests_per_step - self._engine.num_requests
        shares = causes(num_missing, self._engine.num_prepared, flow, self._slices_at_once)
        with self._lock:
            self._seconds += seconds
            for cause, share in shares.items():
                self._short_s[cause] += seconds * share

    def _look_again_and_again(self) -> None:
        before = time.monotonic()
        while not self._is_over.wait(LOOK_EVERY_S):
            now = time.monotonic()
            self.look(now - before)
            before = now
