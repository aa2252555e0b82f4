"""Progress of long work: a bar on a terminal, a plain line per minute in a log, nothing with --quiet."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from jobs.console.terminal import write_line

LINE_EVERY_S = 60.0
PARTS = 1000
"""The bar's own scale, so that images or shards can fill it."""


class Meter:
    """Counts images. How much of all is done follows from the number of images, else from that of shards.

    num_images: None where it is not known before the end; `expect()` tells it later.
    """

    def __init__(self, label: str, num_images: int | None, clock: Callable[[], float]):
        self.label = label
        self.num_done = 0
        self._num_images = num_images
        self._shards = (0, 0)
        self._clock = clock
        self._start_s = clock()

    def advance(self, num_images: int) -> None:
        self.num_done += num_images
        self._show()

    def expect(self, num_images: int) -> None:
        """The number of images of the whole work, once it is known."""
        self._num_images = num_images
        self._show()

    def shards(self, num_done: int, num_all: int) -> None:
        """Shards that are finished, of those that this work began with."""
        self._shards = (num_done, num_all)
        self._show()

    @property
    def share(self) -> float | None:
        """Part of the work that is done, 0 to 1; None where not known."""
        done, whole = (self.num_done, self._num_images) if self._num_images is not None else self._shards
        return min(1.0, done / whole) if whole else None

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._start_s

    def facts(self) -> list[str]:
        """Images done, images/s, share done and time left: what is known of these."""
        facts = [f"{self.num_done} images" + (f" of {self._num_images}" if self._num_images is not None else "")]
        if self.num_done and self.elapsed_s > 0:
            facts.append(f"{self.num_done / self.elapsed_s:.1f} images/s")
        if self.share is not None:
            facts.append(f"{self.share:.0%} done")
        if self.share and self.elapsed_s > 0:
            facts.append(f"{_duration(self.elapsed_s * (1 - self.share) / self.share)} left")
        return facts

    def _show(self) -> None:
        """Silent; the meters below speak."""


class _LineMeter(Meter):
    """One line per minute: a log has no cursor to go back with."""

    def __init__(self, label: str, num_images: int | None, clock: Callable[[], float]):
        super().__init__(label, num_images, clock)
        self._next_s = LINE_EVERY_S

    def _show(self) -> None:
        if self.elapsed_s >= self._next_s:
            self._next_s = (self.elapsed_s // LINE_EVERY_S + 1) * LINE_EVERY_S
            write_line(f"{self.label}: {', '.join(self.facts())}", to_stderr=True)


class _BarMeter(Meter):
    def __init__(self, label: str, num_images: int | None, clock: Callable[[], float], progress: Progress):
        super().__init__(label, num_images, clock)
        self._progress = progress
        self._task = progress.add_task(label, total=None, meter=self)

    def _show(self) -> None:
        share = self.share
        total = None if share is None else PARTS
        self._progress.update(self._task, total=total, completed=0 if share is None else PARTS * share)


class _Facts(ProgressColumn):
    def render(self, task: Task) -> Text:
        meter = task.fields["meter"]
        assert isinstance(meter, Meter)
        return Text(", ".join(meter.facts()))


@contextmanager
def meter(
    label: str, num_images: int | None, quiet: bool, clock: Callable[[], float] = time.monotonic
) -> Iterator[Meter]:
    """A meter for the length of the block, on stderr; `num_images` is None where it is not known yet."""
    console = Console(stderr=True)
    if quiet:
        yield Meter(label, num_images, clock)
    elif not console.is_terminal:
        yield _LineMeter(label, num_images, clock)
    else:
        with Progress(TextColumn(label), BarColumn(), _Facts(), console=console) as progress:
            yield _BarMeter(label, num_images, clock, progress)


def _duration(seconds: float) -> str:
    """`40 s`, `12 min` or `3 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
