"""How fast work goes: counts at points in time, and the rates and the time left that follow from them."""

from collections import deque
from dataclasses import dataclass

RATE_WINDOW_S = 30.0
"""Seconds over which the shown rate is measured."""

ESTIMATE_WINDOW_S = 300.0
"""Seconds over which the rate for the time left is measured, so that one slow batch does not change it much."""

MIN_GAP_S = 0.5
"""Counts that come faster are joined."""


@dataclass(frozen=True)
class _Mark:
    at_s: float

    num_images: int
    """Images done at that time."""


class Pace:
    """Pace of work that begins with the first mark. Images done before it count for no rate."""

    def __init__(self) -> None:
        self._first: _Mark | None = None
        self._marks = deque[_Mark]()

    def restart(self) -> None:
        """Forget everything: the next mark is the first."""
        self._first = None
        self._marks.clear()

    def mark(self, at_s: float, num_images: int) -> None:
        """Note how many images are done at this moment, on a clock that does not go back."""
        mark = _Mark(at_s, num_images)
        if self._first is None:
            self._first = mark
            self._marks.append(mark)
            return
        if num_images <= self._marks[-1].num_images:  # less: the images of a slice that is begun again
            return
        if len(self._marks) > 1 and at_s - self._marks[-2].at_s < MIN_GAP_S:
            self._marks.pop()
        self._marks.append(mark)
        while len(self._marks) > 2 and self._marks[1].at_s <= at_s - ESTIMATE_WINDOW_S:
            self._marks.popleft()

    def images_per_s(self, now_s: float) -> float | None:
        """Return the rate over the last `RATE_WINDOW_S` in which images were done; it falls while none is. None if
        unknown."""
        return self._rate(RATE_WINDOW_S, now_s)

    def overall_images_per_s(self) -> float | None:
        """Return the rate from the first mark to the last; None if nothing was done between them."""
        if self._first is None:
            return None
        return _rate_between(self._first, self._marks[-1], self._marks[-1].at_s)

    def seconds_left(self, num_images: int, now_s: float) -> float | None:
        """Return the seconds until all `num_images` are done. It counts down while none is done. None if unknown."""
        if not self._marks:
            return None
        last = self._marks[-1]
        rate = self._rate(ESTIMATE_WINDOW_S, last.at_s)
        if rate is None:
            return None
        left_s = (num_images - last.num_images) / rate - (now_s - last.at_s)
        return left_s if left_s >= 0 else None

    def _rate(self, window_s: float, now_s: float) -> float | None:
        if len(self._marks) < 2:
            return None
        last = self._marks[-1]
        within = last.at_s - window_s
        since = next((mark for mark in reversed(self._marks) if mark.at_s <= within), self._marks[0])
        return _rate_between(since, last, now_s if now_s - last.at_s > window_s else last.at_s)


def _rate_between(first: _Mark, last: _Mark, end_s: float) -> float | None:
    seconds, num_images = end_s - first.at_s, last.num_images - first.num_images
    return num_images / seconds if seconds > 0 and num_images > 0 else None
