"""The files of a URL that a model may have, fetched into the cache of this machine: once, checked, and resumed after
interruptions.

Only files with the suffixes of configurations, tokenizers, templates and safetensors are fetched: neither pickles nor
code, nor anything in subfolders.
"""

import hashlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ingest.errors import EngineError, StorageError
from ingest.sample import printable
from ingest.storage.place import PART, Place, place, reason_of, version_mark_of
from scoring.weights.cache import WEIGHTS_SUFFIX, CachedFile, CacheEntry, Slot, begin, checked, slot_of

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

HASHED_BYTES = 8 * 2**20

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


@dataclass(frozen=True)
class RemoteFile:
    """A file that a model may have."""

    name: str
    num_bytes: int
    version: str
    sha256: str | None
    """Hash in hex, if the store knows it."""

    @property
    def is_small(self) -> bool:
        return not self.name.endswith(WEIGHTS_SUFFIX)


def fetched(source: Place, url: str, asked: str, name: str, *, with_weights: bool = True) -> Path:
    """Fetch the files of `source` if needed, and return their folder in the cache, protected from removal.

    url, asked: names for the cache and messages. name: of the folder. with_weights: else only the small files.
    StorageError or EngineError in one line, and the next call resumes.
    """
    remote = listed(source, asked)
    slot = slot_of(url, [(file.name, file.version) for file in remote])
    wanted = [file for file in remote if with_weights or file.is_small]
    slot.hold()
    if _is_here(slot, wanted):
        return _used(slot)
    waiting = f"another process of this machine is fetching {asked}; waiting for it"
    with slot.fetching(lambda: notify(waiting)) as has_waited:
        if has_waited and _is_here(slot, wanted):
            return _used(slot)
        earlier = slot.read()
        before = {file.name: file for file in earlier.files} if earlier is not None else {}
        files = tuple(
            before.get(file.name) or CachedFile(name=file.name, num_bytes=file.num_bytes, version=file.version)
            for file in remote
            if file in wanted or file.name in before
        )
        entry = CacheEntry(source=url, asked=asked, name=name, begun=time.time(), files=files)
        begin(slot, entry)
        _fetch(source, slot, entry, {file.name: file.sha256 for file in remote})
        if [(file.name, file.version) for file in listed(source, asked)] != [(f.name, f.version) for f in remote]:
            _forget(slot)
            raise StorageError(f"{asked} was changed while it was fetched; run the same command again")
    return _used(slot)


def listed(source: Place, asked: str) -> list[RemoteFile]:
    """List the files that a model may have, by name. StorageError if there are none, or names or sizes are hostile."""
    try:
        entries = source.entries()
    except FileNotFoundError:
        entries = []
    except NotImplementedError:
        raise StorageError(f"{asked}: this kind of storage cannot be listed; copy the model to a folder") from None
    if len(entries) > MAX_FILES:
        raise StorageError(f"{asked} holds {len(entries):,} files, more than a model has; give the model's own folder")
    files, unsafe = list[RemoteFile](), list[str]()
    for entry in entries:
        name = _name(str(entry["name"]), source, asked)
        if name is None or entry["type"] == "directory":
            continue
        if name.endswith(UNSAFE_SUFFIXES):
            unsafe.append(name)
        elif name.endswith((*SMALL_SUFFIXES, WEIGHTS_SUFFIX)):
            files.append(_remote_file(name, entry, source, asked))
    if not files:
        raise StorageError(
            f"{asked} holds no file of a model, or does not exist; give the URL of a folder whose files can be listed"
        )
    if unsafe and not any(not file.is_small for file in files):
        raise EngineError(
            f"{asked} has its weights as {unsafe[0]}, which can run code when loaded; only safetensors are loaded: "
            "convert it"
        )
    return sorted(files, key=lambda file: file.name)


def _name(path: str, source: Place, asked: str) -> str | None:
    """Return the name of a file directly in the folder; None for anything else. StorageError for a name that leads
    elsewhere."""
    folder = source.path.rstrip("/")
    name = path.removeprefix(f"{folder}/")
    if not is_file_name(name):
        if name.rstrip("/") in ("", folder) or (is_file_name(name.rstrip("/")) and name.endswith("/")):
            return None
        if "?" in name:  # a link by which a listing page is sorted
            return None
        raise StorageError(
            f'{asked} lists "{printable(name):.80}", which is not the name of a file in it; nothing is fetched'
        )
    return name


def is_file_name(name: str) -> bool:
    """Return whether it is a valid name of a file in a folder."""
    return (
        name not in ("", ".", "..")
        and not set(name) & {"/", "\\", "?"}
        and name.isprintable()
        and len(name.encode("utf-8", "surrogateescape")) <= MAX_NAME_BYTES
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
    is_small = not name.endswith(WEIGHTS_SUFFIX)
    if num_bytes < 0 or (is_small and num_bytes > MAX_SMALL_BYTES):
        raise StorageError(
            f"{asked}: {name} has {num_bytes:,} bytes, and such a file of a model has at most {MAX_SMALL_BYTES:,}"
        )
    content_sha256 = getattr(entry.get("lfs"), "sha256", None)
    return RemoteFile(name, num_bytes, f"{version}{entry.get('blob_id', '')}", content_sha256)


def _is_here(slot: Slot, wanted: list[RemoteFile]) -> bool:
    """Return whether the wanted files are in the cache, whole and unchanged. A changed one is reported and counts as
    not here."""
    if (entry := slot.read()) is None:
        return False
    entry, changed = checked(slot, entry)
    for name in changed:
        notify(
            f"{name} of {entry.asked} was changed or removed in the cache (its SHA-256 differs), so it is fetched again"
        )
    whole_files = {file.name for file in entry.files if file.sha256 is not None}
    return whole_files.issuperset(file.name for file in wanted)


def _used(slot: Slot) -> Path:
    slot.touch()
    entry = slot.read()
    if entry is None:
        raise StorageError(f"{slot.root / slot.key} was removed while it was used; run the same command again")
    return slot.folder(entry)


def _forget(slot: Slot) -> None:
    """Mark all files as missing."""
    if (entry := slot.read()) is not None:
        files = tuple(file.model_copy(update={"sha256": None}) for file in entry.files)
        for file in files:
            _part(slot.folder(entry), file.name).unlink(missing_ok=True)
        slot.write(entry.model_copy(update={"files": files}))


def _fetch(source: Place, slot: Slot, entry: CacheEntry, known: dict[str, str | None]) -> None:
    """Fetch missing files, weights last. known: name -> SHA-256, if the store has it."""
    folder, files = slot.folder(entry), {file.name: file for file in entry.files}
    num_done = sum(file.num_bytes for file in entry.files if file.sha256 is not None)
    listener = _listener.get()
    for file in sorted(entry.files, key=lambda file: (file.name.endswith(WEIGHTS_SUFFIX), file.name)):
        if file.sha256 is not None:
            continue

        def on_bytes(num_bytes: int) -> None:
            nonlocal num_done
            num_done += num_bytes
            listener.progress(entry.name, num_done, entry.num_bytes)

        part, whole = _part(folder, file.name), folder / file.name
        # How much of the incomplete file is on the disk for sure, and its SHA-256.
        note = folder / f"{file.name}.noted{PART}"
        try:
            sha256 = _download(source.at(file.name), file.num_bytes, part, note, on_bytes)
            note.unlink(missing_ok=True)
            if known[file.name] not in (None, sha256):
                part.unlink()
                raise StorageError(f"{entry.asked}: {file.name} came with another SHA-256 than it should have")
            os.replace(part, whole)
            status = whole.stat()
        except FileNotFoundError:
            raise StorageError(f"{entry.asked}: {file.name} was removed after it was listed") from None
        except OSError as error:
            raise StorageError(f"cannot write {part}: {reason_of(error)}") from None
        files[file.name] = file.model_copy(update={"sha256": sha256, "mtime_ns": status.st_mtime_ns})
        slot.write(entry.model_copy(update={"files": tuple(files.values())}))


def _part(folder: Path, name: str) -> Path:
    """Return the path of the file while it is incomplete."""
    return folder / f"{name}{PART}"


def _download(source: Place, num_bytes: int, part: Path, note: Path, on_bytes: Callable[[int], None]) -> str:
    """Append the missing rest of the file, and return the SHA-256 of the whole in hex."""
    with part.open("ab+") as stream:
        digest = _begun(stream, note, num_bytes)
        num_here = stream.tell()
        on_bytes(num_here)
        starts = iter(range(num_here, num_bytes, REQUEST_BYTES))
        waiting = deque[Future[bytes]]()

        def ask() -> None:
            if (start := next(starts, None)) is not None:
                waiting.append(_in_background(source.read_range, start, min(start + REQUEST_BYTES, num_bytes)))

        for _ in range(NUM_REQUESTS):
            ask()
        while waiting:
            content = waiting.popleft().result()
            ask()
            stream.write(content)
            digest.update(content)
            num_here += len(content)
            # Before the note: a note of bytes that a lost machine did not keep would be worse than none.
            stream.flush()
            os.fsync(stream.fileno())
            place(str(note)).write(f"{num_here} {digest.hexdigest()}".encode())
            on_bytes(len(content))
        if num_here != num_bytes:
            raise StorageError(f"{source.path} came with {num_here:,} bytes instead of {num_bytes:,}; run it again")
    return digest.hexdigest()


def _begun(stream: BinaryIO, note: Path, num_bytes: int) -> "hashlib._Hash":
    """Keep what an interrupted fetch has noted, if it is still the same, and nothing else.

    A machine that lost its power may have left a file of the right length with other bytes.
    """
    try:
        noted_bytes, noted_sha256 = note.read_text().split()
        num_left = int(noted_bytes)
    except (OSError, ValueError):
        num_left, noted_sha256 = 0, ""
    digest = hashlib.sha256()
    if num_left <= min(num_bytes, stream.tell()):
        stream.seek(0)
        for start in range(0, num_left, HASHED_BYTES):
            digest.update(stream.read(min(HASHED_BYTES, num_left - start)))
    if digest.hexdigest() != noted_sha256:
        digest, num_left = hashlib.sha256(), 0
    stream.truncate(num_left)
    stream.seek(num_left)
    return digest


def _in_background(read: Callable[[int, int], bytes], start: int, end: int) -> Future[bytes]:
    """Read in a thread that, unlike an executor's, keeps no interrupted process alive while a server is silent."""
    future = Future[bytes]()

    def work() -> None:
        try:
            future.set_result(read(start, end))
        except BaseException as error:  # raised where the result is taken
            future.set_exception(error)

    threading.Thread(target=work, name="fetch", daemon=True).start()
    return future
