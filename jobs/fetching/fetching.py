"""`privsieve fetch METADATA --out SHARDS`: image URLs become WebDataset shards, each URL with an outcome.

The work is in `jobs.fetching`.
"""

import os
import re
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import click
from pydantic import Field, InstanceOf

from ingest import __version__
from ingest.errors import PrivsieveError
from ingest.storage.place import Place, place
from jobs.console.requests import Count, Name, Option, Url, checked_request
from jobs.fetching.download import IMG2DATASET, LOCAL, Workers, default_folder, download, ensured_python, requirements
from jobs.fetching.outcome import FETCHED, SELECTED, finished_shards, reconcile
from jobs.fetching.selected import (
    FetchRecord,
    SelectionRecord,
    only_fetch,
    recorded,
    refuse_other_files,
    retry_of,
    selected_rows,
)
from jobs.runtime.progress import SILENT, Feedback

WHICH = Option(heading="Which images")


REQUESTS = Option(heading="Requests")


WHERE = Option(heading="Where it runs")


@checked_request
class FetchRequest:
    metadata: Annotated[Url, Option(argument="METADATA")]
    """Parquet, CSV or TSV: a file, folder, glob or fsspec URL."""

    out: Url
    """Folder or fsspec URL of the shards; continued if it exists."""

    where: Annotated[Name | None, WHICH] = None
    """SQL condition over the metadata row, as: punsafe < 0.1 AND width >= 256"""

    caption_keywords: Annotated[tuple[str, ...], Option(metavar="CLASS"), WHICH] = ()
    """Only captions with words of CLASS, as: card."""

    limit: Annotated[Count | None, WHICH] = None
    """Fetch only this many of the selected rows, from the first."""

    retry_failed: Annotated[bool, WHICH] = False
    """Ask URLs again that failed for a reason that can change."""

    images_per_shard: Annotated[int, Field(ge=2, lt=2**63)] = 1_000
    """Images in a shard."""

    timeout_seconds: Annotated[float, Field(ge=0.1, allow_inf_nan=False), Option("--timeout"), REQUESTS] = 10
    """Seconds per URL, redirections included."""

    retries: Annotated[int, Field(ge=0, lt=2**63), REQUESTS] = 0
    """How often a failed URL is tried again."""

    max_bytes: Annotated[Count, REQUESTS] = 20_000_000
    """Bytes per image."""

    user_agent_token: Annotated[str, REQUESTS] = "privsieve"
    """The name that hosts see."""

    private_addresses: Annotated[bool, REQUESTS] = False
    """Also ask hosts in private networks and this machine."""


@checked_request
class FetchResources:
    """What does the work. Changes nothing in the shards."""

    processes: Annotated[Count | None, REQUESTS] = None
    """Shards at once; default one per CPU core."""

    threads: Annotated[Count, REQUESTS] = 16
    """Requests per process."""

    environment: Annotated[InstanceOf[Path] | None, Option(kind=click.Path(path_type=Path)), WHERE] = None
    """Folder for an environment with img2dataset, 1.1 GB; made once."""

    ray_address: Annotated[str | None, WHERE] = None
    """Ray cluster to use; default RAY_ADDRESS, else one of its own."""

    verbose: bool = False
    """Show what img2dataset says."""


@dataclass(frozen=True)
class FetchResult:
    num_urls: int
    """All that were selected."""

    num_downloaded: int

    failures: dict[str, int]
    """Reason -> URLs, the most frequent first."""

    num_tried_again: int | None = None
    """URLs that `FetchRequest.retry_failed` asked again; None without it."""


def run_fetch(
    request: FetchRequest, resources: FetchResources | None = None, feedback: Feedback = SILENT
) -> FetchResult:
    """Select, download and reconcile. IncompleteError if URLs are left: the same request continues."""
    resources = resources or FetchResources()
    address = resources.ray_address or os.environ.get("RAY_ADDRESS") or LOCAL
    if resources.processes is not None and address != LOCAL:
        raise PrivsieveError("--processes is for one machine: on a cluster every free CPU takes a shard")
    if not re.fullmatch(r"[\w.-]+", request.user_agent_token, re.ASCII):
        raise PrivsieveError("--user-agent-token is one word of letters, digits, dots and dashes")
    record = _record(request)
    out = place(request.out)
    refuse_other_files(out, request.out)
    with only_fetch(out, request.out):
        if not request.retry_failed:
            selected = selected_rows(out, request.out, request.metadata, record)
            return _result(_downloaded(out, selected, resources, feedback))
        retry = retry_of(out, request.out, record)
        if retry is not None:
            _downloaded(*retry, resources, feedback)
        first = recorded(out.at(SELECTED))
        outcomes = reconcile(out, first.num_rows, first.settings.images_per_shard)
        return replace(_result(outcomes), num_tried_again=retry[1].num_rows if retry else 0)


def _downloaded(out: Place, selected: SelectionRecord, resources: FetchResources, feedback: Feedback) -> Counter[str]:
    """Download what is left of a selection. Return reason -> URLs, "" for downloaded."""
    done = finished_shards(out)
    if sum(done.values()) < selected.num_rows:
        out.at(FETCHED).remove()  # it would say that everything is done
        folder = resources.environment or default_folder()
        python = ensured_python(folder.absolute(), requirements(out), feedback.notice)
        address = resources.ray_address or os.environ.get("RAY_ADDRESS") or LOCAL
        workers = Workers(address, resources.processes, resources.threads, resources.verbose)
        download(python, out, selected, done, workers, feedback)
    return reconcile(out, selected.num_rows, selected.settings.images_per_shard)


def _result(outcomes: Counter[str]) -> FetchResult:
    failures = {reason: count for reason, count in outcomes.most_common() if reason}
    return FetchResult(outcomes.total(), outcomes[""], failures)


def _record(request: FetchRequest) -> FetchRecord:
    """Return the record, which refuses a field of the request that it does not have."""
    fields = {name: value for name, value in asdict(request).items() if name not in ("out", "retry_failed")}
    fields["metadata"] = request.metadata if "://" in request.metadata else os.path.abspath(request.metadata)
    fields["caption_keywords"] = tuple(sorted(set(request.caption_keywords)))
    return FetchRecord(privsieve=__version__, img2dataset=IMG2DATASET, **fields)
