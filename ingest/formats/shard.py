"""Opening shards: a failure of the storage is a StorageError, never taken for damage of the content. And the marks of
shards that are files, which say whether they have changed."""

import errno
import io
import logging
import os
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import BinaryIO, cast

from ingest.errors import Fault, StorageError
from ingest.formats.released import PRIVATE, RELEASE
from ingest.sample import printable
from ingest.storage.place import Place, reason_of
from ingest.storage.retries import storage_error
from ingest.storage.streams import SeekableReader

MAX_IMAGE_BYTES = 2**30
"""A larger image is not read: it would fill the memory, and no picture within the pixel limit needs that much."""

TOO_MANY_BYTES = Fault("too_many_bytes", f"the image has more than {MAX_IMAGE_BYTES} bytes")


@contextmanager
def storage_faults(name: str) -> Iterator[None]:
    """Turn an OSError inside into a StorageError that names the shard or folder."""
    try:
        yield
    except OSError as error:
        raise _fault(name, error) from None


def _fault(name: str, error: OSError) -> StorageError:
    return storage_error(f"cannot read {printable(name)}", error)


@contextmanager
def opened(root: Place, shard: str) -> Iterator[BinaryIO]:
    """Open the shard as a seekable stream that raises StorageError, never OSError."""
    with storage_faults(shard):
        stream = root.at(shard).open()
    with stream:
        yield cast(BinaryIO, _Guarded(stream, shard))


def version_mark(root: Place, shard: str) -> str:
    file = root.at(shard)
    return file.version_mark() + (file.blocks_sha256() if file.is_local else "")


def version_marks(root: Place, shard: str) -> str:
    return root.at(shard).version_mark()


def blocks_sha256(root: Place, shard: str) -> str:
    return root.at(shard).blocks_sha256()


class _Guarded(SeekableReader):
    def __init__(self, stream: BinaryIO, shard: str):
        super().__init__()
        self._stream, self._shard = stream, shard

    # Each member of a tar takes several calls, so that a context manager for each would be felt.
    def read(self, size: int = -1, /) -> bytes:
        try:
            return self._stream.read(size)
        except OSError as error:
            raise _fault(self._shard, error) from None

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return self._stream.seek(offset, whence)
        except OSError as error:
            raise _fault(self._shard, error) from None


@dataclass(frozen=True)
class FolderListing:
    """Content of a folder, sorted by name."""

    files: list[tuple[str, int]]
    """Name, size in bytes."""

    folders: list[str]

    closed: list[str]
    """Folders that are not entered: links, which may lead in a circle or out, and paths too long for the system."""

    hidden: list[str]
    """Folders and files whose name begins with a dot."""


def listed(folder: Place) -> FolderListing:
    """List a folder. OSError if that fails."""
    listing = FolderListing([], [], [], [])
    for name, size, kind in _local_entries(folder) if folder.is_local else _remote_entries(folder):
        if name.startswith("."):
            listing.hidden.append(name)
        elif kind is None:
            listing.files.append((name, size))
        else:
            (listing.folders if kind else listing.closed).append(name)
    return FolderListing(sorted(listing.files), sorted(listing.folders), sorted(listing.closed), sorted(listing.hidden))


def _local_entries(folder: Place) -> Iterator[tuple[str, int, bool | None]]:
    """Yield name, size in bytes and, for folders only, whether they can be entered."""
    longest = os.pathconf(folder.path, "PC_PATH_MAX") - 1  # bytes; the system counts the zero at the end
    with os.scandir(folder.path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield entry.name, 0, len(os.fsencode(entry.path)) <= longest
            elif os.path.isdir(entry.path):
                yield entry.name, 0, False
            else:
                yield entry.name, _size(entry), None


def _size(entry: "os.DirEntry[str]") -> int:
    """Return the size in bytes; 0 if the file is gone or a link is broken, which reading it reports."""
    try:
        return entry.stat().st_size
    except OSError as error:
        if entry.is_symlink() or error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            return 0
        raise


def _remote_entries(folder: Place) -> Iterator[tuple[str, int, bool | None]]:
    for entry in folder.entries():
        path = entry["name"].rstrip("/")
        if path != folder.path.rstrip("/"):  # object stores list a folder in itself
            yield posixpath.basename(path), int(entry.get("size") or 0), True if entry["type"] == "directory" else None


def folders_below(root: Place) -> Iterator[tuple[str, FolderListing]]:
    """Yield (path relative to the root, listing) of the root ("") and every folder below it that is not hidden; of a
    release not the folder of what must not be published.

    StorageError if one cannot be listed.
    """
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            listing = listed(root.at(folder))
        except OSError as error:
            message = f"cannot list the folder {printable(folder or root.path)}: {reason_of(error)}"
            raise StorageError(f"{message}; nothing was done; make it readable, or move it out of the source") from None
        if not folder and PRIVATE in listing.folders and RELEASE in {name for name, _ in listing.files}:
            listing.folders.remove(PRIVATE)
        yield folder, listing
        waiting += [posixpath.join(folder, name) for name in reversed(listing.folders)]


def files_below(root: Place) -> list[str]:
    """Return every file below a folder that is not hidden, as sorted paths relative to it. Logs a line if folders are
    not entered, since unlike a tree the other formats have no row for them, and a line if anything is hidden."""
    files, closed, hidden = list[str](), list[str](), list[str]()
    for folder, listing in folders_below(root):
        files += [posixpath.join(folder, name) for name, _ in listing.files]
        closed += [posixpath.join(folder, name) for name in listing.closed]
        hidden += [posixpath.join(folder, name) for name in listing.hidden]
    if closed and not _is_told.get():
        logging.getLogger(__name__).warning(
            "%d folders are not entered, being links or too deep, %s first; give each as a source of its own",
            len(closed),
            printable(min(closed)),
        )
    warn_of_hidden(hidden)
    return sorted(files)


_is_told = ContextVar("_is_told", default=False)


@contextmanager
def told_before() -> Iterator[None]:
    """Within the block, log nothing of what is not scanned: the scan has said it."""
    token = _is_told.set(True)
    try:
        yield
    finally:
        _is_told.reset(token)


def warn_of_hidden(paths: Sequence[str]) -> None:
    """Log the number of hidden entries, which are not scanned. paths: relative to the source."""
    if paths and not _is_told.get():
        logging.getLogger(__name__).warning(
            "not scanned: %s, %s first; rename what belongs to the source",
            "1 hidden file or folder" if len(paths) == 1 else f"{len(paths):,} hidden files and folders",
            printable(min(paths)),
        )
