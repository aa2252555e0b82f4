"""The verb `models`: the weights of models and adapters on this machine."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from ingest.errors import RunError
from ingest.storage.place import place
from ingest.storage.removal import remove_tree
from ingest.storage.web import named
from jobs.runtime.progress import SILENT, Feedback, weights_shown
from scoring.engines.vlm.adapter import adapter_in
from scoring.engines.vlm.checkpoint import ADAPTER_CONFIG, checkpoint_in
from scoring.weights.cache import ENTRY, WEIGHTS_SUFFIX, changed, entries, locked
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
    return [held.weights for held in _held(None)]


def verify_weights(asked: str | None = None) -> list[tuple[CachedWeights, list[str]]]:
    """Read every file, and remove those whose hash differs from that of the fetched one: they will be fetched again.

    Returns what is here, with the names of the removed files.

    asked: a name or URL; None for all. RunError if nothing of it is here.
    """
    result = []
    for held in _held(asked):
        others = held.changed()
        for path in others:
            path.resolve().unlink(missing_ok=True)  # the hub's cache has links
            path.unlink(missing_ok=True)
        result.append((held.weights, [path.name for path in others]))
    return result


def remove_weights(asked: str) -> list[CachedWeights]:
    """Remove all versions from this machine. RunError if there are none, or they are being fetched."""
    gone = _held(asked)
    for held in gone:
        held.remove()
    return [held.weights for held in gone]


@dataclass(frozen=True)
class _Held:
    weights: CachedWeights

    changed: Callable[[], list[Path]]
    """Returns the files whose hash differs from that of the fetched one."""

    remove: Callable[[], object]


def _held(asked: str | None) -> list[_Held]:
    """Return what our cache and the hub's hold, the last used first. RunError if nothing of `asked` is there."""
    result = list[_Held]()
    wanted = None if asked is None else named(asked)
    for slot, entry in entries(wanted):
        is_whole, num_bytes = (
            len(entry.sha256) == len(entry.num_bytes),
            sum(entry.num_bytes[name] for name in entry.sha256),
        )
        used = (slot / ENTRY).stat().st_mtime
        weights = CachedWeights(entry.source, slot / entry.name, num_bytes, is_whole, used)
        result.append(_Held(weights, partial(changed, slot, entry), partial(_remove, slot, entry.source)))
    with suppress(ImportError):
        from scoring.weights.hub import changed_files, models_of_hub, remove_version

        for repo, version in models_of_hub():
            source = f"{repo.repo_id}@{version.commit_hash}"
            if wanted in (None, repo.repo_id, source, *(f"{repo.repo_id}@{ref}" for ref in version.refs)):
                is_whole = any(file.file_name.endswith(WEIGHTS_SUFFIX) for file in version.files)
                used, folder = repo.last_accessed, version.snapshot_path
                weights = CachedWeights(source, folder, version.size_on_disk, is_whole, used)
                result.append(_Held(weights, partial(changed_files, version), partial(remove_version, version)))
    if wanted is not None and not result:
        raise RunError(f"nothing of {wanted} is here; privsieve models list shows what is")
    return sorted(result, key=lambda held: -held.weights.last_used)


def _remove(slot: Path, source: str) -> None:
    def refuse() -> NoReturn:
        raise RunError(f"{source} is being fetched by a process of this machine; end it first")

    with locked(slot, refuse):
        remove_tree(place(str(slot)))
