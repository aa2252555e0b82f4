"""Resolves names of `--model` and `--adapter` to a folder of this machine, fetched into the cache if needed.

Every machine of a cluster does this itself: it receives the name, and the hash that the content must have.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import EngineError, OutageError, StorageError
from ingest.machine import install_command
from ingest.storage.place import is_local, place
from ingest.storage.retries import may_pass, reason_of, store_errors
from ingest.storage.web import named
from scoring.weights.cache import ENTRY, entries, fetched, missing
from scoring.weights.files import is_file_name, notify

OFFLINE_VARIABLE = "PRIVSIEVE_OFFLINE"
HUB_OFFLINE_VARIABLE = "HF_HUB_OFFLINE"
"""Variable of the hub's own package; it does not affect other stores."""

HUB = "hf://"


@dataclass(frozen=True)
class Weights:
    """A folder of this machine with a model or an adapter."""

    folder: Path

    name: str
    """Name for run.json: the folder's, or the last part of a URL; for the hub `owner/name@commit`."""

    shown: str
    """What the user named, for messages."""

    is_of_hub: bool = False
    """Whether it is from the hub; then the name contains the commit, which identifies the content."""


def find_weights(given: str, what: str, *, with_weights: bool = True) -> Weights:
    """Find a folder, `owner/name[@revision]` of the hub, also as hf://owner/name, or an fsspec URL. EngineError says
    what is missing or wrong.

    what: "model" or "adapter", for messages. with_weights: else only the small files of a model of the hub are fetched.
    """
    given = given.removeprefix(HUB)
    folder = _local_folder(given)
    if folder is not None and folder.is_dir():
        return Weights(folder, folder.resolve().name, given)
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
    given = given.removeprefix(HUB)
    folder = _local_folder(given)
    if folder is not None and folder.is_dir():
        return folder
    try:
        if folder is None:
            return _from_cache(named(given), "")
        name, _, revision = given.partition("@")
        from scoring.weights.hub import local_of_hub

        return local_of_hub(name, revision or None, with_weights=True)
    except (ImportError, OSError, ValueError, StorageError):
        return None


def _local_folder(given: str) -> Path | None:
    """Return the local folder; None if a URL is named."""
    if "://" not in given:
        return Path(given).expanduser()
    return Path(place(given).path) if is_local(given) else None


def _of_url(url: str) -> Weights:
    url = url.rstrip("/")  # one entry of the cache, however it is written
    shown = named(url)
    try:
        source = place(url)
        if not is_file_name(source.name):
            raise StorageError(f"{shown} does not end in the name of a folder; give the URL of the model's folder")
        offline = offline_by(OFFLINE_VARIABLE)
        folder = _from_cache(shown, offline) if offline else fetched(source, shown)
    except OutageError:
        raise
    except StorageError as error:
        raise EngineError(str(error)) from None
    return Weights(folder, source.name, shown)


def _from_cache(url: str, offline: str) -> Path:
    """Return the folder of what was used last. StorageError if no version is whole."""
    for slot, entry in entries(url):
        if not missing(slot, entry):
            os.utime(slot / ENTRY)  # it was used now
            return slot / entry.name
    raise _offline(offline, f"{url} is not whole in the local cache", url)


def _offline(variable: str, what: str, asked: str) -> StorageError:
    how = f"run privsieve models fetch {asked} where there is a network, or unset it"
    return StorageError(f"{variable} is set, and {what}; {how}")


def _of_hub(name: str, revision: str | None, with_weights: bool) -> Weights:
    """Use the hub's own cache. The hub resolves the revision to a commit."""
    try:
        from huggingface_hub.errors import HFValidationError

        from scoring.weights.hub import fetched_of_hub, local_of_hub
    except ImportError:
        raise EngineError(
            f'the folder "{name}" does not exist, and a name of the hub needs huggingface_hub: {install_command("hf")}'
        ) from None
    asked = f"{name}@{revision}" if revision else name
    offline = offline_by(OFFLINE_VARIABLE, HUB_OFFLINE_VARIABLE)
    try:
        get = local_of_hub if offline else fetched_of_hub
        folder = get(name, revision, with_weights=with_weights)
    except HFValidationError:
        raise EngineError(f'"{asked}" is neither a folder nor a valid hub name such as owner/name') from None
    except store_errors() as error:
        if offline:
            raise EngineError(str(_offline(offline, f"{asked} is not whole in the hub's cache", asked))) from None
        unreachable = (
            f'there is no folder "{asked}"; as a name of the hub, it is not in the local cache and could not be '
            f"fetched ({reason_of(error)}): check the name and the network, or give a folder that holds it"
        )
        if not may_pass(error):
            raise EngineError(unreachable) from None
        try:
            folder = local_of_hub(name, revision, with_weights=with_weights)
        except OSError:
            raise OutageError(unreachable) from None
        notify(f"the hub cannot be reached; {name}@{folder.name} is used, which was fetched before")
    return Weights(folder, f"{name}@{folder.name}", asked, is_of_hub=True)
