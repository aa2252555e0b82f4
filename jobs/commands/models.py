"""The verb `models`: the weights of models and adapters on this machine."""

from datetime import datetime

import click

from ingest.errors import IncompleteError, number_of
from jobs.console.commands import Commands
from jobs.console.request_options import QUIET
from jobs.console.terminal import write_line, write_rows, write_table
from jobs.runtime.cluster import command_session
from jobs.runtime.progress import on_terminal
from jobs.runtime.weights import cached_weights, damaged_weights, fetch_weights, remove_weights, verify_weights
from scoring.weights.files import in_bytes


@click.group(cls=Commands)
def models() -> None:
    """Fetch, list, check and remove the weights on this machine.

    Scans fetch what they need by themselves, once on each machine: names of the hub into its own cache (HF_HOME), URLs
    into PRIVSIEVE_CACHE. With PRIVSIEVE_OFFLINE=1 nothing is fetched. list, verify and rm are about URLs; for names of
    the hub, hf cache has commands of the same names.
    """


@models.command()
@click.argument("weights", nargs=-1, required=True, metavar="WEIGHTS...")
@QUIET
def fetch(weights: tuple[str, ...], quiet: bool) -> None:
    """Fetch models and adapters before a scan needs them.

    WEIGHTS are hub names (owner/name@revision) or URLs, as for scan --model and --adapter. Files that came whole are
    not fetched again. Prints the SHA-256 that run.json will have.

    Example: privsieve models fetch s3://bucket/models/Qwen3-VL-8B
    """
    with command_session():
        for asked in weights:
            fetched = fetch_weights(asked, on_terminal(quiet))
            write_line(f"{fetched.asked}: {in_bytes(fetched.num_bytes)}, sha256 {fetched.sha256}, in {fetched.folder}")


@models.command("list")
@click.option("--format", "output", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
def list_(output: str) -> None:
    """List what this machine holds of URLs, the last used first."""
    cached = cached_weights()
    if damaged := damaged_weights():
        write_line(damaged, to_stderr=True)
    states = ["whole" if weights.is_whole else "a part" for weights in cached]
    if output != "table":
        heads = ("weights", "folder", "num_bytes", "state", "last_used")
        rows = [
            (w.source, str(w.folder), w.num_bytes, state, w.last_used) for w, state in zip(cached, states, strict=True)
        ]
        write_rows(heads, rows, output)
        return
    if cached:
        shown = [
            (w.source, in_bytes(w.num_bytes), state, f"{datetime.fromtimestamp(w.last_used):%Y-%m-%d %H:%M}")
            for w, state in zip(cached, states, strict=True)
        ]
        write_table(("weights", "size", "state", "last used"), shown, {1})
    write_line(f"{number_of(len(cached), 'folder')}, {in_bytes(sum(weights.num_bytes for weights in cached))}")


@models.command()
@click.argument("weights", required=False)
def verify(weights: str | None) -> None:
    """Read every file and compare its hash with that of the file that was fetched.

    WEIGHTS: a URL; default all. Files that differ are fetched again when they are next needed. Exit code 1
    if there are any.
    """
    verified = verify_weights(weights)
    damaged = damaged_weights() if weights is None else None
    if not verified and damaged is None:
        write_line("there are no weights on this machine")
    for cached, changed in verified:
        if changed:
            write_line(f"problem  {cached.source}: {', '.join(changed)} was changed since it was fetched")
        else:
            write_line(f"{'ok      ' if cached.is_whole else 'a part  '} {cached.source}")
    num_changed = sum(bool(changed) for _, changed in verified)
    if num_changed:
        raise IncompleteError(f"{num_changed} of {len(verified)} were changed; they will be fetched again")
    if damaged is not None:
        raise IncompleteError(damaged)


@models.command()
@click.argument("weights")
def rm(weights: str) -> None:
    """Remove a model or an adapter from this machine, in all its versions.

    WEIGHTS: a URL.
    """
    for cached in remove_weights(weights):
        write_line(f"removed {cached.source}, {in_bytes(cached.num_bytes)}")
