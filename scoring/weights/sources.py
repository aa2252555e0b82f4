"""Resolves names of `--model` and `--adapter` to a folder of this machine, fetched into the cache if needed.

Every machine of a cluster does this itself: it receives the name, and the hash that the content must have.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ingest.errors import EngineError, OutageError, StorageError
from ingest.machine import install_command
from ingest.storage.place import is_local, place
from ingest.storage.retries import may_pass, reason_of, store_errors
from ingest.storage.web import named
from scoring.weights.cache import WEIGHTS_SUFFIX, CacheEntry, checked, entries_of
from scoring.weights.fetching import SMALL_SUFFIXES, RemoteFile, fetched, is_file_name, listed, notify

OFFLINE_VARIABLE = "PRIVSIEVE_OFFLINE"
HUB_OFFLINE_VARIABLE = "HF_HUB_OFFLINE"
"""Variable of the hub's own package; it does not affect other stores."""

HUB = "hf://"
MARKS = ("config.json", "adapter_config.json")
"""One of them is in every folder of a model or an adapter."""


@dataclass(frozen=True)
class Weights:
    """A folder of this machine with a model or an adapter."""

    folder: Path

    name: str
    """Name for run.json: the folder's, or the last part of a URL; for the hub `owner/name@commit`."""

    given: str = field(repr=False)
    """Text that the user gave; its query may be a key."""

    shown: str
    """The same for messages, without credentials."""

    is_of_hub: bool = False
    """Whether it is from the hub; then the name contains the commit, which identifies the content."""

    is_fetched: bool = False
    """Whether it was fetched; else it is a folder that the user named."""


def find_weights(given: str, what: str, *, with_weights: bool = True) -> Weights:
    """Find a folder, `owner/name[@revision]` of the hub, or an fsspec URL. EngineError says what is missing or wrong.

    what: "model" or "adapter", for messages. with_weights: else only the small files of a model of the hub are fetched.
    """
    folder = _local_folder(given)
    if folder is not None and folder.is_dir():
        return Weights(folder, folder.resolve().name, given, given)
    if folder is None:
        return _of_url(given)
    name, _, revision = given.partition("@")
    if name.count("/") != 1 or name.startswith(("/", ".", "~")) or "://" in given:
        raise EngineError(
            f'the {what} folder "{given}" does not exist; give a folder, a hub name such as owner/name, or a URL'
        )
    return _of_hub(name, revision or None, with_weights)


def offline_by(*variables: str) -> str | None:
    """Return the variable that forbids fetching, or None."""
    on = (name for name in variables if os.environ.get(name, "").strip().lower() in ("1", "true", "yes", "on"))
    return next(on, None)


def weights_here(given: str) -> Path | None:
    """Return the local folder with these weights, or None; nothing is fetched, and no store is asked."""
    folder = _local_folder(given)
    if folder is not None and folder.is_dir():
        return folder
    whole = [slot.folder(entry) for slot, entry in entries_of(named(given)) if entry.is_whole]
    return whole[0] if whole else None


def _local_folder(given: str) -> Path | None:
    """Return the local folder; None if a URL is named."""
    if "://" not in given:
        return Path(given).expanduser()
    return Path(place(given).path) if is_local(given) else None


def _of_url(url: str) -> Weights:
    url = url if "?" in url else url.rstrip("/")  # one entry of the cache, however it is written
    shown = named(url)
    try:
        source = place(url)
        if not is_file_name(source.name):
            raise StorageError(f"{shown} does not end in the name of a folder; give the URL of the model's folder")
        is_of_hub = shown.startswith(HUB)
        if offline := offline_by(OFFLINE_VARIABLE, *([HUB_OFFLINE_VARIABLE] if is_of_hub else [])):
            folder, _ = _from_cache(shown, offline)
        else:
            folder = fetched(source, shown, shown, source.name)
    except OutageError:
        raise
    except StorageError as error:
        raise EngineError(str(error)) from None
    return Weights(folder, source.name, url, shown, is_fetched=True)


def _from_cache(asked: str, offline: str, *, with_weights: bool = True) -> tuple[Path, CacheEntry]:
    """Return the folder and entry that were fetched last. StorageError if they are incomplete."""
    pairs = entries_of(asked)
    for slot, entry in pairs:
        slot.hold()
        now, _ = checked(slot, entry)
        if now.is_whole or (not with_weights and _has_small(now)):
            slot.touch()
            return slot.folder(now), now
    missing = f"only a part of {asked} is in the local cache" if pairs else f"{asked} is not in the local cache"
    if pairs and (names := checked(*pairs[0])[0].missing):
        missing += f" ({names[0]}{' and others are' if len(names) > 1 else ' is'} missing)"
    raise StorageError(
        f"{offline} is set, and {missing}; run privsieve models fetch {asked} where there is a network, or unset it"
    )


def _has_small(entry: CacheEntry) -> bool:
    return all(file.sha256 is not None for file in entry.files if file.name.endswith(SMALL_SUFFIXES))


def _of_hub(name: str, revision: str | None, with_weights: bool) -> Weights:
    """Use the hub's own cache if it is complete, else ours. The hub resolves the revision to a commit."""
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        raise EngineError(
            f'the folder "{name}" does not exist, and a name of the hub needs huggingface_hub: {install_command("hf")}'
        ) from None
    asked = f"{name}@{revision}" if revision else name
    try:
        if offline := offline_by(OFFLINE_VARIABLE, HUB_OFFLINE_VARIABLE):
            return _of_hub_here(name, revision, with_weights, offline)
        commit = str(HfApi().model_info(name, revision=revision).sha)
        url = f"{HUB}{name}@{commit}"
        source = place(url)
        folder = _snapshot(name, commit)
        if folder is None or not _has_all(folder, listed(source, asked), with_weights):
            folder = fetched(source, url, asked, name.partition("/")[2], with_weights=with_weights)
    except HFValidationError:
        raise EngineError(f'"{asked}" is neither a folder nor a valid hub name such as owner/name') from None
    except OutageError:
        raise
    except StorageError as error:
        raise EngineError(str(error)) from None
    except store_errors() as error:
        if not may_pass(error):
            raise EngineError(_unreachable(asked, error)) from None
        try:
            cached = _of_hub_here(name, revision, with_weights, "")
        except StorageError:
            raise OutageError(_unreachable(asked, error)) from None
        notify(f"the hub cannot be reached; {cached.name} is used, which was fetched before")
        return cached
    return Weights(folder, f"{name}@{commit}", asked, asked, is_of_hub=True, is_fetched=True)


def _unreachable(asked: str, error: Exception) -> str:
    return (
        f'there is no folder "{asked}"; as a name of the hub, it is not in the local cache and could not be fetched '
        f"({reason_of(error)}): check the name and the network, or give a folder that holds it"
    )


def _of_hub_here(name: str, revision: str | None, with_weights: bool, offline: str) -> Weights:
    """Return cached weights. StorageError if they are in neither cache."""
    asked = f"{name}@{revision}" if revision else name
    folder = _snapshot(name, revision)
    if folder is not None and (not with_weights or any(folder.glob(f"*{WEIGHTS_SUFFIX}"))):
        return Weights(folder, f"{name}@{folder.name}", asked, asked, is_of_hub=True, is_fetched=True)
    folder, entry = _from_cache(asked, offline, with_weights=with_weights)
    return Weights(folder, entry.source.removeprefix(HUB), asked, asked, is_of_hub=True, is_fetched=True)


def _snapshot(name: str, revision: str | None) -> Path | None:
    """Return the folder in the hub's own cache, named after the commit; None if there is none."""
    from huggingface_hub import try_to_load_from_cache

    for file in MARKS:
        if isinstance(cached_file := try_to_load_from_cache(name, file, revision=revision), str):
            return Path(cached_file).parent
    return None


def _has_all(folder: Path, remote: Sequence[RemoteFile], with_weights: bool) -> bool:
    files = [(folder / file.name, file.num_bytes) for file in remote if with_weights or file.is_small]
    return all(file.is_file() and file.stat().st_size == num_bytes for file, num_bytes in files)
