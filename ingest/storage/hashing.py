"""SHA-256 in parallel: hashlib lets the other threads of the process run while it hashes a large block."""

import hashlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

BATCH_BYTES = 2**20
"""Bytes hashed at once. Shorter content never starts a thread."""

MAX_WAITING = 8
"""Limit of waiting batches; then the writer waits too, so that memory stays bounded."""


class HashThread:
    """The hash of bytes that come in order, computed in a thread of its own. Must be closed."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._pieces, self._num_bytes = list[bytes](), 0
        self._thread: ThreadPoolExecutor | None = None
        self._waiting = deque[Future[None]]()

    def update(self, content: Any) -> None:
        """content: bytes, or a buffer, which is copied since its owner may change it."""
        piece = bytes(content)
        self._pieces.append(piece)
        self._num_bytes += len(piece)
        if self._num_bytes >= BATCH_BYTES:
            self._hand_over()

    def hexdigest(self) -> str:
        """Return the hash of all bytes so far."""
        self._wait_until(0)
        self._hash(self._take())
        return self._digest.hexdigest()

    def close(self) -> None:
        """Wait for all batches that were handed over."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _hand_over(self) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "sha256")
        self._wait_until(MAX_WAITING - 1)
        self._waiting.append(self._thread.submit(self._hash, self._take()))

    def _take(self) -> list[bytes]:
        pieces, self._pieces, self._num_bytes = self._pieces, [], 0
        return pieces

    def _wait_until(self, num_waiting: int) -> None:
        while len(self._waiting) > num_waiting:
            self._waiting.popleft().result()

    def _hash(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self._digest.update(piece)
