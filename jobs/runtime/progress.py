"""What a function says while it works: progress and notices. Commands show them, other callers mostly do not. Progress
is a bar on a terminal, lines in a log, and nothing with --quiet."""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from jobs.console.terminal import write_line
from scoring.weights.files import Listener, in_bytes, with_listener

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

RATE_WINDOW_S = 30.0
"""Seconds over which the shown rate is measured."""

ESTIMATE_WINDOW_S = 300.0
"""Seconds over which the rate for the time left is measured, so that one slow batch does not change it much."""

LINE_EVERY_S = 60.0


class _Mark(NamedTuple):
    """How many images were done at a time."""

    at_s: float
    num_images: int


class Pace:
    """Pace of work that begins with the first mark. Images done before it are part of no rate."""

    def __init__(self) -> None:
        self._first: _Mark | None = None
        self._marks = deque[_Mark]()

    def mark(self, at_s: float, num_images: int) -> None:
        """Note how many images are done at this moment, on a clock that does not go back."""
        if self._marks and num_images <= self._marks[-1].num_images:  # less: a slice is begun again
            return
        self._marks.append(_Mark(at_s, num_images))
        self._first = self._first or self._marks[0]
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
        since = next((mark for mark in reversed(self._marks) if mark.at_s <= last.at_s - window_s), self._marks[0])
        return _rate_between(since, last, now_s if now_s - last.at_s > window_s else last.at_s)


def _rate_between(first: _Mark, last: _Mark, end_s: float) -> float | None:
    seconds, num_images = end_s - first.at_s, last.num_images - first.num_images
    return num_images / seconds if seconds > 0 and num_images > 0 else None


class Meter:
    """Counts images, and before that says what is being prepared. Threads may call it.

    The share done follows from the number of images. If that is not known, it is estimated from the shards, each time
    that one ends. num_images: None if it is not known before the end; `expect()` or `resume()` sets it later.
    """

    is_shown = False
    """Whether progress is shown; if not, callers may skip counting."""

    counted: Callable[["Meter"], object] | None = None
    """Is called each time that images are counted, by the thread that counts."""

    def __init__(self, label: str, num_images: int | None, clock: Callable[[], float]):
        self.label = label
        self.num_done, self.num_kept = 0, 0
        self.num_images = num_images
        self._num_under_way = 0
        self._projected: int | None = None
        self._phase = ""
        self._is_logged = True
        self._clock = clock
        self._start_s = clock()
        self._lock = threading.RLock()
        self._pace = Pace()
        self._pace.mark(self._start_s, 0)

    def phase(self, text: str, *, is_logged: bool = True) -> None:
        """Show what is being prepared, such as "starting Ray", until images are counted. Its time is part of no rate.

        is_logged: whether a log gets a line, too. If wrong commands are refused in this phase, a log then shows the
        refusal alone.
        """
        with self._lock:
            self._phase, self._is_logged = text, is_logged
            self._pace = Pace()
            self._show()

    def resume(self, num_before: int, num_images: int | None) -> None:
        """Set the images done before this work began, which are part of no rate, and those of the whole work."""
        with self._lock:
            self.num_done, self.num_images = num_before, num_images
            self._pace = Pace()
            if not self._phase:
                self._pace.mark(self._clock(), num_before)
            self._show()

    def advance(self, num_images: int, num_kept: int = 0) -> None:
        """Add to the number of images done. num_kept: those of earlier work, which are part of no rate."""
        with self._lock:
            self.num_done += num_images
            self.num_kept += num_kept
            self._count()

    def under_way(self, num_images: int) -> None:
        """Set the number of images done in pieces of work that `advance` does not count yet. 0 first: work begins."""
        with self._lock:
            self._num_under_way = num_images
            self._count()

    def expect(self, num_images: int) -> None:
        """Set the number of images of the whole work, once it is known."""
        with self._lock:
            self.num_images = num_images
            self._show()

    def shards(self, num_done: int, num_all: int) -> None:
        """Set how many of all shards are finished."""
        with self._lock:
            if num_done == num_all:
                self.num_images = self.num_done
            elif num_done and self.num_done:
                self._projected = round(self.num_done * num_all / num_done)
            self._show()

    @property
    def is_counting(self) -> bool:
        """Return whether nothing is being prepared any more."""
        return not self._phase

    @property
    def num_seen(self) -> int:
        """Return the images done, with those of pieces of work that have not ended."""
        seen = self.num_done + self._num_under_way
        return seen if self.num_images is None else max(self.num_done, min(seen, self.num_images))

    @property
    def share(self) -> float | None:
        """Return the part of the work that is done, 0 to 1; None if not known. An estimate is never all of it."""
        most = 0.99 if self.num_images is None else 1.0
        return min(most, self.num_seen / self._whole) if self._whole else None

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._start_s

    @property
    def overall_images_per_s(self) -> float | None:
        """Return the rate since the first image was begun; None if none was done."""
        with self._lock:
            return self._pace.overall_images_per_s()

    def facts(self) -> list[str]:
        """Return the phase, or what is known of images done, images/s, share done and time left."""
        with self._lock:
            if self._phase:
                return [self._phase]
            facts = [self._counted()]
            rate = self._pace.images_per_s(self._clock())
            if rate is not None:
                facts.append(f"{rate:,.{0 if rate >= 100 else 1}f}/s")
            if self.share is not None:
                facts.append(f"{int(100 * self.share)} %")
            left_s = self._pace.seconds_left(self._whole - self.num_kept, self._clock()) if self._whole else None
            if left_s is not None:
                facts.append(f"{duration(left_s)} left")
            return facts

    @property
    def _whole(self) -> int | None:
        """Return the images of the whole work; None if not known, or if there are more than was estimated."""
        if self.num_images is not None or self._projected is None:
            return self.num_images
        return self._projected if self._projected > self.num_seen else None

    def _counted(self) -> str:
        if self._whole is None:
            return f"{self.num_seen:,} image{'' if self.num_seen == 1 else 's'}"
        about = "~" if self.num_images is None else ""
        return f"{self.num_seen:,} of {about}{self._whole:,} image{'' if self._whole == 1 else 's'}"

    def _count(self) -> None:
        self._phase = ""
        self._pace.mark(self._clock(), self.num_seen - self.num_kept)
        if self.counted is not None:
            self.counted(self)
        self._show()

    def _show(self) -> None:
        """Show nothing; the subclasses show progress."""


class _LineMeter(Meter):
    """One line per phase and per minute: a log has no cursor to go back with."""

    is_shown = True

    def __init__(self, label: str, num_images: int | None, clock: Callable[[], float]):
        super().__init__(label, num_images, clock)
        self._next_s = LINE_EVERY_S
        self._shown_phase = ""

    def _show(self) -> None:
        is_new_phase = self._is_logged and self._phase not in ("", self._shown_phase)
        if is_new_phase or self.elapsed_s >= self._next_s:
            self._next_s = (self.elapsed_s // LINE_EVERY_S + 1) * LINE_EVERY_S
            self._shown_phase = self._phase or self._shown_phase
            write_line(f"{self.label}: {', '.join(self.facts())}", to_stderr=True)


class _BarMeter(Meter):
    is_shown = True

    def __init__(self, label: str, num_images: int | None, clock: Callable[[], float], progress: "Progress"):
        super().__init__(label, num_images, clock)
        self._progress = progress
        self._task = progress.add_task(label, total=None, meter=self)

    @property
    def line(self) -> str:
        return ", ".join(self.facts())

    def _show(self) -> None:
        share = self.share
        total = None if share is None else 1.0
        # A phase is shown before it blocks anything, all else several times a second.
        self._progress.update(self._task, total=total, completed=share or 0.0, refresh=bool(self._phase))


@contextmanager
def meter(
    label: str, num_images: int | None, quiet: bool, clock: Callable[[], float] = time.monotonic
) -> Iterator[Meter]:
    """Show a meter on stderr for the length of the block; `num_images` is None if it is not known yet."""
    if quiet:
        yield Meter(label, num_images, clock)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    if not Console(stderr=True).is_terminal:
        yield _LineMeter(label, num_images, clock)
    else:
        with (
            _console() as console,
            Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[meter].line}", markup=False, table_column=Column(no_wrap=True)),
                console=console,
            ) as progress,
        ):
            shown = _BarMeter(label, num_images, clock, progress)
            try:
                yield shown
            finally:
                progress.live.transient = not shown.is_counting  # the phase is of no use any more


@contextmanager
def _console() -> Iterator["Console"]:
    """Yield a console on a copy of stderr, which still works while `native_stderr_hidden` redirects stderr itself."""
    from rich.console import Console

    if sys.stderr is not sys.__stderr__:
        yield Console(stderr=True)
        return
    with os.fdopen(os.dup(2), "w") as copy:
        yield Console(file=copy)


def duration(seconds: float) -> str:
    """Return the duration in words: `40 s`, `12 min` or `3 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes // (24 * 60)} d {minutes // 60 % 24} h"


@dataclass(frozen=True)
class Feedback:
    meter: Callable[[str, int | None], AbstractContextManager[Meter]]
    """A label and the number of images (None: not known yet) -> a meter for the length of a `with` block."""

    notice: Callable[[str], None]
    """Takes one line that the user should read although the work goes on."""


SILENT = Feedback(meter=partial(meter, quiet=True), notice=lambda line: None)


def on_terminal(quiet: bool) -> Feedback:
    """Return feedback on stderr: notices, and progress unless `quiet`."""
    return Feedback(meter=partial(meter, quiet=quiet), notice=partial(write_line, to_stderr=True))


@contextmanager
def weights_shown(feedback: Feedback, meter: Meter | None = None) -> Iterator[None]:
    """Show what this thread fetches within the block. meter: one that exists already; else a new one is made at the
    first byte."""
    with ExitStack() as stack:
        begun = set[str]()

        def show(name: str, num_done: int, num_all: int) -> None:
            nonlocal meter
            meter = meter or stack.enter_context(feedback.meter("weights", None))
            if name not in begun:
                begun.add(name)
                meter.phase(f"fetching {name}, {in_bytes(num_all)}")
            meter.phase(f"fetching {name}: {in_bytes(num_done)} of {in_bytes(num_all)}", is_logged=False)

        with with_listener(Listener(show, feedback.notice)):
            yield
