"""`--retry-failed`: URLs of a finished fetch that failed for a reason that can change are fetched again, next to it.

A retry is a fetch of its own below `OUT/retries/`: its shards are new, and those that may be scanned already stay as
they are.
"""

import duckdb

from ingest.errors import RunError, StorageError
from ingest.storage.place import Place
from jobs.fetch.outcome import (
    FETCHED,
    REASONS,
    RETRIED_KEY,
    RETRIES,
    SELECTED,
    STATUS_THAT_CAN_CHANGE,
    finished_retries,
    retry_name,
)
from jobs.fetch.selected import RECORD, FetchRecord, SelectionRecord, clear, recorded
from jobs.fetch.selection import write_rows
from reports.run.run_files import ReadOnlyFiles
from scoring.runs.differences import differences
from scoring.sql.names import file_list, literal


def retry_of(out: Place, out_url: str, record: FetchRecord) -> tuple[Place, SelectionRecord] | None:
    """The folder of the retry and its rows: the one that was not finished, else a new one. None: nothing can change.

    RunError where the fetch is not finished, or was made with other settings than `record`. How often and how long a
    URL is tried may differ.
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
    num_rows = _select(out, chosen, record.images_per_shard)
    if not num_rows:
        return None
    new = SelectionRecord(settings=record, num_rows=num_rows, columns=(RETRIED_KEY, *before.columns))
    chosen.at(RECORD).write((new.model_dump_json(indent=2) + "\n").encode())
    return folder, new


def _select(out: Place, chosen: Place, images_per_shard: int) -> int:
    """Writes the rows of the URLs that are tried again; returns how many there are."""
    clear(chosen)
    selected = file_list(out.at(SELECTED, name) for name in out.at(SELECTED).names() if name.endswith(".parquet"))
    reasons = ", ".join(literal(reason.name) for reason in REASONS if reason.can_change)
    with duckdb.connect() as connection:
        if not out.is_local:
            connection.register_filesystem(ReadOnlyFiles(out.fs))
        try:
            rows = connection.sql(
                f"""
                SELECT selected.key AS {RETRIED_KEY}, selected.* EXCLUDE (key)
                FROM read_parquet({selected}) AS selected
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
