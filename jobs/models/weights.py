"""Fetches, lists, checks and removes weights in the cache of this machine."""

from dataclasses import dataclass
from pathlib import Path

from ingest.errors import RunError
from ingest.storage.web import named
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.weights_progress import weights_shown
from scoring.engines.vlm.adapter import adapter_in
from scoring.engines.vlm.checkpoint import ADAPTER_CONFIG, checkpoint_in
from scoring.weights.cache import Entry, Slot, checked, entries, entries_of
from scoring.weights.sources import find_weights


@dataclass(frozen=True)
class FetchedWeights:
    """A model or an adapter that a scan can load from this machine."""

    asked: str
    """The name or URL, without credentials."""

    name: str
    """As run.json has it."""

    sha256: str
    """As run.json has it."""

    folder: Path

    num_bytes: int


@dataclass(frozen=True)
class CachedWeights:
    """What the cache holds of a name or URL, in one version."""

    asked: str

    source: str
    """The URL; for a name of the hub with the commit."""

    folder: Path

    num_bytes: int
    """Of all files, also of those that are not here yet."""

    missing: tuple[str, ...]
    """Files that are not here, or not whole."""

    is_whole: bool

    is_in_use: bool
    """By a process of this machine, so that it cannot be removed."""

    last_used: float
    """Unix time in seconds."""


def fetch_weights(asked: str, feedback: Feedback = SILENT) -> FetchedWeights:
    """The weights are on this machine afterwards, whole and checked. EngineError or StorageError in one line."""
    with weights_shown(feedback):
        found = find_weights(asked, "model")
        if (found.folder / ADAPTER_CONFIG).is_file():
            name, digest = f"adapter {found.name}", adapter_in(found).digest()
        else:
            name, digest = found.name, checkpoint_in(found).digest()
    num_bytes = sum(file.stat().st_size for file in found.folder.iterdir() if file.is_file())
    return FetchedWeights(found.shown, name, digest, found.folder, num_bytes)


def cached_weights() -> list[CachedWeights]:
    """What was used last comes first."""
    return [_cached(slot, entry) for slot, entry in entries()]


def verify_weights(asked: str | None = None) -> list[tuple[CachedWeights, list[str]]]:
    """Reads every file, and names those whose SHA-256 differs from that of the fetched one: they will be fetched again.

    asked: a name or URL; None for all. RunError if the cache has nothing of it.
    """
    found = []
    for slot, entry in entries() if asked is None else _of(asked):
        now, changed = checked(slot, entry, by_content=True)
        found.append((_cached(slot, now), changed))
    return found


def remove_weights(asked: str) -> list[CachedWeights]:
    """All versions are gone from the cache. RunError if there are none, or a process uses one."""
    gone = []
    for slot, entry in _of(asked):
        cached = _cached(slot, entry)
        if not slot.remove():
            raise RunError(f"{entry.asked} is used by a process of this machine; end it first")
        gone.append(cached)
    return gone


def _of(asked: str) -> list[tuple[Slot, Entry]]:
    if not (found := entries_of(named(asked))):
        raise RunError(f"the cache has nothing of {named(asked)}; privsieve models list shows what it has")
    return found


def _cached(slot: Slot, entry: Entry) -> CachedWeights:
    return CachedWeights(
        entry.asked,
        entry.source,
        slot.folder(entry),
        entry.num_bytes,
        tuple(entry.missing),
        entry.is_whole,
        slot.is_in_use,
        slot.last_used,
    )
