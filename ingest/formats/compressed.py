"""A tar that was compressed as a whole, read like a plain one.

Offsets are in the decompressed content. Seeking forward decompresses everything in between; seeking back further than
`KEPT_BYTES` starts again from the beginning, so read in the order of the offsets. Each slice of a compressed shard
decompresses the shard from its beginning.
"""

import io
from typing import BinaryIO

import pyarrow as pa

from ingest.storage.streams import SeekableReader

STEP_BYTES = 4096
"""Number of bytes, compressed and decompressed, taken at once. This much, or a block of the compression if that is more
(Zstandard: 128 KB), is lost before a damaged position."""

KEPT_BYTES = 2**19
"""Decompressed bytes kept for seeking back; more than a search for the next header overshoots."""

MIN_LIMIT_BYTES = 64 * 2**20
MAX_RATIO = 200
"""Content larger than MIN_LIMIT_BYTES and MAX_RATIO times its compressed size is taken for a decompression bomb."""


def codec_of(head: bytes) -> str | None:
    """Return the compression of a file by its first 4 bytes, or None if it is unknown."""
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    is_skippable = head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F
    return "zstd" if head[:4] == b"\x28\xb5\x2f\xfd" or is_skippable else None


class Decompressed(SeekableReader):
    """The content as a seekable stream. It ends early if the rest cannot be decompressed; `fault` then says why.

    raw: seekable, and must not raise OSError when the storage fails, since that is taken for damage.
    """

    def __init__(self, raw: BinaryIO, codec: str):
        super().__init__()
        self.fault: str | None = None
        self._raw, self._codec = raw, codec
        self._limit_bytes = max(MIN_LIMIT_BYTES, MAX_RATIO * raw.seek(0, 2))
        self._position = 0
        self._size: int | None = None
        self._start_again()

    def _start_again(self) -> None:
        self._raw.seek(0)
        self._content = pa.CompressedInputStream(pa.PythonFile(_Steps(self._raw), "r"), self._codec)
        self._window, self._window_start = bytearray(), 0

    def _advance(self) -> bool:
        """Decompress one step; return False at the end."""
        end = self._window_start + len(self._window)
        if end == self._size:
            return False
        step = b""
        if end >= self._limit_bytes:
            self.fault = "there is more of it than a sane compression gives"
        else:
            try:
                step = self._content.read(STEP_BYTES)
            except (OSError, pa.ArrowException):
                self.fault = "it is cut or damaged"
        if not step:
            self._size = end
            return False
        self._window += step
        excess = len(self._window) - KEPT_BYTES
        if excess > KEPT_BYTES:  # seldom, since what is kept has to move
            del self._window[:excess]
            self._window_start += excess
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._position < self._window_start:
            self._start_again()
        parts: list[bytes] = []
        left = size if size >= 0 else self._limit_bytes
        while left > 0:
            first = self._position - self._window_start
            part = bytes(self._window[first : first + left])
            if part:
                parts.append(part)
                self._position += len(part)
                left -= len(part)
            elif not self._advance():
                break
        return b"".join(parts)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Seek and return the position. Seeking from the end decompresses everything to find the size."""
        if whence == io.SEEK_END:
            while self._size is None:
                self._advance()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size or 0}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position


class _Steps:
    """A file for pyarrow that reads in small steps and stays open when pyarrow closes it."""

    closed = False

    def __init__(self, raw: BinaryIO):
        self._raw = raw

    def read(self, size: int = -1) -> bytes:
        return self._raw.read(min(size, STEP_BYTES))

    def close(self) -> None:
        """Do nothing: `_start_again` uses the stream again."""
