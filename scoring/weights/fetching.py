"""The files of a URL that a model may have, fetched into the cache of this machine: once, and checked.

Only files with the suffixes of configurations, tokenizers, templates and safetensors are fetched: neither pickles nor
code, nor anything in subfolders.
"""

import hashlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import EngineError, StorageError
from ingest.sample import printable
from ingest.storage.place import PART, Place, place, reason_of, version_mark_of
from ingest.storage.removal import remove_tree
from scoring.weights.cache import (
    ENTRY,
    WEIGHTS_SUFFIX,
    CacheEntry,
    locked,
    missing,
    read_entry,
    refuse_without_room,
    slot_of,
    write_entry,
)

SMALL_SUFFIXES = (".json", ".jinja", ".txt", ".model")
"""Suffixes of the files other than weights."""

UNSAFE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
MAX_SMALL_BYTES = 256 * 2**20
MAX_FILES = 4_096
MAX_NAME_BYTES = 240
"""A file system allows 255, which must include the suffix of an unfinished file."""

REQUEST_BYTES = 32 * 2**20
NUM_REQUESTS = 4
"""Requests at once: one connection to an object store is slower than the network. Together they take 128 MiB of
memory."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listener:
    """Receives progress and notices of fetching."""

    progress: Callable[[str, int, int], None] = lambda name, num_done, num_all: None
    """Called with the name, the number of bytes fetched, and the total."""

    notice: Callable[[str], None] = _logger.warning


_listener: ContextVar[Listener] = ContextVar("listener", default=Listener())  # noqa: B039 - it is frozen


@contextmanager
def with_listener(listener: Listener) -> Iterator[None]:
    """Report everything that this thread fetches within the block to the listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def notify(line: str) -> None:
    """Send a line to the listener."""
    _listener.get().notice(line)


def progress(name: str, num_done: int, num_all: int) -> Callable[[int], None]:
    """Return what is called with each number of bytes that was fetched. num_done: the bytes that were here before."""
    listener, lock = _listener.get(), threading.Lock()

    def on_bytes(num_bytes: int) -> None:
        nonlocal num_done
        with lock:
            num_done += num_bytes
            listener.progress(name, num_done, num_all)

    return on_bytes


@dataclass(frozen=True)
class RemoteFile:
    """A file that a model may have."""

    name: str
    num_bytes: int
    version: str
    """Size and time or hash, as the store gives them."""


def fetched(source: Place, url: str, name: str) -> Path:
    """Fetch the files of `source` if needed, and return their folder in the cache.

    url: for the cache and messages. name: of the folder. StorageError or EngineError in one line; the next call keeps
    the files that came whole.
    """
    remote = listed(source, url)
    slot = slot_of(url, [(file.name, file.version) for file in remote])
    with locked(slot, lambda: notify(f"another process of this machine is fetching {url}; waiting for it")):
        entry = read_entry(slot)
        if entry is None:
            entry = CacheEntry(
                source=url, name=name, begun=time.time(), num_bytes={file.name: file.num_bytes for file in remote}
            )
        wanted = missing(slot, entry)
        for again in entry.sha256.keys() & set(wanted):
            notify(f"{again} of {url} was changed or removed in the cache, so it is fetched again")
        if wanted:
            _fetch(source, slot, entry, [file for file in remote if file.name in wanted])
            if listed(source, url) != remote:
                remove_tree(place(str(slot)))
                raise StorageError(f"{url} was changed while it was fetched; run the same command again")
        os.utime(slot / ENTRY)  # it was used now
    return slot / name


def listed(source: Place, asked: str) -> list[RemoteFile]:
    """List the files of a folder that a model may have. StorageError if there are none, or names or sizes are
    hostile."""
    try:
        entries = source.entries()
    except FileNotFoundError:
        entries = []
    except NotImplementedError:
        raise StorageError(f"{asked}: this kind of storage cannot be listed; copy the model to a folder") from None
    if len(entries) > MAX_FILES:
        raise StorageError(f"{asked} holds {len(entries):,} files, more than a model has; give the model's own folder")
    named = [(_name(str(entry["name"]), source, asked), entry) for entry in entries]
    files = {name: entry for name, entry in named if name is not None and entry["type"] != "directory"}
    return [_remote_file(name, files[name], source, asked) for name in model_files(asked, files)]


def model_files(asked: str, names: Iterable[str]) -> list[str]:
    """Return the names of files that a model may have, sorted. StorageError if there are none, EngineError if the
    weights are pickles."""
    names = sorted(names)
    files = [name for name in names if name.endswith((*SMALL_SUFFIXES, WEIGHTS_SUFFIX))]
    unsafe = [name for name in names if name.endswith(UNSAFE_SUFFIXES)]
    if not files:
        raise StorageError(
            f"{asked} holds no file of a model, or does not exist; give the URL of a folder whose files can be listed"
        )
    if unsafe and not any(name.endswith(WEIGHTS_SUFFIX) for name in files):
        raise EngineError(
            f"{asked} has its weights as {unsafe[0]}, which can run code when loaded; only safetensors are loaded: "
            "convert it"
        )
    return files


def refuse_large(asked: str, name: str, num_bytes: int) -> None:
    """Raise StorageError for a size that no such file of a model has."""
    if num_bytes < 0 or (num_bytes > MAX_SMALL_BYTES and not name.endswith(WEIGHTS_SUFFIX)):
        raise StorageError(
            f"{asked}: {name} has {num_bytes:,} bytes, and such a file of a model has at most {MAX_SMALL_BYTES:,}"
        )


def is_file_name(name: str) -> bool:
    """Return whether it is a valid name of a file in a folder."""
    return (
        name not in ("", ".", "..")
        and not set(name) & {"/", "\\", "?"}
        and name.isprintable()
        and len(name.encode("utf-8", "surrogateescape")) <= MAX_NAME_BYTES
    )


def _name(path: str, source: Place, asked: str) -> str | None:
    """Return the name of a file directly in the folder; None for anything else. StorageError for a name that leads
    elsewhere."""
    folder = source.path.rstrip("/")
    name = path.removeprefix(f"{folder}/")
    if is_file_name(name):
        return name
    # The folder itself, one in it, or a link by which a listing page is sorted.
    if name.rstrip("/") in ("", folder) or (is_file_name(name.rstrip("/")) and name.endswith("/")) or "?" in name:
        return None
    raise StorageError(
        f'{asked} lists "{printable(name):.80}", which is not the name of a file in it; nothing is fetched'
    )


def _remote_file(name: str, entry: dict[str, object], source: Place, asked: str) -> RemoteFile:
    size, version = entry.get("size"), version_mark_of(entry)
    if source.hashes_content(entry):  # then the same file that is uploaded again stays the same
        version = str(entry.get("ETag") or entry.get("etag"))
    if size is None:  # a web server's page of links does not state sizes
        file = source.at(name)
        try:
            size, version = file.size(), file.version_mark()
        except FileNotFoundError:
            raise StorageError(f"{asked} lists {name}, and does not have it") from None
        except TypeError:
            raise StorageError(f"{asked}: the server does not say how large {name} is") from None
    num_bytes = int(str(size))
    refuse_large(asked, name, num_bytes)
    return RemoteFile(name, num_bytes, str(version))


def _fetch(source: Place, slot: Path, entry: CacheEntry, wanted: list[RemoteFile]) -> None:
    """Fetch files, weights last."""
    folder = slot / entry.name
    num_bytes, num_left = sum(entry.num_bytes.values()), sum(file.num_bytes for file in wanted)
    refuse_without_room(slot, num_left, entry.source)
    folder.mkdir(exist_ok=True)
    on_bytes = progress(entry.name, num_bytes - num_left, num_bytes)
    for file in sorted(wanted, key=lambda file: (file.name.endswith(WEIGHTS_SUFFIX), file.name)):
        part, whole = folder / f"{file.name}{PART}", folder / file.name
        try:
            sha256 = _download(source.at(file.name), file.num_bytes, part, on_bytes)
            os.replace(part, whole)
        except FileNotFoundError:
            raise StorageError(f"{entry.source}: {file.name} was removed after it was listed") from None
        except OSError as error:
            raise StorageError(f"cannot write {part}: {reason_of(error)}") from None
        entry = entry.model_copy(update={"sha256": entry.sha256 | {file.name: sha256}})
        write_entry(slot, entry)


def _download(source: Place, num_bytes: int, part: Path, on_bytes: Callable[[int], None]) -> str:
    """Write the file, and return its SHA-256 in hex."""
    digest = hashlib.sha256()
    spans = ((start, min(start + REQUEST_BYTES, num_bytes)) for start in range(0, num_bytes, REQUEST_BYTES))
    with part.open("wb") as stream:
        while some := list(itertools.islice(spans, NUM_REQUESTS)):
            for content in source.read_ranges(some):
                stream.write(content)
                digest.update(content)
                on_bytes(len(content))
        stream.flush()
        os.fsync(stream.fileno())  # the entry says that it is whole, also after a power cut
    return digest.hexdigest()
