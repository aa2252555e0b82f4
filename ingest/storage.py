"""Paths and fsspec URLs: open, list, and write so that a file is either whole or not there.

Credentials come from the environment only (the fsspec drivers read it); errors name the path, never an option.
"""

import hashlib
import io
import os
import posixpath
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ingest.errors import StorageError

PART = ".part"
"""Ends the name of a local file that is not whole yet."""


@dataclass(frozen=True)
class Place:
    """A folder or file on some file system. `path` is the file system's own path, without the protocol."""

    fs: fsspec.AbstractFileSystem
    path: str

    def at(self, *names: str) -> "Place":
        """The place below this one; empty names are left out."""
        return Place(self.fs, posixpath.join(self.path, *(n for n in names if n)))

    @property
    def is_local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    @property
    def name(self) -> str:
        return posixpath.basename(self.path.rstrip("/"))

    def exists(self) -> bool:
        found: bool = self.fs.exists(self.path)
        return found

    def is_dir(self) -> bool:
        found: bool = self.fs.isdir(self.path)
        return found

    def open(self) -> BinaryIO:
        """The file's content as a seekable stream; remote files are fetched in ranges."""
        stream: BinaryIO = self.fs.open(self.path, "rb")
        return stream

    def read(self) -> bytes:
        try:
            content: bytes = self.fs.cat_file(self.path)
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {reason_of(error)}") from None
        return content

    def write(self, content: bytes) -> None:
        """Aside, flushed to disk, then renamed; on object stores one PUT, which is whole or not there."""
        if self.is_local:
            with self.create() as file:
                file.write(content)
            return
        try:
            self.fs.makedirs(posixpath.dirname(self.path), exist_ok=True)
            self.fs.pipe_file(self.path, content)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {reason_of(error)}") from None

    @contextmanager
    def create(self) -> Iterator["NewFile"]:
        """A new file to write: it is there, whole, when the block ends, and not at all when an error ends it.

        Locally aside, flushed to disk, then renamed; elsewhere a transaction of the driver. Blocks do not nest.
        """
        block_failed = False
        try:
            self.fs.makedirs(posixpath.dirname(self.path), exist_ok=True)
            with self._aside() if self.is_local else self._deferred() as stream:
                try:
                    yield NewFile(stream, self.path)
                except BaseException:
                    block_failed = True
                    raise
        except OSError as error:
            if block_failed:
                raise  # may be of reading something else
            raise StorageError(f"cannot write {self.path}: {reason_of(error)}") from None

    @contextmanager
    def _aside(self) -> Iterator[BinaryIO]:
        aside = f"{self.path}.{uuid.uuid4().hex[:8]}{PART}"
        file = open(aside, "wb")  # noqa: SIM115 - closing it fails too where the disk is full
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(aside, self.path)
        except BaseException:
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                os.unlink(aside)
            raise

    @contextmanager
    def _deferred(self) -> Iterator[BinaryIO]:
        with self.fs.transaction, self.fs.open(self.path, "wb") as stream:
            yield stream

    def names(self) -> list[str]:
        """Names of the files directly in this folder, sorted; none where the folder does not exist."""
        if not self.is_dir():
            return []
        listed = self.fs.ls(self.path, detail=True)
        return sorted(posixpath.basename(e["name"]) for e in listed if e["type"] != "directory")


class NewFile(io.RawIOBase):
    """A file that is being written, see `Place.create`; hashes what passes. A failed write is a StorageError."""

    def __init__(self, stream: BinaryIO, path: str):
        self._stream, self._path = stream, path
        self._digest, self._num_bytes = hashlib.sha256(), 0

    @property
    def sha256(self) -> str:
        """Hex hash of what was written so far."""
        return self._digest.hexdigest()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._num_bytes

    def write(self, content: Any, /) -> int:
        try:
            self._stream.write(content)
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {reason_of(error)}") from None
        self._digest.update(content)
        self._num_bytes += len(content)
        return len(content)


def place(url: str) -> Place:
    """The place that a path or an fsspec URL names. StorageError for an unknown protocol or a missing driver.

    A URL with a password in it is refused, since it would end in run.json and in logs.
    """
    if re.match(r"[a-z0-9+.-]+://[^/]*:[^/]*@", url, re.IGNORECASE):
        raise StorageError("the URL holds a user name and password; give credentials by the environment instead")
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise StorageError(f"cannot reach {url}: {reason_of(error)}") from None
    return Place(fs, path.rstrip("/") or path)


def reason_of(error: Exception) -> str:
    """What went wrong in a few words, without the path or anything that a driver may add."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error).splitlines()[0] if isinstance(error, ImportError | ValueError) else type(error).__name__
