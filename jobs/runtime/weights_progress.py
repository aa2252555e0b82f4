"""Weights that are being fetched, as the user sees it: bytes, rate and time left."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from jobs.runtime.feedback import Feedback
from jobs.runtime.pace import Pace
from jobs.runtime.progress import Meter, duration
from scoring.weights.cache import in_bytes
from scoring.weights.fetching import Listener, with_listener


@contextmanager
def weights_shown(feedback: Feedback, meter: Meter | None = None) -> Iterator[None]:
    """Shows what this thread fetches within the block. meter: where there is one already; else one of its own, from the
    first byte on."""
    with ExitStack() as stack:
        paces: dict[str, Pace] = {}

        def show(name: str, num_done: int, num_all: int) -> None:
            nonlocal meter
            meter = meter or stack.enter_context(feedback.meter("weights", None))
            if name not in paces:
                paces[name] = Pace()
                meter.phase(f"fetching {name}, {in_bytes(num_all)}")
            now_s = time.monotonic()
            paces[name].mark(now_s, num_done)
            # The small files, which come first, say nothing of the time left.
            facts = [f"fetching {name}: {in_bytes(num_done)} of {in_bytes(num_all)}"]
            if (rate := paces[name].images_per_s(now_s)) is not None:
                facts.append(f"{in_bytes(round(rate))}/s")
            if num_done >= num_all // 100 and (left_s := paces[name].seconds_left(num_all, now_s)) is not None:
                facts.append(f"{duration(left_s)} left")
            meter.phase(", ".join(facts), is_logged=False)

        with with_listener(Listener(show, feedback.notice)):
            yield
