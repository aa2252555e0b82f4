"""The verb `models`: the weights of models and adapters on this machine."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from ingest.errors import IncompleteError, RunError, number_of
from ingest.storage.web import named
from jobs.console.commands import Commands
from jobs.console.request_options import QUIET
from jobs.console.terminal import write_line, write_rows, write_table
from jobs.runtime.cluster import command_session
from jobs.runtime.progress import SILENT, Feedback, on_terminal, weights_shown
from scoring.engines.vlm.adapter import adapter_in
from scoring.engines.vlm.checkpoint import ADAPTER_CONFIG, checkpoint_in
from scoring.weights.cache import CacheEntry, Slot, cache_root, checked, entries, entries_of, in_bytes
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


@click.group(cls=Commands)
def models() -> None:
    """Fetch, list, check and remove the weights in the cache of this machine.

    Scans fetch what they need by themselves, once on each machine. PRIVSIEVE_CACHE names the cache, PRIVSIEVE_CACHE_GB
    its limit; with PRIVSIEVE_OFFLINE=1 nothing is fetched.
    """


@models.command()
@click.argument("weights", nargs=-1, required=True, metavar="WEIGHTS...")
@QUIET
def fetch(weights: tuple[str, ...], quiet: bool) -> None:
    """Fetch models and adapters before a scan needs them.

    WEIGHTS are hub names (owner/name@revision) or URLs, as for scan --model and --adapter. An interrupted download is
    continued. Prints the SHA-256 that run.json will have.

    Example: privsieve models fetch s3://bucket/models/Qwen3-VL-8B
    """
    with command_session():
        for asked in weights:
            fetched = fetch_weights(asked, on_terminal(quiet))
            write_line(f"{fetched.asked}: {in_bytes(fetched.num_bytes)}, sha256 {fetched.sha256}, in {fetched.folder}")


@models.command("list")
@click.option("--format", "output", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
def list_(output: str) -> None:
    """List what the cache holds, the last used first."""

    def state(weights: CachedWeights) -> str:
        if weights.is_in_use:
            return "in use"
        return "whole" if weights.is_whole else "a part"

    cached = cached_weights()
    if output != "table":
        heads = ("weights", "source", "folder", "num_bytes", "state", "last_used")
        write_rows(
            heads,
            [
                (item.asked, item.source, str(item.folder), item.num_bytes, state(item), item.last_used)
                for item in cached
            ],
            output,
        )
        return
    if cached:
        rows = [
            (
                item.source,
                in_bytes(item.num_bytes),
                state(item),
                f"{datetime.fromtimestamp(item.last_used):%Y-%m-%d %H:%M}",
            )
            for item in cached
        ]
        write_table(("weights", "size", "state", "last used"), rows, {1})
    all_bytes = in_bytes(sum(item.num_bytes for item in cached))
    write_line(f"{number_of(len(cached), 'folder')}, {all_bytes}, in {cache_root()}")


@models.command()
@click.argument("weights", required=False)
def verify(weights: str | None) -> None:
    """Read every file in the cache and compare its SHA-256 with that of the file that was fetched.

    WEIGHTS: a hub name or URL; default all. Files that differ are fetched again when they are next needed. Exit code 1
    if there are any.
    """
    verified = verify_weights(weights)
    if not verified:
        write_line(f"there are no weights in {cache_root()}")
    for cached, changed in verified:
        if changed:
            write_line(f"problem  {cached.source}: {', '.join(changed)} was changed since it was fetched")
        elif not cached.is_whole:
            what = (
                f"{number_of(len(cached.missing), 'file')} missing"
                if cached.missing
                else "only its small files are here"
            )
            write_line(f"part     {cached.source}: {what}")
        else:
            write_line(f"ok       {cached.source}")
    num_changed = sum(bool(changed) for _, changed in verified)
    if num_changed:
        raise IncompleteError(f"{num_changed} of {len(verified)} were changed; they will be fetched again")


@models.command()
@click.argument("weights")
def remove(weights: str) -> None:
    """Remove a model or an adapter from the cache, in all its versions.

    WEIGHTS: a hub name or URL. What a process uses is not removed.
    """
    for cached in remove_weights(weights):
        write_line(f"removed {cached.source}, {in_bytes(cached.num_bytes)}")
