"""The verb `models`: the weights of models and adapters on this machine."""

from datetime import datetime

import click

from ingest.errors import IncompleteError, number_of
from jobs.console.tables import write_rows, write_table
from jobs.console.terminal import write_line
from jobs.runtime.feedback import on_terminal
from jobs.runtime.last_word import command_session


@click.group()
def models() -> None:
    """Fetch, list, check and remove the weights in the cache of this machine.

    Scans fetch what they need by themselves, once on each machine. PRIVSIEVE_CACHE names the cache, PRIVSIEVE_CACHE_GB
    its limit; with PRIVSIEVE_OFFLINE=1 nothing is fetched.
    """


@models.command()
@click.argument("weights", nargs=-1, required=True, metavar="WEIGHTS...")
@click.option("--quiet", is_flag=True, help="No progress.")
def fetch(weights: tuple[str, ...], quiet: bool) -> None:
    """Fetch models and adapters before a scan needs them.

    WEIGHTS are hub names (owner/name@revision) or URLs, as of scan --model and --adapter. An interrupted download is
    continued. Prints the SHA-256 that run.json will have.

    Example: privsieve models fetch s3://bucket/models/Qwen3-VL-8B
    """
    from jobs.models.weights import fetch_weights
    from scoring.weights.cache import in_bytes

    with command_session():
        for one in weights:
            found = fetch_weights(one, on_terminal(quiet))
            write_line(f"{found.asked}: {in_bytes(found.num_bytes)}, sha256 {found.sha256}, in {found.folder}")


@models.command("list")
@click.option("--format", "output", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
def list_(output: str) -> None:
    """List what the cache holds, the last used first."""
    from jobs.models.weights import CachedWeights, cached_weights
    from scoring.weights.cache import cache_root, in_bytes

    def state(one: CachedWeights) -> str:
        if one.is_in_use:
            return "in use"
        return "whole" if one.is_whole else "a part"

    found = cached_weights()
    if output != "table":
        heads = ("weights", "source", "folder", "num_bytes", "state", "last_used")
        write_rows(
            heads, [(o.asked, o.source, str(o.folder), o.num_bytes, state(o), o.last_used) for o in found], output
        )
        return
    if found:
        rows = [
            (one.source, in_bytes(one.num_bytes), state(one), f"{datetime.fromtimestamp(one.last_used):%Y-%m-%d %H:%M}")
            for one in found
        ]
        write_table(("weights", "size", "state", "last used"), rows, {1})
    all_bytes = in_bytes(sum(one.num_bytes for one in found))
    write_line(f"{number_of(len(found), 'folder')}, {all_bytes}, in {cache_root()}")


@models.command()
@click.argument("weights", required=False)
def verify(weights: str | None) -> None:
    """Read every file in the cache and compare its SHA-256 with that of the file that was fetched.

    WEIGHTS: a hub name or URL; default all. Files that differ are fetched again when they are next needed. Exit code 1
    if there are any.
    """
    from jobs.models.weights import verify_weights

    found = verify_weights(weights)
    for one, changed in found:
        if changed:
            write_line(f"problem  {one.source}: {', '.join(changed)} was changed since it was fetched")
        elif not one.is_whole:
            what = f"{number_of(len(one.missing), 'file')} missing" if one.missing else "only its small files are here"
            write_line(f"part     {one.source}: {what}")
        else:
            write_line(f"ok       {one.source}")
    num_changed = sum(bool(changed) for _, changed in found)
    if num_changed:
        raise IncompleteError(f"{num_changed} of {len(found)} were changed; they will be fetched again")


@models.command()
@click.argument("weights")
def remove(weights: str) -> None:
    """Remove a model or an adapter from the cache, in all its versions.

    WEIGHTS: a hub name or URL. What a process uses is not removed.
    """
    from jobs.models.weights import remove_weights
    from scoring.weights.cache import in_bytes

    for one in remove_weights(weights):
        write_line(f"removed {one.source}, {in_bytes(one.num_bytes)}")
