"""The cache of weights that were fetched from URLs, which several processes of this machine use at once.

    CACHE/weights/KEY/entry.json   where the files are from, their sizes, and the SHA-256 of those that are whole
    CACHE/weights/KEY/NAME/…       the files; one that ends in .part is incomplete
    CACHE/weights/locks/KEY        held by the one process that fetches; the others wait for it

KEY is a hash of the URL and of the versions of its files, so other files are another entry. The time of entry.json is
that of the last use.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from ingest.errors import StorageError
from ingest.sample import printable
from ingest.storage.place import PART, Place, place, reason_of, version_mark_of
from ingest.storage.removal import remove_tree
from scoring.weights.files import WEIGHTS_SUFFIX, file_sha256, is_file_name, model_files, notify, progress

CACHE_VARIABLE = "PRIVSIEVE_CACHE"
ENTRY = "entry.json"
MAX_FILES = 4_096
REQUEST_BYTES = 32 * 2**20
NUM_REQUESTS = 4
"""Requests at once: one connection to an object store is slower than the network. Together they take 128 MiB of
memory."""


class CacheEntry(BaseModel):
    """The content of entry.json."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    source: str
    """URL without credentials."""

    name: str
    num_bytes: dict[str, int]
    """Name of each file -> its size."""

    sha256: dict[str, str] = {}
    """Name of each file that came whole -> its hash in hex."""


def cache_root() -> Path:
    """Return the folder of the weights in the cache; it may not exist yet."""
    folder = os.environ.get(CACHE_VARIABLE, "").strip()
    home = os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return (Path(folder) if folder else Path(home) / "privsieve").expanduser().absolute() / "weights"


def entries(source: str | None = None) -> list[tuple[Path, CacheEntry]]:
    """Return folder and content of each entry, or of those of a URL, the last used first; damaged ones are left out."""
    files = sorted(cache_root().glob(f"*/{ENTRY}"), key=lambda file: -file.stat().st_mtime)
    known = [(file.parent, entry) for file in files if (entry := _read_entry(file.parent)) is not None]
    return [(slot, entry) for slot, entry in known if source in (None, entry.source)]


def damaged_slots() -> list[Path]:
    """Return the folders of the entries whose URL is unknown, since their entry.json is damaged."""
    return [file.parent for file in sorted(cache_root().glob(f"*/{ENTRY}")) if _read_entry(file.parent) is None]


def _read_entry(slot: Path) -> CacheEntry | None:
    """Read the entry; None if it does not exist or is damaged."""
    try:
        return CacheEntry.model_validate_json((slot / ENTRY).read_bytes())
    except (OSError, ValidationError):
        return None


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


def fetched(source: Place, url: str) -> Path:
    """Fetch the files of `source` if needed, and return their folder in the cache.

    url: for the cache and messages. StorageError or EngineError in one line; the next call keeps the files that came
    whole.
    """
    versions = _versions(source, url)
    key = json.dumps([url, sorted((name, mark) for name, (_, mark) in versions.items())])
    slot = cache_root() / hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:24]
    with locked(slot, lambda: notify(f"another process of this machine is fetching {url}; waiting for it")):
        num_bytes = {name: size for name, (size, _) in versions.items()}
        entry = _read_entry(slot) or CacheEntry(source=url, name=source.name, num_bytes=num_bytes)
        if wanted := missing(slot, entry):
            _fetch(source, slot, entry, wanted)
            if _versions(source, url) != versions:
                remove_tree(place(str(slot)))
                raise StorageError(f"{url} was changed while it was fetched; run the same command again")
        os.utime(slot / ENTRY)
    return slot / source.name


def _versions(source: Place, asked: str) -> dict[str, tuple[int, str]]:
    """List the files that a model may have: name -> size, and version as the store gives it. StorageError if there are
    none, or names or sizes are hostile."""
    try:
        listed = source.entries()
    except FileNotFoundError:
        listed = []
    except NotImplementedError:
        raise StorageError(f"{asked}: this kind of storage cannot be listed; copy the model to a folder") from None
    if len(listed) > MAX_FILES:
        raise StorageError(f"{asked} holds {len(listed):,} files, more than a model has; give the model's own folder")
    named = [(_name(str(entry["name"]), source, asked), entry) for entry in listed]
    files = {name: entry for name, entry in named if name is not None and entry["type"] != "directory"}
    wanted = model_files(asked, {name: int(entry.get("size") or 0) for name, entry in files.items()})
    versions = {name: _version(name, files[name], source, asked) for name in wanted}
    model_files(asked, {name: size for name, (size, _) in versions.items()})
    return versions


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


def _version(name: str, entry: dict[str, Any], source: Place, asked: str) -> tuple[int, str]:
    if entry.get("size") is None:  # a web server's page of links does not state sizes
        file = source.at(name)
        try:
            return file.size(), file.version_mark()
        except FileNotFoundError:
            raise StorageError(f"{asked} lists {name}, and does not have it") from None
        except TypeError:
            raise StorageError(f"{asked}: the server does not say how large {name} is") from None
    if source.hashes_content(entry):  # then the same file that is uploaded again stays the same
        return int(entry["size"]), str(entry.get("ETag") or entry.get("etag"))
    return int(entry["size"]), version_mark_of(entry)


def _fetch(source: Place, slot: Path, entry: CacheEntry, wanted: list[str]) -> None:
    """Fetch files, weights last."""
    num_all, num_left = sum(entry.num_bytes.values()), sum(entry.num_bytes[name] for name in wanted)
    on_bytes = progress(entry.name, num_all - num_left, num_all)
    for name in sorted(wanted, key=lambda name: (name.endswith(WEIGHTS_SUFFIX), name)):
        part, whole = slot / entry.name / f"{name}{PART}", slot / entry.name / name
        try:
            part.parent.mkdir(exist_ok=True)
            sha256 = _download(source.at(name), entry.num_bytes[name], part, on_bytes)
            os.replace(part, whole)
        except FileNotFoundError:
            raise StorageError(f"{entry.source}: {name} was removed after it was listed") from None
        except OSError as error:
            raise StorageError(f"cannot write {part}: {reason_of(error)}") from None
        entry = entry.model_copy(update={"sha256": entry.sha256 | {name: sha256}})
        place(str(slot / ENTRY)).write(entry.model_dump_json(indent=1).encode())


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
