"""The verb `models`: the weights of models and adapters on this machine."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ingest.errors import RunError
from ingest.storage.place import place
from ingest.storage.removal import remove_tree
from ingest.storage.web import named
from jobs.runtime.progress import SILENT, Feedback, weights_shown
from scoring.engines.vlm.adapter import adapter_in
from scoring.engines.vlm.checkpoint import ADAPTER_CONFIG, checkpoint_in
from scoring.weights.cache import ENTRY, WEIGHTS_SUFFIX, entries, locked, missing, read_entry
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
    """What this machine holds of a name or URL, in one version."""

    source: str
    """The URL; `owner/name@commit` for a name of the hub."""

    folder: Path

    num_bytes: int
    """Size of the files that are here."""

    is_whole: bool
    """Whether the weights are here, and all of them as far as is known."""

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
    """Return what our cache and the hub's hold, the last used first."""
    return [weights for weights, _ in _cached(None)]


def verify_weights(asked: str | None = None) -> list[tuple[CachedWeights, list[str]]]:
    """Read every file, and remove those whose hash differs from that of the fetched one: they will be fetched again.

    Returns what is here, with the names of the removed files.

    asked: a name or URL; None for all. RunError if nothing of it is here.
    """
    result = []
    for weights, held in _cached(asked):
        if isinstance(held, Path):
            entry = read_entry(held)
            files = missing(held, entry, by_content=True) if entry else []
            changed = [weights.folder / file.name for file in files if file.sha256 is not None]
        else:
            from scoring.weights.hub import changed_files

            changed = changed_files(held)
        for path in changed:
            path.resolve().unlink(missing_ok=True)  # the hub's cache has links
            path.unlink(missing_ok=True)
        result.append((weights, [file.name for file in changed]))
    return result


def remove_weights(asked: str) -> list[CachedWeights]:
    """Remove all versions from this machine. RunError if there are none, or they are being fetched."""

    def refuse() -> NoReturn:
        raise RunError(f"{named(asked)} is being fetched by a process of this machine; end it first")

    gone = []
    for weights, held in _cached(asked):
        if isinstance(held, Path):
            with locked(held, refuse):
                remove_tree(place(str(held)))
        else:
            from scoring.weights.hub import remove_version

            remove_version(held)
        gone.append(weights)
    return gone


def _cached(asked: str | None) -> list[tuple[CachedWeights, Any]]:
    """Return what is here, each with its folder in our cache, or its version in the hub's. RunError if `asked` is
    not."""
    result = list[tuple[CachedWeights, Any]]()
    wanted = None if asked is None else named(asked)
    for slot, entry in entries(wanted):
        here = [file.num_bytes for file in entry.files if file.sha256 is not None]
        is_whole, used = len(here) == len(entry.files), (slot / ENTRY).stat().st_mtime
        result.append((CachedWeights(entry.source, slot / entry.name, sum(here), is_whole, used), slot))
    with suppress(ImportError):
        from scoring.weights.hub import models_of_hub

        for repo, version in models_of_hub():
            source = f"{repo.repo_id}@{version.commit_hash}"
            if wanted in (None, repo.repo_id, source, *(f"{repo.repo_id}@{ref}" for ref in version.refs)):
                is_whole = any(file.file_name.endswith(WEIGHTS_SUFFIX) for file in version.files)
                used, folder = repo.last_accessed, version.snapshot_path
                result.append((CachedWeights(source, folder, version.size_on_disk, is_whole, used), version))
    if wanted is not None and not result:
        raise RunError(f"nothing of {wanted} is here; privsieve models list shows what is")
    return sorted(result, key=lambda pair: -pair[0].last_used)
