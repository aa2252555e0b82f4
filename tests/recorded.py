"""A meter that keeps what it is given."""

from jobs.runtime.progress import Meter


class RecordedMeter(Meter):
    """Keeps each phase, and whether a log gets a line of it."""

    def __init__(self, label: str = "test", num_images: int | None = None):
        self.phases = list[tuple[str, bool]]()
        super().__init__(label, num_images, clock=lambda: 0.0)

    def phase(self, text: str, *, is_logged: bool = True) -> None:
        self.phases.append((text, is_logged))
