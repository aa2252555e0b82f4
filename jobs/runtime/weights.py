"""The verb `models`: the weights of models and adapters on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ingest.errors import RunError
from ingest.storage.place import place
from ingest.storage.removal import remove_tree
from ingest.storage.web import named
from jobs.runtime.progress import SILENT, Feedback, weights_shown
from scoring.engines.vlm.adapter import adapter_in
from scoring.engines.vlm.checkpoint import ADAPTER_CONFIG, checkpoint_in
from scoring.weights.cache import ENTRY, CacheEntry, changed, damaged_slots, entries, locked, missing
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
    """What our cache holds of a URL, in one version."""

    source: str
    """The URL."""

    folder: Path

    num_bytes: int
    """Size of the files that are here."""

    is_whole: bool
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
    """Return what our cache holds, the last used first. Names of the hub are in its own: hf cache ls."""
    return [_cached(slot, entry) for slot, entry in entries()]


def damaged_weights() -> str | None:
    """Return a line that names the folders of our cache that cannot be used; None if there are none."""
    slots = damaged_slots()
    return f"{ENTRY} is damaged in these folders; delete them: {', '.join(map(str, slots))}" if slots else None


def verify_weights(asked: str | None = None) -> list[tuple[CachedWeights, list[str]]]:
    """Read every file, and remove those whose hash differs from that of the fetched one: they will be fetched again.

    Returns what is here, with the names of the removed files.

    asked: a URL; None for all. RunError if nothing of it is here.
    """
    result = []
    for slot, entry in _held(asked):
        others = changed(slot, entry)
        for path in others:
            path.unlink()
        result.append((_cached(slot, entry), [path.name for path in others]))
    return result


def remove_weights(asked: str) -> list[CachedWeights]:
    """Remove all versions from this machine. RunError if there are none, or they are being fetched."""

    def refuse() -> NoReturn:
        raise RunError(f"{named(asked)} is being fetched by a process of this machine; end it first")

    removed = []
    for slot, entry in _held(asked):
        removed.append(_cached(slot, entry))
        with locked(slot, refuse):
            remove_tree(place(str(slot)))
    return removed


def _held(asked: str | None) -> list[tuple[Path, CacheEntry]]:
    """Return the entries of our cache. RunError if nothing of `asked` is there."""
    here = entries(None if asked is None else named(asked))
    if asked is not None and not here:
        raise RunError(
            f"nothing of {named(asked)} is here; privsieve models list shows URLs, hf cache ls names of the hub"
        )
    return here


def _cached(slot: Path, entry: CacheEntry) -> CachedWeights:
    others = missing(slot, entry)
    num_bytes = sum(size for name, size in entry.num_bytes.items() if name not in others)
    return CachedWeights(entry.source, slot / entry.name, num_bytes, not others, (slot / ENTRY).stat().st_mtime)
