"""Ends a scan whose engine fails: many pictures in a row get no answer, and neither do plain grey ones."""

import math
import threading
from collections.abc import Callable, Sequence

import numpy as np

from ingest.errors import EngineError
from scoring.assessment import Outcome, Unscored, View

GIVE_UP_AFTER = 16
"""After this many views in a row without an answer, as many plain pictures are tried: the views may come from a folder
of pictures that no processor takes. As many, since running out of memory may need a full batch."""
WITHOUT_ANSWER = frozenset(["engine_error", "engine_oom"])


class CircuitBreaker:
    """Safe to use from several threads."""

    def __init__(self, max_pixels: int):
        side_px = math.isqrt(max_pixels)
        self._plain = View(np.full((side_px, side_px, 3), 128, dtype=np.uint8), frozenset(), "0" * 64)
        self._lock = threading.Lock()
        self._num_without_answer = 0

    def check(self, outcomes: Sequence[Outcome], ask: Callable[[Sequence[View]], Sequence[Outcome]]) -> None:
        """Raise EngineError if the engine no longer answers. outcomes: of all views that were asked, in order."""
        with self._lock:
            for outcome in outcomes:
                self._num_without_answer = self._num_without_answer + 1 if _is_unanswered(outcome) else 0
            if self._num_without_answer < GIVE_UP_AFTER:
                return
            number, self._num_without_answer = self._num_without_answer, 0
        last = ask([self._plain] * GIVE_UP_AFTER)
        if all(_is_unanswered(outcome) for outcome in last):
            why = last[-1].message if isinstance(last[-1], Unscored) else ""
            raise EngineError(f"the engine answered none of {number} pictures in a row, nor any plain one: {why}")


def _is_unanswered(outcome: Outcome) -> bool:
    """Return whether there is no answer; one that the protocol cannot read counts as an answer."""
    return isinstance(outcome, Unscored) and outcome.reason in WITHOUT_ANSWER
