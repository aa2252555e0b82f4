"""What a function says while it works: progress and notices. Commands show them, other callers mostly do not."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from jobs.console.terminal import write_line
from jobs.runtime.progress import Meter, meter


@dataclass(frozen=True)
class Feedback:
    meter: Callable[[str, int | None], AbstractContextManager[Meter]]
    """A label and the number of images (None: not known yet) -> a meter for the length of a `with` block."""

    notice: Callable[[str], None]
    """Takes one line that the user should read though the work goes on."""


SILENT = Feedback(meter=partial(meter, quiet=True), notice=lambda line: None)


def on_terminal(quiet: bool) -> Feedback:
    """Notices go to stderr; so does progress, unless `quiet`."""
    return Feedback(meter=partial(meter, quiet=quiet), notice=partial(write_line, to_stderr=True))
