"""`privsieve fetch METADATA --out SHARDS`: image URLs become WebDataset shards, each URL with an outcome."""

import os
import posixpath
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import duckdb
import pyarrow as pa
from pydantic import Field

from ingest import __version__
from ingest.errors import PrivsieveError, RunError, SourceError, StorageError
from ingest.storage.place import Place, place
from ingest.storage.removal import remove_tree
from jobs.console.requests import Count, Name, Option, Url, checked_request
from jobs.fetching.download import (
    IMG2DATASET,
    REQUESTS,
    FetchResources,
    Selection,
    default_folder,
    download,
    ensured_python,
)
from jobs.fetching.outcome import FETCHED, SELECTED, finished_shards, write_outcomes
from jobs.runtime.progress import SILENT, Feedback
from scoring.runs.lease import lease
from scoring.runs.record import differences
from scoring.sql.url_tables import open_metadata, selected_rows, unreadable, write_rows

RECORD = "fetch.json"
LEASE = "fetch.lease"  # not .json: img2dataset takes such files for marks of shards
WHICH = Option(heading="Which images")


@checked_request
class FetchRequest:
    metadata: Annotated[Url, Option(argument="METADATA")]
    """Parquet, CSV or TSV: a file, folder, glob or fsspec URL."""

    out: Url
    """Folder or fsspec URL of the shards; continued if it exists."""

    where: Annotated[Name | None, WHICH] = None
    """SQL condition over the metadata row, as: punsafe < 0.1 AND width >= 256"""

    limit: Annotated[Count | None, WHICH] = None
    """Fetch only this many of the selected rows, from the first."""

    images_per_shard: Annotated[int, Field(ge=2, lt=2**63)] = 1_000
    """Images in a shard."""

    timeout_seconds: Annotated[float, Field(ge=0.1, allow_inf_nan=False), Option("--timeout"), REQUESTS] = 10
    """Seconds per URL, redirections included."""

    max_bytes: Annotated[Count, REQUESTS] = 20_000_000
    """Bytes per image."""

    user_agent_token: Annotated[str, REQUESTS] = "privsieve"
    """The name that hosts see."""

    private_addresses: Annotated[bool, REQUESTS] = False
    """Also ask hosts in private networks and this machine."""


@dataclass(frozen=True)
class FetchResult:
    num_urls: int
    """All that were selected."""

    num_downloaded: int

    failures: dict[str, int]
    """Reason -> URLs, the most frequent first."""


def run_fetch(
    request: FetchRequest,
    resources: FetchResources | None = None,
    feedback: Feedback = SILENT,
    may_install: Callable[[str], bool] = lambda what: True,
) -> FetchResult:
    """Select, download and write the outcomes. IncompleteError if URLs are left: the same request continues.

    may_install: gets what the first fetch installs and where; EngineError if it returns False.
    """
    resources = resources or FetchResources()
    if not re.fullmatch(r"[\w.-]+", request.user_agent_token, re.ASCII):
        raise PrivsieveError("--user-agent-token is one word of letters, digits, dots and dashes")
    out = place(request.out)
    with _only_fetch(out, request.out):
        selection = _selection(out, request)
        num_done = sum(finished_shards(out).values())
        if num_done < selection.num_rows:
            out.at(FETCHED).remove()  # it would say that everything is done
            folder = resources.environment or default_folder()
            python = ensured_python(folder.absolute(), out, may_install)
            download(python, out, selection, num_done, resources, feedback)
        outcomes = write_outcomes(out, selection.num_rows)
    failures = {reason: count for reason, count in outcomes.most_common() if reason}
    return FetchResult(outcomes.total(), outcomes[""], failures)


@contextmanager
def _only_fetch(out: Place, out_url: str) -> Iterator[None]:
    """Raise RunError if another fetch works in this folder, and StorageError if it holds other files."""
    is_new = not out.exists()
    is_fetch = is_new or out.at(SELECTED, RECORD).exists()
    expected = {SELECTED, LEASE}
    if not is_fetch and (not out.is_dir() or {posixpath.basename(entry["name"]) for entry in out.entries()} - expected):
        raise StorageError(f"{out_url} holds other files and no fetch; use a new folder for --out")
    try:
        with lease(out.at(LEASE), out_url, takeover=None):
            yield
    finally:
        if is_new and out.is_local:
            with suppress(OSError):
                os.rmdir(out.path)  # fails unless the folder is empty


def _selection(out: Place, request: FetchRequest) -> Selection:
    """Return the selection in `out` if it was made with the same settings, else a new one. RunError if they differ."""
    settings = asdict(request) | {"privsieve": __version__, "img2dataset": IMG2DATASET}
    settings["metadata"] = request.metadata if "://" in request.metadata else os.path.abspath(request.metadata)
    del settings["out"]
    folder = out.at(SELECTED)
    if not folder.at(RECORD).exists():
        return _select(folder, request, settings)
    try:
        before = Selection.model_validate_json(folder.at(RECORD).read())
    except ValueError:
        raise RunError(f"{folder.path}/{RECORD} is damaged or of another version; fetch into a new folder") from None
    if different := differences(before, before.model_copy(update={"settings": settings})):
        raise RunError(f"{request.out} was fetched with other {different}; use another --out")
    return before


def _select(folder: Place, request: FetchRequest, settings: dict[str, Any]) -> Selection:
    metadata = open_metadata(request.metadata)
    rows = selected_rows(metadata, request.where, request.limit)
    remove_tree(folder)
    try:
        num_rows = write_rows(rows, folder)
        if num_rows == 0:
            raise SourceError(f"no row of {request.metadata} is selected: nothing to fetch")
        selection = Selection(settings=settings, num_rows=num_rows, columns=tuple(metadata.written.values()))
        folder.at(RECORD).write((selection.model_dump_json(indent=2) + "\n").encode())
    except BaseException as error:
        remove_tree(folder)
        if isinstance(error, (duckdb.Error, pa.ArrowException, OSError)):
            raise unreadable("the metadata", error) from None
        raise
    return selection
