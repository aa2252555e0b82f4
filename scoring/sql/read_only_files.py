"""A remote store as DuckDB reads it: a file system of fsspec that opens for reading and can do nothing else.

DuckDB lets several threads read one open file, and each moves to its place first; here every thread has a place of its
own.
"""

import io
import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from fsspec.spec import AbstractFileSystem

from ingest.errors import StorageError
from ingest.storage.place import Place, reason_of
from ingest.storage.streams import SeekableReader


class ReadOnlyFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The files of a remote store under their own URLs.

    failure: the message of the last StorageError, which DuckDB passes on only inside the text of a traceback. The error
    itself would keep the connection alive, in a way that Python cannot see.
    """

    cachable = False

    def __init__(self, store: AbstractFileSystem):
        super().__init__()
        self.protocol = store.protocol
        self.failure: str | None = None
        self._store = store

    def open(self, path: str, mode: str = "rb", **_: Any) -> io.RawIOBase:
        if mode != "rb":
            raise PermissionError(f"{path} is for reading only")
        return _File(self._place(path), self)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return name, size and type of a file. FileNotFoundError is an answer: DuckDB asks whether the file exists."""
        return {"name": path, "size": self._place(path).size(), "type": "file"}

    def modified(self, path: str) -> datetime:
        """Return a time that differs if the content does, which is all that DuckDB's cache needs."""
        place = self._place(path)
        if place.is_local:  # there can be thousands of them
            return datetime.fromtimestamp(os.stat(place.path).st_mtime, UTC)
        return datetime.fromtimestamp(zlib.crc32(place.version_mark().encode()), UTC)

    def glob(self, path: str, **_: Any) -> list[str]:
        pattern = self._place(path)
        return pattern.matches(pattern.path)

    @contextmanager
    def noting(self, place: Place) -> Iterator[None]:
        """Keep the reason why a file cannot be read."""
        try:
            yield
        except (StorageError, OSError) as error:
            known = isinstance(error, StorageError)
            self.failure = str(error) if known else f"cannot read {place.path}: {reason_of(error)}"
            raise

    def _place(self, path: str) -> Place:
        return Place(self._store, self._store._strip_protocol(path))


class _File(SeekableReader):
    """An open file in which every thread has its own position."""

    def __init__(self, place: Place, files: ReadOnlyFiles):
        self._place, self._files, self._position = place, files, threading.local()
        with files.noting(place):
            self._local = open(place.path, "rb", buffering=0) if place.is_local else None  # noqa: SIM115
            self._size = os.fstat(self._local.fileno()).st_size if self._local else place.size()

    def tell(self) -> int:
        return getattr(self._position, "offset", 0)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._position.offset = max(0, offset + (0, self.tell(), self._size)[whence])
        return self.tell()

    def read(self, size: int = -1, /) -> bytes:
        start = self.tell()
        end = self._size if size < 0 else min(self._size, start + size)
        if start >= end:
            return b""
        with self._files.noting(self._place):
            if self._local is None:
                content = self._place.read_range(start, end)
            else:
                content = os.pread(self._local.fileno(), end - start, start)
        self._position.offset = start + len(content)
        return content

    def close(self) -> None:
        if not self.closed and self._local is not None:
            self._local.close()
        super().close()
