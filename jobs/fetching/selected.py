"""The selected rows next to the shards: made once, and used again where a fetch continues.

`--retry-failed` fetches those URLs of a finished fetch again that failed for a reason that can change. A retry is a
fetch of its own below `OUT/retries/`. Its shards are new; shards that may have been scanned stay as they are.
"""

import os
import posixpath
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import duckdb
from pydantic import BaseModel, ConfigDict

from ingest.errors import RunError, SourceError, StorageError
from ingest.storage.place import Place
from jobs.fetching.outcome import (
    FETCHED,
    REASONS,
    RETRIED_KEY,
    RETRIES,
    SELECTED,
    STATUS_THAT_CAN_CHANGE,
    finished_retries,
    retry_name,
    selected_files,
)
from jobs.fetching.url_tables import open_metadata, selection_sql, write_rows, write_selection
from reports.run.run_files import ReadOnlyFiles
from scoring.runs import RUN_LEASE
from scoring.runs.lease import lease
from scoring.runs.record import differences
from scoring.sql.names import file_list, literal

RECORD = "fetch.json"


class FetchRecord(BaseModel):
    """Everything that decides which bytes the shards hold. Two fetches into one folder must agree in all of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    privsieve: str
    img2dataset: str
    """Versions."""

    metadata: str
    where: str | None
    caption_keywords: tuple[str, ...]
    limit: int | None
    images_per_shard: int
    timeout_seconds: float
    retries: int
    max_bytes: int
    user_agent_token: str
    private_addresses: bool


class SelectionRecord(BaseModel):
    """Written after the files of the selection: it says that they are complete."""

    settings: FetchRecord

    num_rows: int
    """In all files together."""

    columns: tuple[str, ...]


@contextmanager
def only_fetch(out: Place, out_url: str) -> Iterator[None]:
    """Raise RunError if another fetch works in this folder: both would write the same shards.

    Folders that hold nothing after the block are removed again.
    """
    new_folders = [] if out.exists() else [out]
    with ExitStack() as stack:
        try:
            stack.enter_context(lease(out.at(SELECTED, RUN_LEASE), out_url, takeover=None))
        except RunError:
            raise RunError(f"{out_url} is being fetched by another privsieve; wait for it, or stop it") from None
        try:
            yield
        finally:
            stack.close()
            for folder in [out.at(SELECTED), *new_folders] if out.is_local else []:
                with suppress(OSError):
                    os.rmdir(folder.path)  # fails unless the folder is empty


def refuse_other_files(out: Place, out_url: str) -> None:
    """Raise StorageError if `out` holds files but no fetch."""
    if not out.exists() or out.at(SELECTED, RECORD).exists():
        return
    if not out.is_dir() or any(posixpath.basename(entry["name"]) != SELECTED for entry in out.entries()):
        raise StorageError(f"{out_url} holds other files and no fetch; use a new folder for --out")


def selected_rows(out: Place, out_url: str, metadata_url: str, record: FetchRecord) -> SelectionRecord:
    """Return the selection in `out` if it was made with the same settings, else a new one. RunError if they differ."""
    folder = out.at(SELECTED)
    if not folder.at(RECORD).exists():
        return _select(folder, metadata_url, record)
    before = recorded(folder)
    different = differences(before.settings, record)
    if different:
        raise RunError(f"{out_url} was fetched with other settings: {different}; use another --out")
    return before


def recorded(folder: Place) -> SelectionRecord:
    """Read the record in a folder of selected rows. RunError if it is damaged."""
    try:
        return SelectionRecord.model_validate_json(folder.at(RECORD).read())
    except ValueError:
        raise RunError(f"{folder.path}/{RECORD} is damaged or of another version; fetch into a new folder") from None


def _select(folder: Place, metadata_url: str, record: FetchRecord) -> SelectionRecord:
    metadata = open_metadata(metadata_url)
    sql = selection_sql(metadata, record.where, record.caption_keywords, record.limit)
    clear(folder)
    try:
        num_rows = write_selection(metadata, sql, folder, record.images_per_shard)
        if num_rows == 0:
            raise SourceError(f"no row of {metadata_url} is selected: nothing to fetch")
        new = SelectionRecord(settings=record, num_rows=num_rows, columns=tuple(metadata.written.values()))
        folder.at(RECORD).write((new.model_dump_json(indent=2) + "\n").encode())
    except BaseException:
        clear(folder)
        raise
    return new


def clear(selected: Place) -> None:
    """Remove the files of a selection."""
    for name in selected.names():
        if name != RUN_LEASE:
            selected.at(name).remove()


def retry_of(out: Place, out_url: str, record: FetchRecord) -> tuple[Place, SelectionRecord] | None:
    """Return the folder of the retry and its rows: the unfinished one, else a new one. None if nothing can change.

    RunError if the fetch is not finished, or was made with other settings than `record`. How often and how long a URL
    is tried may differ.
    """
    if not out.at(SELECTED, RECORD).exists():
        raise RunError(f"{out_url} holds no fetch: fetch first, without --retry-failed")
    before = recorded(out.at(SELECTED))
    same = {"timeout_seconds": record.timeout_seconds, "retries": record.retries}
    different = differences(before.settings.model_copy(update=same), record)
    if different:
        raise RunError(f"{out_url} was fetched with other settings: {different}; give the same with --retry-failed")
    if not out.at(FETCHED).exists():
        raise RunError(f"{out_url} is not finished: give the same command without --retry-failed to continue it")
    folder = out.at(RETRIES, retry_name(len(finished_retries(out)) + 1))
    chosen = folder.at(SELECTED)
    if chosen.at(RECORD).exists():
        return folder, recorded(chosen)
    num_rows = _select_failed(out, chosen, record.images_per_shard)
    if not num_rows:
        return None
    new = SelectionRecord(settings=record, num_rows=num_rows, columns=(RETRIED_KEY, *before.columns))
    chosen.at(RECORD).write((new.model_dump_json(indent=2) + "\n").encode())
    return folder, new


def _select_failed(out: Place, chosen: Place, images_per_shard: int) -> int:
    """Write the rows of the URLs that are tried again. Return how many there are."""
    clear(chosen)
    reasons = ", ".join(literal(reason.name) for reason in REASONS if reason.can_change)
    with duckdb.connect() as connection:
        if not out.is_local:
            connection.register_filesystem(ReadOnlyFiles(out.fs))
        try:
            rows = connection.sql(
                f"""
                SELECT selected.key AS {RETRIED_KEY}, selected.* EXCLUDE (key)
                FROM read_parquet({selected_files(out)}) AS selected
                JOIN read_parquet({file_list([out.at(FETCHED)])}) AS fetched USING (key)
                WHERE fetched.reason IN ({reasons}, 'other')
                    OR regexp_full_match(fetched.reason, {literal(STATUS_THAT_CAN_CHANGE)})
                ORDER BY selected.key
                """
            )
            return write_rows(rows, chosen, images_per_shard)
        except duckdb.Error as error:
            raise StorageError(
                f"{out.path}/{FETCHED} cannot be read ({type(error).__name__}); give the same command without "
                "--retry-failed to write it again"
            ) from None
