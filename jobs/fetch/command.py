"""`privsieve fetch METADATA --out SHARDS`: image URLs become WebDataset shards, each URL with an outcome.

The work is in `jobs.fetch`.
"""

import shlex
from pathlib import Path

import click

from ingest.errors import IncompleteError, number_of
from jobs.console.command import Command
from jobs.console.option_types import FiniteRange, WholeRange
from jobs.console.terminal import write_line
from jobs.fetch.run import FetchRequest, FetchResources, FetchResult, run_fetch
from jobs.runtime.feedback import on_terminal


@click.command(
    cls=Command,
    headings={
        "Which images": ("--where", "--caption-keywords", "--limit", "--retry-failed"),
        "Requests": (
            *("--processes", "--threads", "--timeout", "--retries", "--max-bytes"),
            *("--user-agent-token", "--private-addresses"),
        ),
        "Where it runs": ("--environment", "--ray-address"),
    },
)
@click.argument("metadata")
@click.option("--out", "out_url", required=True, help="Folder or fsspec URL of the shards; continued if it exists.")
@click.option("--where", help="SQL condition over the metadata row, as: punsafe < 0.1 AND width >= 256")
@click.option("--caption-keywords", multiple=True, metavar="CLASS", help="Only captions with words of CLASS, as: card.")
@click.option("--limit", type=WholeRange(min=1), help="Fetch only the first so many selected rows.")
@click.option("--retry-failed", is_flag=True, help="Ask URLs again that failed for a reason that can change.")
@click.option("--images-per-shard", type=WholeRange(min=2), default=FetchRequest.images_per_shard, show_default=True)
@click.option("--processes", type=WholeRange(min=1), help="Shards at once; default one per CPU core.")
@click.option(
    "--threads",
    type=WholeRange(min=1),
    default=FetchResources.threads,
    show_default=True,
    help="Requests per process.",
)
@click.option(
    "--timeout",
    type=FiniteRange(min=0.1),
    default=FetchRequest.timeout_s,
    show_default=True,
    help="Seconds per URL, in all.",
)
@click.option(
    "--retries",
    type=WholeRange(min=0),
    default=FetchRequest.retries,
    show_default=True,
    help="How often a failed URL is tried again.",
)
@click.option(
    "--max-bytes", type=WholeRange(min=1), default=FetchRequest.max_bytes, show_default=True, help="Per image."
)
@click.option(
    "--user-agent-token", default=FetchRequest.user_agent_token, show_default=True, help="The name that hosts see."
)
@click.option("--private-addresses", is_flag=True, help="Also ask hosts in private networks and this machine.")
@click.option(
    "--environment", type=click.Path(path_type=Path), help="Folder for an environment with img2dataset; made once."
)
@click.option("--ray-address", help="Ray cluster to use; default RAY_ADDRESS, else one of its own.")
@click.option("--verbose", is_flag=True, help="Show what img2dataset says.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def fetch(
    metadata: str,
    out_url: str,
    where: str | None,
    caption_keywords: tuple[str, ...],
    limit: int | None,
    retry_failed: bool,
    images_per_shard: int,
    processes: int | None,
    threads: int,
    timeout: float,
    retries: int,
    max_bytes: int,
    user_agent_token: str,
    private_addresses: bool,
    environment: Path | None,
    ray_address: str | None,
    verbose: bool,
    quiet: bool,
) -> None:
    """Download the images of METADATA (Parquet, CSV or TSV: a file, folder, glob or fsspec URL) as shards.

    Images that ask not to be used for AI (X-Robots-Tag, TDM-Reservation) are not kept. Bytes are kept as they are.
    """
    request = FetchRequest(
        metadata=metadata,
        out=out_url,
        where=where,
        caption_keywords=caption_keywords,
        limit=limit,
        retry_failed=retry_failed,
        images_per_shard=images_per_shard,
        timeout_s=timeout,
        retries=retries,
        max_bytes=max_bytes,
        user_agent_token=user_agent_token,
        private_addresses=private_addresses,
    )
    resources = FetchResources(processes, threads, environment, ray_address, verbose)
    _print(run_fetch(request, resources, on_terminal(quiet)), metadata, out_url)


def _print(found: FetchResult, metadata: str, out_url: str) -> None:
    """IncompleteError if nothing was downloaded."""
    num_failed = found.num_urls - found.num_downloaded
    reasons = ", ".join(f"{reason} {count}" for reason, count in found.failures.items())
    if found.num_tried_again is not None:
        write_line(f"{number_of(found.num_tried_again, 'URL')} tried again")
    write_line(
        f"{number_of(found.num_urls, 'URL')}: {found.num_downloaded} downloaded, {num_failed} failed"
        f"{f' ({reasons})' if reasons else ''}"
    )
    if found.num_urls and not found.num_downloaded:
        again = f"privsieve fetch {shlex.quote(metadata)} --out {shlex.quote(out_url)} --retry-failed"
        raise IncompleteError(f"no image was downloaded; to try the failed URLs again: {again}")
    write_line(f"next: privsieve scan {shlex.quote(out_url)} --run RUN")
