"""The cache of weights on this machine, which several processes use at once.

    CACHE/weights/KEY/entry.json   where the files are from, and the SHA-256 of each complete file
    CACHE/weights/KEY/NAME/…       the files; those that end in .part are incomplete
    CACHE/weights/locks/           two locks per entry, and one for making room

KEY is a hash of the URL and of the versions of its files, so an entry never changes: other files are another entry.

A process that uses an entry, or fetches it, shares its `use` lock until the process ends. Only a process that has that
lock alone may remove the entry. `fetch` is held by the one process that fetches; the others wait for it.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ingest.errors import StorageError, number_of
from ingest.storage.place import PART, place, reason_of
from ingest.storage.removal import remove_tree

CACHE_VARIABLE = "PRIVSIEVE_CACHE"
LIMIT_VARIABLE = "PRIVSIEVE_CACHE_GB"
DEFAULT_LIMIT_GB = 200.0
RESERVE_BYTES = 2**30
"""Space on the disk that is left free."""

ENTRY = "entry.json"
WEIGHTS_SUFFIX = ".safetensors"
SECONDS_PER_LOOK = 0.5


class CachedFile(BaseModel):
    """A file of an entry."""

    model_config = ConfigDict(frozen=True)

    name: str
    num_bytes: int
    version: str
    """Size and time or hash, as the store gives them."""

    sha256: str | None = None
    """Hash of the complete local file, in hex; None until then."""

    mtime_ns: int = 0
    """Time of the local file when its hash was last verified; a file that has changed since is read again."""


class CacheEntry(BaseModel):
    """The content of entry.json."""

    model_config = ConfigDict(frozen=True)

    format_version: Literal[1] = 1
    source: str
    """URL without credentials."""

    asked: str
    """Name that was requested, without credentials; it differs from the source for a name of the hub."""

    name: str
    begun: float
    """Unix time in seconds."""

    files: tuple[CachedFile, ...]

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)

    @property
    def missing(self) -> list[str]:
        """Names of files that are missing or incomplete."""
        return [file.name for file in self.files if file.sha256 is None]

    @property
    def is_whole(self) -> bool:
        """Whether the weights are here, and not only the small files."""
        return not self.missing and any(file.name.endswith(WEIGHTS_SUFFIX) for file in self.files)


@dataclass(frozen=True)
class Slot:
    """The location of an existing or future entry."""

    root: Path
    key: str

    def folder(self, entry: CacheEntry) -> Path:
        return self.root / self.key / entry.name

    def read(self) -> CacheEntry | None:
        """Read the entry; None if it does not exist or is damaged."""
        try:
            return CacheEntry.model_validate_json((self.root / self.key / ENTRY).read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, entry: CacheEntry) -> None:
        place(str(self.root / self.key / ENTRY)).write(entry.model_dump_json(indent=1).encode())

    @property
    def last_used(self) -> float:
        """Unix time in seconds."""
        with suppress(OSError):
            return (self.root / self.key / ENTRY).stat().st_mtime
        return 0.0

    def hold(self) -> None:
        """Protect the entry from removal until this process ends."""
        if self not in _locks:
            _locks[self] = _locked(self.root, f"{self.key}.use", fcntl.LOCK_SH)

    def touch(self) -> None:
        """Note that it was used now."""
        with suppress(OSError):
            os.utime(self.root / self.key / ENTRY)

    @contextmanager
    def fetching(self, on_wait: Callable[[], None]) -> Iterator[bool]:
        """Hold the fetch lock within the block. Yields whether another process had to be waited for; `on_wait` is
        called before waiting."""
        has_waited = False
        while (lock := _free(self.root, f"{self.key}.fetch")) is None:
            if not has_waited:
                on_wait()
            has_waited = True
            time.sleep(SECONDS_PER_LOOK)
        with lock:
            yield has_waited

    @property
    def is_in_use(self) -> bool:
        lock = _free(self.root, f"{self.key}.use")
        if lock is not None:
            lock.close()
        return lock is None

    def remove(self) -> bool:
        """Remove the entry unless a process uses it; return whether it was removed."""
        lock = _free(self.root, f"{self.key}.use")
        if lock is None:
            return False
        with lock:
            self._remove()
        return True

    def _remove(self) -> None:
        """Remove the record first, so that a half-removed folder is not an entry."""
        (self.root / self.key / ENTRY).unlink(missing_ok=True)
        remove_tree(place(str(self.root / self.key)))


_locks: dict[Slot, IO[bytes]] = {}
"""Open lock files, which the system unlocks when the process ends."""


def cache_root() -> Path:
    """Return the folder of the weights in the cache; it may not exist yet."""
    folder = os.environ.get(CACHE_VARIABLE, "").strip()
    home = os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return (Path(folder) if folder else Path(home) / "privsieve").expanduser().absolute() / "weights"


def slot_of(source: str, versions: Iterable[tuple[str, str]]) -> Slot:
    """Return the slot of a source. versions: name and version of each file."""
    content = json.dumps([source, sorted(versions)])
    return Slot(cache_root(), hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()[:24])


def entries() -> list[tuple[Slot, CacheEntry]]:
    """Return all entries of the cache, the last used first."""
    root = cache_root()
    slots = [Slot(root, file.parent.name) for file in root.glob(f"*/{ENTRY}")]
    pairs = [(slot, entry) for slot in slots if (entry := slot.read()) is not None]
    return sorted(pairs, key=lambda pair: -pair[0].last_used)


def entries_of(asked: str) -> list[tuple[Slot, CacheEntry]]:
    """Return the entries of a URL or a name of the hub, the newest first."""
    pairs = [pair for pair in entries() if asked in (pair[1].asked, pair[1].source)]
    return sorted(pairs, key=lambda pair: -pair[1].begun)


def checked(slot: Slot, entry: CacheEntry, *, by_content: bool = False) -> tuple[CacheEntry, list[str]]:
    """Compare an entry with its files; return it and the names of changed files, which count as missing.

    by_content: read every file; else only those whose size or time differs from the record.
    """
    files, changed = [], []
    for file in entry.files:
        now = file if file.sha256 is None else _checked(slot.folder(entry) / file.name, file, by_content)
        if now.sha256 != file.sha256:
            changed.append(file.name)
        files.append(now)
    checked_entry = entry.model_copy(update={"files": tuple(files)})
    if checked_entry != entry:
        slot.write(checked_entry)
    return checked_entry, changed


def _checked(path: Path, file: CachedFile, by_content: bool) -> CachedFile:
    without_hash = file.model_copy(update={"sha256": None})
    try:
        status = path.stat()
        if status.st_size != file.num_bytes:
            return without_hash
        if status.st_mtime_ns == file.mtime_ns and not by_content:
            return file
        if file_sha256(path) != file.sha256:
            return without_hash
    except FileNotFoundError:
        return without_hash
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason_of(error)}") from None
    return file.model_copy(update={"mtime_ns": status.st_mtime_ns})


def file_sha256(path: Path) -> str:
    with path.open("rb", buffering=0) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def begin(slot: Slot, entry: CacheEntry) -> None:
    """Write the record of an entry that will be fetched, once there is room; the least recently used entries are
    removed for it. StorageError if there is no room, and then nothing is removed."""
    slot.root.mkdir(parents=True, exist_ok=True)
    with _locked(slot.root, "room", fcntl.LOCK_EX):
        _make_room(slot, entry)
        slot.folder(entry).mkdir(parents=True, exist_ok=True)
        slot.write(entry)


def _make_room(slot: Slot, entry: CacheEntry) -> None:
    _sweep(slot)
    limit_bytes = _limit_bytes()
    if entry.num_bytes > limit_bytes:
        raise StorageError(
            f"{entry.asked} has {in_bytes(entry.num_bytes)}, and the cache may hold {in_bytes(limit_bytes)}; "
            f"set {LIMIT_VARIABLE} to more"
        )
    others = [pair for pair in entries() if pair[0].key != slot.key]
    with ExitStack() as stack:
        removable = list[tuple[Slot, CacheEntry]]()
        for other in reversed(others):
            if (lock := _free(other[0].root, f"{other[0].key}.use")) is not None:
                stack.enter_context(lock)
                removable.append(other)
        in_use = [other for other in others if other not in removable]
        # Entries that others are fetching now will still grow to their full size.
        needed = RESERVE_BYTES + sum(_missing_bytes(*pair) for pair in ((slot, entry), *in_use))
        free = shutil.disk_usage(slot.root).free
        cached_bytes = sum(other.num_bytes for _, other in others)
        to_remove = list[tuple[Slot, CacheEntry]]()
        while free < needed or cached_bytes + entry.num_bytes > limit_bytes:
            if not removable:
                raise _no_room(slot, entry, in_use, is_disk=free < needed, free=free, needed=needed)
            to_remove.append(removable.pop(0))
            free += to_remove[-1][1].num_bytes - _missing_bytes(*to_remove[-1])
            cached_bytes -= to_remove[-1][1].num_bytes
        for other_slot, _ in to_remove:
            other_slot._remove()


def _sweep(slot: Slot) -> None:
    """Remove folders left by a process that was killed while it removed an entry."""
    for folder in slot.root.iterdir():
        if folder.name in ("locks", slot.key) or (folder / ENTRY).exists() or not folder.is_dir():
            continue
        if (lock := _free(slot.root, f"{folder.name}.use")) is not None:
            with lock:
                remove_tree(place(str(folder)))


def _no_room(
    slot: Slot, entry: CacheEntry, in_use: Sequence[tuple[Slot, CacheEntry]], *, is_disk: bool, free: int, needed: int
) -> StorageError:
    others = ""
    if in_use:
        num_bytes = sum(other.num_bytes for _, other in in_use)
        others = f", and {in_bytes(num_bytes)} of the cache are in use"
    if is_disk:
        return StorageError(
            f"{entry.asked} has {in_bytes(entry.num_bytes)}; {slot.root} has {in_bytes(free)} free of the "
            f"{in_bytes(needed)} that are needed{others}; free some, or set {CACHE_VARIABLE} to a larger disk"
        )
    return StorageError(
        f"{entry.asked} has {in_bytes(entry.num_bytes)}; the cache may hold {in_bytes(_limit_bytes())}{others}; set "
        f"{LIMIT_VARIABLE} to more"
    )


def _missing_bytes(slot: Slot, entry: CacheEntry) -> int:
    """Return the number of bytes that are not on the disk yet."""
    missing = 0
    for file in entry.files:
        if file.sha256 is None:
            part = slot.folder(entry) / f"{file.name}{PART}"
            here = part.stat().st_size if part.is_file() else 0
            missing += max(0, file.num_bytes - here)
    return missing


def _limit_bytes() -> int:
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    try:
        limit = float(text or DEFAULT_LIMIT_GB)
    except ValueError:
        limit = 0.0
    if not 0 < limit <= 1e6:
        raise StorageError(f'{LIMIT_VARIABLE} is "{text}"; give gigabytes, such as 50')
    return int(limit * 1e9)


def in_bytes(num_bytes: int) -> str:
    """Format a size: `16.4 GB`, `2.8 MB`, `459 bytes`."""
    if num_bytes < 1e3:
        return number_of(num_bytes, "byte")
    unit, name = (1e9, "GB") if num_bytes >= 1e9 else (1e6, "MB") if num_bytes >= 1e6 else (1e3, "kB")
    return f"{num_bytes / unit:,.1f} {name}"


def _free(root: Path, name: str) -> IO[bytes] | None:
    """Take the lock exclusively; None if a process has it."""
    try:
        return _locked(root, name, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def _locked(root: Path, name: str, kind: int) -> IO[bytes]:
    """Return an open file with a lock, released when it is closed. BlockingIOError if it would have to wait."""
    try:
        (root / "locks").mkdir(parents=True, exist_ok=True)
        file = (root / "locks" / name).open("ab+")
        try:
            fcntl.flock(file, kind)
        except OSError:
            file.close()
            raise
    except BlockingIOError:
        raise
    except OSError as error:
        raise StorageError(
            f"cannot lock files in {root}: {reason_of(error)}; set {CACHE_VARIABLE} to a folder on a disk of this "
            "machine"
        ) from None
    return file
