"""Paths and fsspec URLs: open, list, and write so that a file is either whole or not there. Credentials come from the
environment only (the fsspec drivers read it); errors name the path, never an option."""

import hashlib
import io
import os
import posixpath
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ingest.errors import OutageError, StorageError
from ingest.machine import install_command
from ingest.storage.retries import may_pass, reason_of, retried, storage_error, store_errors
from ingest.storage.streams import NewFile, RangeReader, blocks_sha256
from ingest.storage.web import refuse_credentials, without_credentials

__all__ = ["PART", "NewFile", "Place", "place", "reason_of", "version_mark_of"]

PART = ".part"
"""Suffix of a local file that is not complete yet."""

MAX_STEM_BYTES = 255 - len(".12345678") - len(PART)


def unfinished_stem(name: str) -> str:
    """Return how the names of unfinished files of this name begin: a hash of it, if they would be too long."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= MAX_STEM_BYTES else hashlib.sha256(encoded).hexdigest()


BLOCK_BYTES = 4 * 2**20
"""Bytes fetched at once from a remote file. Shards are read mostly front to back, image after image of about 100 KB:
with 4 MiB the wait for an answer (some 50 ms) is about as long as the transfer, and a lone image of a sample costs
little. Longer reads, such as a column of a Parquet file, are one request."""


EXTRAS = {
    **dict.fromkeys(["s3", "s3a"], "s3"),
    **dict.fromkeys(["gs", "gcs"], "gs"),
    **dict.fromkeys(["az", "abfs", "abfss", "adl"], "az"),
    "hf": "hf",
}
"""Protocol of an object store -> the extra that brings its driver."""

WEB_EXTRA = "https"

for _protocol in ("http", "https"):  # by name, since it loads aiohttp
    fsspec.register_implementation(_protocol, "ingest.storage.web_files.WebFiles", clobber=True)

MAX_URL_CHARS = 8_192
"""No system has a longer path. A foreign `run.json` can hold one on which patterns take hours."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Place:
    """A folder or file on some file system."""

    fs: fsspec.AbstractFileSystem

    path: str
    """The file system's own path, without the protocol."""

    url: str = field(default="", compare=False)
    """The text by which the user named it, for messages; empty for a place below another."""

    def at(self, *names: str) -> "Place":
        """Return the place below this one; empty names are left out."""
        return Place(self.fs, posixpath.join(self.path, *(n for n in names if n)))

    @property
    def is_local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    @property
    def name(self) -> str:
        return posixpath.basename(self.path.rstrip("/"))

    def exists(self) -> bool:
        """Return whether it exists. StorageError if the store does not answer, which proves nothing."""
        if self.is_local:
            return bool(self.fs.exists(self.path))
        return self._kind() is not None

    def is_within(self, folder: "Place") -> bool:
        """Return whether this is the folder or is below it; links are followed."""
        inner, other = (os.path.realpath(p.path) if p.is_local else p.path for p in (self, folder))
        return self.fs == folder.fs and f"{inner}/".startswith(f"{other.rstrip('/')}/")

    def is_same(self, other: "Place") -> bool:
        """Return whether both name the same folder or file; links are followed."""
        return self.is_within(other) and other.is_within(self)

    def is_dir(self) -> bool:
        """Return whether it is a folder; on an object store, whether anything is below it. Errors as in `exists`."""
        if self.is_local:
            return bool(self.fs.isdir(self.path))
        return self._kind() == "directory"

    def open(self) -> BinaryIO:
        """Open the file as a seekable stream. Remote files are fetched in ranges, each tried again on its own.

        Failures are OSError locally. Remotely they are FileNotFoundError, else StorageError, also while reading:
        a failing store must not look like a damaged file. StorageError for a local pipe, too, which may have no writer.
        """
        if self.is_local:
            self.size()
            stream: BinaryIO = self.fs.open(self.path, "rb")
            return stream
        return io.BufferedReader(RangeReader(self.read_range, self.size()), BLOCK_BYTES)

    def content(self) -> bytes:
        """Read the whole file, for callers that handle a missing file; errors as in `open`."""
        if self.is_local:
            self.size()
        return bytes(self._asked("read", lambda: self.fs.cat_file(self.path)))

    def read(self) -> bytes:
        """Read the whole file; any failure is a StorageError."""
        try:
            return self.content()
        except OSError as error:
            raise storage_error(f"cannot read {self.path}", error) from None

    def size(self) -> int:
        """Return the size in bytes; errors as in `open`. StorageError for a local pipe, socket or device, which may
        never end."""
        if self.is_local:
            status = os.stat(self.path)
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                raise StorageError(f"cannot read {self.path}: it is a pipe, socket or device, not a file")
            return status.st_size
        return int(self._asked("read", lambda: self.fs.info(self.path))["size"])

    def read_range(self, start: int, end: int) -> bytes:
        """Read bytes `start` to `end`; a remote file by a request of its own, so that threads are independent. A local
        file gives OSError on failure, and fewer bytes if it ends before; a remote one StorageError."""
        if self.is_local:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return os.pread(descriptor, end - start, start)
            finally:
                os.close(descriptor)
        try:
            return self._asked("read", lambda: self._fetch(start, end))
        except FileNotFoundError:
            raise StorageError(f"cannot read {self.path}: it was removed after it was opened") from None

    def _fetch(self, start: int, end: int) -> bytes:
        content: bytes = self.fs.cat_file(self.path, start=start, end=end)
        if len(content) != end - start:
            raise ConnectionError("a range came back with another length")
        return content

    def read_ranges(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges of a remote file, at once where its driver can. Errors as in `open`."""

        def ask() -> list[bytes]:
            starts, ends = [start for start, _ in spans], [end for _, end in spans]
            contents: list[bytes] = self.fs.cat_ranges([self.path] * len(spans), starts, ends, on_error="raise")
            if any(len(content) != end - start for content, (start, end) in zip(contents, spans, strict=True)):
                raise ConnectionError("a range came back with another length")
            return contents

        return self._asked("read", ask)

    def write(self, content: bytes) -> None:
        """Write to another name, flush to disk, then rename; on object stores one PUT, which is atomic."""
        if self.is_local:
            with self.create() as file:
                file.write(content)
            return
        try:
            self._make_folder()
            self._asked("write", lambda: self.fs.pipe_file(self.path, content))
        except OSError as error:
            raise storage_error(f"cannot write {self.path}", error) from None

    @contextmanager
    def create(self) -> Iterator[NewFile]:
        """Create a file: it exists, complete, when the block ends, and not at all if an error ends it.

        Locally under another name, flushed to disk, then renamed; elsewhere a transaction of the driver. Blocks do not
        nest. Only the driver tries again here: its parts are sent while the block runs.
        """
        block_failed = False
        try:
            self._make_folder()
            with self._aside() if self.is_local else self._deferred() as stream:
                try:
                    yield NewFile(stream, self.path, is_local=self.is_local)
                except BaseException:
                    block_failed = True
                    raise
        except store_errors() as error:
            if block_failed:
                raise  # may come from reading another file
            raise storage_error(f"cannot write {self.path}", error) from None

    @contextmanager
    def _aside(self) -> Iterator[BinaryIO]:
        folder, name = os.path.split(self.path)
        aside = os.path.join(folder, f"{unfinished_stem(name)}.{uuid.uuid4().hex[:8]}{PART}")
        file = open(aside, "wb")  # noqa: SIM115 - closing it fails too if the disk is full
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

    def version_mark(self) -> str:
        """Return size, and time or hash of the last change, as one text: it differs if the content has changed. Empty
        for a folder of an object store. Errors as in `open`."""
        info = self._asked("read", lambda: self.fs.info(self.path))
        return "" if info["type"] == "directory" and not self.is_local else version_mark_of(info)

    def blocks_sha256(self) -> str:
        """Hash a few blocks of the content (`ingest.storage.streams`). Errors as in `open`. Empty for a folder, and on
        object stores that give a hash of the content with the version mark."""
        if self.is_local:
            size = self.size()
        else:
            info = self._asked("read", lambda: self.fs.info(self.path))
            size = 0 if info["type"] == "directory" or self.hashes_content(info) else int(info.get("size") or 0)
        return blocks_sha256([size], lambda _, start, end: self.read_range(start, end)) if size else ""

    def hashes_content(self, info: Mapping[str, Any]) -> bool:
        """Return whether the store's details of a file hash its content. The ETag of a web server may depend on the
        file's time instead."""
        return bool(_protocols(self.fs) & EXTRAS.keys() and {"ETag", "etag"} & info.keys())

    def remove(self) -> None:
        """Remove the file if it exists."""
        try:
            self._asked("remove", lambda: self.fs.rm_file(self.path))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_error(f"cannot remove {self.path}", error) from None

    def entries(self) -> list[dict[str, Any]]:
        """Return fsspec's entries of this folder: dicts with `name` (a path), `type` and `size`."""
        return list(self._asked("list", lambda: self.fs.ls(self.path, detail=True)))

    def matches(self, pattern: str) -> list[str]:
        """Return the paths on this file system that a glob pattern matches, sorted."""
        return sorted(self._asked("list", lambda: self.fs.glob(pattern)))

    def names(self) -> list[str]:
        """Return names of the files directly in this folder, sorted; none if it does not exist. Never cached."""
        if not self.is_dir():
            return []
        if self.is_local:  # millions of results: names only, no details
            with os.scandir(self.path) as entries:
                return sorted(entry.name for entry in entries if not entry.is_dir())
        names = (posixpath.basename(path) for path in self._remote_files())
        return sorted(name for name in names if name)  # consoles of object stores mark a folder by a file "folder/"

    def _remote_files(self) -> Iterator[str]:
        """Yield paths of the files directly in this folder. S3 gives pages: entries of millions take gigabytes."""
        if "s3" not in _protocols(self.fs) or not self.path:
            yield from (entry["name"] for entry in self.entries() if entry["type"] != "directory")
            return
        bucket, key, _ = self.fs.split_path(self.path)
        asked = {"Bucket": bucket, "Prefix": f"{key}/" if key else "", "Delimiter": "/"}
        while True:
            page = self._asked("list", lambda: self.fs.call_s3("list_objects_v2", **asked))
            yield from (entry["Key"] for entry in page.get("Contents", ()))
            if not page.get("IsTruncated"):
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def _kind(self) -> str | None:
        try:
            return str(self._asked("reach", lambda: self.fs.info(self.path))["type"])
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _make_folder(self) -> None:
        """Make the folder, but not on object stores: they have no folders, and a driver would make a missing bucket."""
        if self.is_local:  # not os.makedirs, which recurses once per folder of a deep path
            folder, missing = posixpath.dirname(self.path), list[str]()
            while not os.path.isdir(folder):
                missing.append(folder)
                folder = posixpath.dirname(folder)
            for path in reversed(missing):
                with suppress(FileExistsError):
                    os.mkdir(path)
        elif not _protocols(self.fs) & EXTRAS.keys():
            self.fs.makedirs(posixpath.dirname(self.path), exist_ok=True)

    def _asked(self, verb: str, call: Callable[[], Answer]) -> Answer:
        """Call the file system; a store with retries, and any failure but FileNotFoundError becomes a StorageError."""
        if self.is_local:
            return call()
        try:
            return retried(call)
        except FileNotFoundError:
            raise
        except store_errors() as error:
            if not may_pass(error):
                raise storage_error(f"cannot {verb} {self.path}", error) from None
            raise OutageError(f"cannot {verb} {self.path}: {reason_of(error)}; tried again without success") from None


def is_local(url: str) -> bool:
    """Return whether it names a local path, which may hold "::"; a chain of URLs (`x::y://`) does not."""
    protocol, path = fsspec.core.split_protocol(url)
    return protocol in (None, "file", "local") and "://" not in path


def place(url: str) -> Place:
    """Return the place that a path or an fsspec URL names. StorageError for an unknown protocol or a missing driver. A
    URL with a password or a query in it is refused, since it would end in run.json and in logs."""
    if not url.strip():
        raise StorageError("an empty path was given; give a path or URL")
    if len(url) > MAX_URL_CHARS:
        raise StorageError(f"a path or URL of {len(url):,} characters was given; give one of at most {MAX_URL_CHARS:,}")
    refuse_credentials(url)
    protocol = fsspec.core.split_protocol(url)[0] or "file"
    try:
        # No cached listings: other processes write meanwhile, and a run's ledger is the list of its files.
        if is_local(url):  # fsspec would take "a::b" for a chain of URLs, and read "a"
            fs = fsspec.filesystem("file", use_listings_cache=False)
            path = str(fs._strip_protocol(url))
        else:
            fs, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError:
        extra = WEB_EXTRA if protocol in ("http", "https") else EXTRAS.get(protocol)
        what_to_do = install_command(extra) if extra else "install the fsspec driver of that protocol"
        raise StorageError(
            f"cannot reach {without_credentials(url)}: the driver for {protocol}:// is not installed; {what_to_do}"
        ) from None
    except ValueError as error:
        known = protocol in fsspec.available_protocols()
        reason = reason_of(error) if known else f"there is no protocol {protocol}://"
        raise StorageError(f"cannot reach {without_credentials(url)}: {reason}") from None
    except store_errors() as error:
        raise storage_error(f"cannot reach {without_credentials(url)}", error) from None
    return Place(fs, path.rstrip("/") or path, url)


def version_mark_of(info: Mapping[str, Any]) -> str:
    """Return the version mark of a file, from fsspec's details of it."""
    kept = ["size", "mtime", "ETag", "etag", "LastModified", "last_modified", "updated"]
    if "mtime" not in info:  # a local file is "created" anew by chmod, a link to it, or a move
        kept.append("created")
    return repr({key: str(info[key]) for key in kept if key in info})


def _protocols(fs: fsspec.AbstractFileSystem) -> frozenset[str]:
    return frozenset([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)
