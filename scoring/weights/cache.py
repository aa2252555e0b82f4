"""The cache of weights that were fetched from URLs, which several processes of this machine use at once.

    CACHE/weights/KEY/entry.json   where the files are from, their sizes, and the SHA-256 of those that are whole
    CACHE/weights/KEY/NAME/…       the files; one that ends in .part is incomplete
    CACHE/weights/locks/KEY        held by the one process that fetches; the others wait for it

KEY is a hash of the URL and of the versions of its files, so other files are another entry.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from ingest.errors import StorageError, number_of
from ingest.storage.place import place, reason_of

CACHE_VARIABLE = "PRIVSIEVE_CACHE"
RESERVE_BYTES = 2**30
"""Space on the disk that is left free."""

ENTRY = "entry.json"
WEIGHTS_SUFFIX = ".safetensors"


class CacheEntry(BaseModel):
    """The content of entry.json."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    source: str
    """URL without credentials."""

    name: str
    begun: float
    """Unix time in seconds."""

    num_bytes: dict[str, int]
    """Name of each file -> its size."""

    sha256: dict[str, str] = {}
    """Name of each file that came whole -> its hash in hex."""


def cache_root() -> Path:
    """Return the folder of the weights in the cache; it may not exist yet."""
    folder = os.environ.get(CACHE_VARIABLE, "").strip()
    home = os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return (Path(folder) if folder else Path(home) / "privsieve").expanduser().absolute() / "weights"


def slot_of(source: str, versions: Iterable[tuple[str, str]]) -> Path:
    """Return the folder of an existing or future entry. versions: name and version of each file."""
    content = json.dumps([source, sorted(versions)])
    return cache_root() / hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()[:24]


def read_entry(slot: Path) -> CacheEntry | None:
    """Read the entry; None if it does not exist or is damaged."""
    try:
        return CacheEntry.model_validate_json((slot / ENTRY).read_bytes())
    except (OSError, ValidationError):
        return None


def write_entry(slot: Path, entry: CacheEntry) -> None:
    place(str(slot / ENTRY)).write(entry.model_dump_json(indent=1).encode())


def entries(source: str | None = None) -> list[tuple[Path, CacheEntry]]:
    """Return folder and content of each entry, or of those of a URL, the newest first."""
    pairs = [(file.parent, read_entry(file.parent)) for file in cache_root().glob(f"*/{ENTRY}")]
    known = [(slot, entry) for slot, entry in pairs if entry is not None and source in (None, entry.source)]
    return sorted(known, key=lambda pair: -pair[1].begun)


@contextmanager
def locked(slot: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Be the only process that fetches or removes this entry. `on_wait` is called before waiting for another."""
    lock = FileLock(slot.parent / "locks" / slot.name)
    try:
        slot.mkdir(parents=True, exist_ok=True)
        (slot.parent / "locks").mkdir(exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            on_wait()
            lock.acquire()
    except (OSError, NotImplementedError) as error:
        raise StorageError(
            f"cannot lock files in {slot.parent}: {reason_of(error)}; set {CACHE_VARIABLE} to a folder on a disk of "
            "this machine"
        ) from None
    try:
        yield
    finally:
        lock.release()


def missing(slot: Path, entry: CacheEntry) -> list[str]:
    """Return the names of the files that are not here whole."""
    here = {file.name: file.stat().st_size for file in (slot / entry.name).glob("*")}
    return [name for name, size in entry.num_bytes.items() if name not in entry.sha256 or here.get(name) != size]


def changed(slot: Path, entry: CacheEntry) -> list[Path]:
    """Return the files with another content than they came with. StorageError if one cannot be read."""
    files = ((slot / entry.name / name, sha256) for name, sha256 in entry.sha256.items())
    try:
        return [file for file, sha256 in files if file.exists() and file_sha256(file) != sha256]
    except OSError as error:
        raise StorageError(f"cannot read {slot}: {reason_of(error)}") from None


def file_sha256(path: Path) -> str:
    with path.open("rb", buffering=0) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def refuse_without_room(folder: Path, num_bytes: int, asked: str, variable: str = CACHE_VARIABLE) -> None:
    """Raise StorageError if the disk of the folder has no room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes + RESERVE_BYTES:
        raise StorageError(
            f"{asked} needs {in_bytes(num_bytes + RESERVE_BYTES)}, and {folder} has {in_bytes(free)} free; "
            f"privsieve models rm makes room, and {variable} names a larger disk"
        )


def in_bytes(num_bytes: int) -> str:
    """Format a size: `16.4 GB`, `2.8 MB`, `459 bytes`."""
    if num_bytes < 1e3:
        return number_of(num_bytes, "byte")
    unit, name = (1e9, "GB") if num_bytes >= 1e9 else (1e6, "MB") if num_bytes >= 1e6 else (1e3, "kB")
    return f"{num_bytes / unit:,.1f} {name}"
