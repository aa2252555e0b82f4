"""The images that metadata names become WebDataset shards, each URL with an outcome.

DuckDB selects rows of the metadata; img2dataset, in an environment of its own, downloads them on Ray; its rows are
checked against the selection and become `fetch.parquet`, which is written last.
"""

import os
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from ingest import __version__
from ingest.errors import PrivsieveError
from ingest.storage.place import Place, place
from jobs.fetch.download import LOCAL, Workers, download
from jobs.fetch.environment import IMG2DATASET, default_folder, python_of, requirements
from jobs.fetch.outcome import FETCHED, SELECTED, finished_shards, reconcile
from jobs.fetch.retrying import retry_of
from jobs.fetch.selected import FetchRecord, SelectionRecord, only_fetch, recorded, refuse_other_files, selected_rows
from jobs.runtime.feedback import SILENT, Feedback


@dataclass(frozen=True)
class FetchRequest:
    metadata: str
    """Parquet, CSV or TSV: a file, folder, glob or fsspec URL."""

    out: str
    """Folder or fsspec URL of the shards; a fetch that lies there is continued."""

    where: str | None = None
    """SQL condition over the metadata row; None selects all rows."""

    caption_keywords: tuple[str, ...] = ()
    """Classes of words, one of which the caption must hold; empty for any caption."""

    limit: int | None = None
    """Only the first rows that are selected."""

    images_per_shard: int = 1_000

    timeout_s: float = 10
    """For each URL, redirections included."""

    retries: int = 0
    """After any failure of a URL."""

    max_bytes: int = 20_000_000
    """Of one image."""

    user_agent_token: str = "privsieve"
    """The name that hosts see."""

    retry_failed: bool = False
    """Whether URLs of a finished fetch are tried again that failed for a reason that can change."""

    private_addresses: bool = False
    """Whether hosts in private networks may be asked."""


@dataclass(frozen=True)
class FetchResources:
    """What does the work. Changes nothing in the shards."""

    processes: int | None = None
    """Shards at the same time; None for one per CPU core. For one machine only."""

    threads: int = 16
    """Requests at the same time, in each process."""

    environment: Path | None = None
    """Where img2dataset is installed, once; None for a folder of the user's cache."""

    ray_address: str | None = None
    """Of a cluster; None for RAY_ADDRESS, else a Ray of its own."""

    shows_messages: bool = False
    """Whether img2dataset's own messages go to stderr."""


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
    """Selects, downloads and reconciles. IncompleteError if URLs are left: the same request continues."""
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
    """Downloads what is left of a selection; reason -> URLs, "" for downloaded."""
    done = finished_shards(out)
    if sum(done.values()) < selected.num_rows:
        out.at(FETCHED).remove()  # it would say that everything is done
        folder = resources.environment or default_folder()
        python = python_of(folder.absolute(), requirements(out), feedback.notice)
        address = resources.ray_address or os.environ.get("RAY_ADDRESS") or LOCAL
        workers = Workers(address, resources.processes, resources.threads, resources.shows_messages)
        download(python, out, selected, done, workers, feedback)
    return reconcile(out, selected.num_rows, selected.settings.images_per_shard)


def _result(outcomes: Counter[str]) -> FetchResult:
    failures = {reason: count for reason, count in outcomes.most_common() if reason}
    return FetchResult(outcomes.total(), outcomes[""], failures)


def _record(request: FetchRequest) -> FetchRecord:
    return FetchRecord(
        privsieve=__version__,
        img2dataset=IMG2DATASET,
        metadata=request.metadata if "://" in request.metadata else os.path.abspath(request.metadata),
        where=request.where,
        caption_keywords=tuple(sorted(set(request.caption_keywords))),
        limit=request.limit,
        images_per_shard=request.images_per_shard,
        timeout_seconds=request.timeout_s,
        retries=request.retries,
        max_bytes=request.max_bytes,
        user_agent_token=request.user_agent_token,
        private_addresses=request.private_addresses,
    )
