"""How many images the engine actors have done of slices that have not ended: for progress, and for nothing else.

One small actor holds the counts. Engines send theirs at most once a second and wait for no answer; the driver asks once
a second. Where the actor is lost, progress is by whole slices, as without it.
"""

import threading
import time
from typing import Any

import ray

from jobs.scan.slice_tasks import ShowUnderWay

EVERY_S = 1.0
ANSWER_LIMIT_S = 10.0


class SliceProgress:
    """The actor. Its name is the title of its process."""

    def __init__(self) -> None:
        self._num_done: dict[str, int] = {}
        self._is_begun = False

    def looked_at(self, slice_name: str, num_images: int) -> None:
        """`jobs.scan.slice_scanner.LookedAt`."""
        self._is_begun = True
        if slice_name:
            self._num_done[slice_name] = num_images

    def under_way(self, ended: list[str]) -> dict[str, int] | None:
        """Images by slice, without those that have ended, which are forgotten; None before an engine is loaded."""
        for name in ended:
            self._num_done.pop(name, None)
        return self._num_done if self._is_begun else None


class Reports:
    """An engine's side: sends to the actor what it has done, once a second."""

    def __init__(self, actor: Any):
        self._actor = actor
        self._next_s = 0.0

    def __call__(self, slice_name: str, num_images: int) -> None:
        now_s = time.monotonic()
        if not slice_name or now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            self._actor.looked_at.remote(slice_name, num_images)


class ActorUnderWay:
    """The driver's side: asks the actor, and shows the sum."""

    def __init__(self, show: ShowUnderWay):
        self.actor = ray.remote(num_cpus=0, max_restarts=-1)(SliceProgress).remote()
        self._show = show
        self._lock = threading.Lock()
        self._num_done: dict[str, int] = {}
        self._ended: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def ended(self, slice_name: str) -> None:
        """The slice is counted otherwise from now on."""
        with self._lock:
            self._ended.append(slice_name)
            if self._num_done.pop(slice_name, None) is not None:
                self._show(sum(self._num_done.values()))

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(ANSWER_LIMIT_S)
        ray.kill(self.actor)

    def _follow(self) -> None:
        while not self._is_over.wait(EVERY_S):
            with self._lock:
                sent = list(self._ended)
            try:
                answer = ray.get(self.actor.under_way.remote(sent), timeout=ANSWER_LIMIT_S)
            except ray.exceptions.RayError:
                continue
            with self._lock:
                del self._ended[: len(sent)]
                if answer is not None and not self._is_over.is_set():
                    self._num_done = {name: n for name, n in answer.items() if name not in self._ended}
                    self._show(sum(self._num_done.values()))
