"""Opening shards: what goes wrong in the storage is a StorageError, and never taken for damage of the content."""

import io
import os
import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from ingest.errors import StorageError
from ingest.sample import printable
from ingest.storage import Place, reason_of

MAX_IMAGE_BYTES = 2**30
"""A larger image is not read: it would fill the memory, and no picture within the pixel limit needs so many bytes."""

TOO_MANY_BYTES = ("too_many_bytes", f"the image has more than {MAX_IMAGE_BYTES} bytes")


@contextmanager
def storage_faults(name: str) -> Iterator[None]:
    """An OSError inside becomes a StorageError that names the shard or folder."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot read {printable(name)}: {reason_of(error)}") from None


@contextmanager
def opened(root: Place, shard: str) -> Iterator[BinaryIO]:
    """The shard as a seekable stream that raises StorageError, never OSError."""
    where = root.at(shard)
    with storage_faults(shard):
        if where.is_local and not stat.S_ISREG(os.stat(where.path).st_mode):  # opening a pipe would wait for a writer
            raise StorageError(f"cannot read {printable(shard)}: it is a pipe, socket or device, not a file")
        stream = where.open()
    with stream:
        yield cast(BinaryIO, _Guarded(stream, shard))


class _Guarded(io.RawIOBase):
    def __init__(self, stream: BinaryIO, shard: str):
        super().__init__()
        self._stream, self._shard = stream, shard

    def read(self, size: int = -1, /) -> bytes:
        with storage_faults(self._shard):
            return self._stream.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        with storage_faults(self._shard):
            return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def listed(here: Place) -> tuple[list[tuple[str, int]], list[str]]:
    """(name, size in bytes) of the files in a folder and the names of its folders, both sorted, none hidden.

    OSError where the folder cannot be listed.
    """
    files, folders = list[tuple[str, int]](), list[str]()
    for entry in here.entries():
        name = posixpath.basename(entry["name"].rstrip("/"))
        is_mark = entry["name"].rstrip("/") == here.path.rstrip("/")  # object stores list a folder in itself
        if name.startswith(".") or is_mark:
            continue
        if entry["type"] == "directory" or (here.is_local and os.path.isdir(entry["name"])):
            folders.append(name)
        else:
            files.append((name, int(entry.get("size") or 0)))
    return sorted(files), sorted(folders)


def folders_below(root: Place) -> Iterator[tuple[str, list[str]]]:
    """(path relative to the root, names of the files in it) of the root ("") and every folder below it, none hidden.

    Links to folders are followed, but not back to a folder that they lie in. StorageError where one cannot be listed.
    """
    yield from _below(root, "", frozenset())


def _below(root: Place, folder: str, above: frozenset[str]) -> Iterator[tuple[str, list[str]]]:
    here = root.at(folder)
    real = os.path.realpath(here.path) if here.is_local else here.path
    if real in above:
        return
    try:
        files, folders = listed(here)
    except OSError as error:
        told = f"cannot list the folder {printable(folder or root.path)}: {reason_of(error)}"
        raise StorageError(f"{told}; nothing was done; make it readable, or move it out of the source") from None
    yield folder, [name for name, _ in files]
    for name in folders:
        yield from _below(root, posixpath.join(folder, name), above | {real})


def files_below(root: Place) -> list[str]:
    """Every file below a folder that is not hidden, as paths relative to it, sorted."""
    return sorted(posixpath.join(folder, name) for folder, names in folders_below(root) for name in names)
