"""Paths and fsspec URLs: open, list, and write so that a file is either whole or not there.

Credentials come from the environment only (the fsspec drivers read it); errors name the path, never an option.
"""

import os
import posixpath
import re
import uuid
from dataclasses import dataclass
from typing import BinaryIO

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ingest.errors import StorageError


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
        try:
            self.fs.makedirs(posixpath.dirname(self.path), exist_ok=True)
            if not self.is_local:
                self.fs.pipe_file(self.path, content)
                return
            aside = f"{self.path}.{uuid.uuid4().hex[:8]}.part"
            with open(aside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, self.path)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {reason_of(error)}") from None

    def names(self) -> list[str]:
        """Names of the files directly in this folder, sorted; none where the folder does not exist."""
        if not self.is_dir():
            return []
        listed = self.fs.ls(self.path, detail=True)
        return sorted(posixpath.basename(e["name"]) for e in listed if e["type"] != "directory")


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
