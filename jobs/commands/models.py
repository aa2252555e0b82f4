"""The verb `models`: the weights of models and adapters on this machine."""

from datetime import datetime

import click

from ingest.errors import IncompleteError, number_of
from jobs.console.commands import Commands
from jobs.console.request_options import QUIET
from jobs.console.terminal import write_line, write_rows, write_table
from jobs.runtime.cluster import command_session
from jobs.runtime.progress import on_terminal
from jobs.runtime.weights import CachedWeights, cached_weights, fetch_weights, remove_weights, verify_weights
from scoring.weights.cache import cache_root, in_bytes


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
