"""Streams: a remote file that is read by ranges, a new file that is hashed while it is written, a hash of a few blocks.

The hash of a few blocks shows that a shard was replaced even if size and times are the same. Copying and unpacking
tools put the time of a file back (`cp -p`, `rsync -t`, `tar -x`), so size and time prove little. A hash of everything
would cost a second reading of the corpus. A few blocks differ almost surely if all pictures were replaced; if only a
share `p` of the bytes differs, at least one block differs with a probability of about 1 - (1 - p) ** (NUM_BLOCKS - 2).
"""

import hashlib
import io
import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, BinaryIO

from ingest.storage.retries import storage_error, store_errors

WRITTEN_BACK_BYTES = 16 * 2**20
"""The system starts writing to disk after this many bytes: else the flush at the end waits for all of them."""


class SeekableReader(io.RawIOBase):
    """A stream read at any offset. Subclasses have `read` or `readinto`, and `seek`, by which `tell` works."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


class RangeReader(SeekableReader):
    """A remote file of a known size in bytes, read by ranges."""

    def __init__(self, read_range: Callable[[int, int], bytes], size: int):
        self._read_range, self._size, self._offset = read_range, size, 0

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._offset = max(0, offset + (0, self._offset, self._size)[whence])
        return self._offset

    def readinto(self, target: Any, /) -> int:
        view = memoryview(target).cast("B")
        start, end = self._offset, min(self._offset + len(view), self._size)
        if start >= end:
            return 0
        content = self._read_range(start, end)
        view[: len(content)] = content
        self._offset = end
        return len(content)


class NewFile(io.RawIOBase):
    """A file that is being written, see `Place.create`; its content is hashed. A failed write is a StorageError."""

    def __init__(self, stream: BinaryIO, path: str, is_local: bool):
        self._stream, self._path, self._is_local = stream, path, is_local
        self._num_bytes = self._num_written_back = 0
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Hex hash of the bytes written so far."""
        return self._digest.hexdigest()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._num_bytes

    def write(self, content: Any, /) -> int:
        try:
            self._stream.write(content)
            if self._is_local and self._num_bytes - self._num_written_back >= WRITTEN_BACK_BYTES:
                if hasattr(os, "posix_fadvise"):  # Linux writes what is declared as not needed; others may do nothing
                    self._stream.flush()
                    num_bytes = self._num_bytes - self._num_written_back
                    os.posix_fadvise(self._stream.fileno(), self._num_written_back, num_bytes, os.POSIX_FADV_DONTNEED)
                self._num_written_back = self._num_bytes
        except store_errors() as error:
            raise storage_error(f"cannot write {self._path}", error) from None
        self._digest.update(content)
        self._num_bytes += len(content)
        return len(content)


NUM_BLOCKS = 16
BLOCK_BYTES = 512

ReadBlock = Callable[[int, int, int], bytes]
"""Takes the number of the file, and start and end in bytes; returns the bytes between them."""


def blocks_sha256(sizes: Sequence[int], read: ReadBlock) -> str:
    """Hash the first, the last and some drawn blocks of files, which are taken as if they followed each other.

    sizes: of the files, in bytes. The draw depends on the total size alone, so it is the same each time. A block ends
    at the end of its file. Raises what `read` raises.
    """
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    digest = hashlib.sha256(str(total).encode())
    for start in _starts(total):
        number = bisect_right(ends, start)
        offset = start - (ends[number] - sizes[number])
        digest.update(f" {start} ".encode())
        digest.update(read(number, offset, min(offset + BLOCK_BYTES, sizes[number])))
    return digest.hexdigest()


def _starts(total: int) -> list[int]:
    """Return where the blocks begin, sorted. Without `random`, whose draws may differ between versions of Python."""
    if total <= NUM_BLOCKS * BLOCK_BYTES:
        return list(range(0, total, BLOCK_BYTES))
    last = total - BLOCK_BYTES
    hashes = (hashlib.sha256(f"{total} {number}".encode()).digest() for number in range(NUM_BLOCKS - 2))
    return sorted({0, last, *(int.from_bytes(digest) % last for digest in hashes)})
