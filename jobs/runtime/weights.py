"""The verb `models`: the weights of models and adapters on this machine."""

from dataclasses import dataclass
from pathlib import Path

from ingest.errors import RunError
from ingest.storage.web import named
from jobs.runtime.progress import SILENT, Feedback, weights_shown
from scoring.engines.vlm.adapter import adapter_in
from scoring.engines.vlm.checkpoint import ADAPTER_CONFIG, checkpoint_in
from scoring.weights.cache import CacheEntry, Slot, checked, entries, entries_of
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
    """Size of all files, also of those that are not here yet."""

    missing: tuple[str, ...]
    """Files that are not here, or not whole."""

    is_whole: bool

    is_in_use: bool
    """By a process of this machine, so that it cannot be removed."""

    last_used: float
    """Unix time in seconds."""


def fetch_weights(asked: str, feedback: Feedback = SILENT) -> FetchedWeights:
    """Fetch weights: they are here afterwards, whole and checked. EngineError or StorageError in one line."""
    with weights_shown(feedback):
        weights = find_weights(asked, "model")
        if (weights.folder / ADAPTER_CONFIG).is_file():
            name, digest = f"adapter {weights.name}", adapter_in(weights).digest()
        else:
            name, digest = weights.name, checkpoint_in(weights).digest()
    num_bytes = sum(file.stat().st_size for file in weights.folder.iterdir() if file.is_file())
    return FetchedWeights(weights.shown, name, digest, weights.folder, num_bytes)


def cached_weights() -> list[CachedWeights]:
    """Return what the cache holds, the last used first."""
    return [_cached(slot, entry) for slot, entry in entries()]


def verify_weights(asked: str | None = None) -> list[tuple[CachedWeights, list[str]]]:
    """Read every file, and name those whose SHA-256 differs from that of the fetched one: they will be fetched again.

    asked: a name or URL; None for all. RunError if the cache has nothing of it.
    """
    result = []
    for slot, entry in entries() if asked is None else _of(asked):
        now, changed = checked(slot, entry, by_content=True)
        result.append((_cached(slot, now), changed))
    return result


def remove_weights(asked: str) -> list[CachedWeights]:
    """Remove all versions from the cache. RunError if there are none, or a process uses one."""
    gone = []
    for slot, entry in _of(asked):
        cached = _cached(slot, entry)
        if not slot.remove():
            raise RunError(f"{entry.asked} is used by a process of this machine; end it first")
        gone.append(cached)
    return gone


def _of(asked: str) -> list[tuple[Slot, CacheEntry]]:
    if not (slots := entries_of(named(asked))):
        raise RunError(f"the cache has nothing of {named(asked)}; privsieve models list shows what it has")
    return slots


def _cached(slot: Slot, entry: CacheEntry) -> CachedWeights:
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
