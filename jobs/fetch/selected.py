"""The selected rows next to the shards: made once, and used again where a fetch continues."""

import os
import posixpath
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from pydantic import BaseModel, ConfigDict

from ingest.errors import RunError, SourceError, StorageError
from ingest.storage.place import Place
from jobs.fetch.outcome import SELECTED
from jobs.fetch.selection import open_metadata, selection_sql, write_selection
from scoring.runs.differences import differences
from scoring.runs.layout import RUN_LEASE
from scoring.runs.lease import lease

RECORD = "fetch.json"


class FetchRecord(BaseModel):
    """Everything that decides which bytes the shards hold. Two fetches into one folder must agree in all of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    privsieve: str
    """Version."""

    img2dataset: str
    """Version."""

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
    """RunError if another fetch works in this folder: both would write the same shards.

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
    """StorageError if `out` holds files but no fetch."""
    if not out.exists() or out.at(SELECTED, RECORD).exists():
        return
    if not out.is_dir() or any(posixpath.basename(entry["name"]) != SELECTED for entry in out.entries()):
        raise StorageError(f"{out_url} holds other files and no fetch; use a new folder for --out")


def selected_rows(out: Place, out_url: str, metadata_url: str, record: FetchRecord) -> SelectionRecord:
    """The selection in `out` if it was made with the same settings, else a new one. RunError if they differ."""
    folder = out.at(SELECTED)
    if not folder.at(RECORD).exists():
        return _select(folder, metadata_url, record)
    before = recorded(folder)
    different = differences(before.settings, record)
    if different:
        raise RunError(f"{out_url} was fetched with other settings: {different}; use another --out")
    return before


def recorded(folder: Place) -> SelectionRecord:
    """What the record in a folder of selected rows says. RunError if it is damaged."""
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
    """Removes the files of a selection."""
    for name in selected.names():
        if name != RUN_LEASE:
            selected.at(name).remove()
