"""Progress of long work: a bar on a terminal, nothing elsewhere or with --quiet."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f} images/s" if speed else "")


class Meter:
    def __init__(self, progress: Progress, label: str, total: int | None):
        self._progress = progress
        self._task = progress.add_task(label, total=total)

    def advance(self, num_images: int) -> None:
        self._progress.advance(self._task, num_images)


@contextmanager
def meter(label: str, total: int | None, quiet: bool) -> Iterator[Meter]:
    """Counts images; `total` is None where it is not known before the end."""
    console = Console(stderr=True)
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as progress:
        yield Meter(progress, label, total)
