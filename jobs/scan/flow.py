"""Where the pictures of a worker are on their way to the engine: counts that threads raise and lower."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Flow:
    """Safe to use from several threads.

    Places: slices (under way); of these reading, writing, rows (waiting for answers) and memory (the same, since as
    many bytes as allowed are ahead); and decoding, of pictures.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = Counter[str]()
        self.bytes_ahead = 0
        """Size of files and pixels that were read and are not answered."""
        self._most_bytes_ahead = 0

    @contextmanager
    def at(self, stage: str, number: int = 1) -> Iterator[None]:
        """Count the images at the stage for the length of the block."""
        self.moved(stage, number)
        try:
            yield
        finally:
            self.moved(stage, -number)

    def moved(self, stage: str, number: int) -> None:
        with self._lock:
            self._numbers[stage] += number

    def held(self, num_bytes: int) -> None:
        """Add to the bytes ahead of the engine; negative: subtract."""
        with self._lock:
            self.bytes_ahead += num_bytes
            self._most_bytes_ahead = max(self._most_bytes_ahead, self.bytes_ahead)

    def now(self) -> Counter[str]:
        """Place -> number."""
        with self._lock:
            return self._numbers.copy()

    def most_bytes_ahead(self) -> int:
        """Since this was last asked."""
        with self._lock:
            most, self._most_bytes_ahead = self._most_bytes_ahead, self.bytes_ahead
            return most
