"""The outcome of every selected URL: img2dataset's own rows, checked against the selection, as one table.

img2dataset writes `00000.tar`, `00000.parquet` and, last, `00000_stats.json` for each shard.
"""

import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import IncompleteError
from ingest.storage.place import Place
from reports.run.run_files import ReadOnlyFiles
from scoring.sql.names import file_list, literal

FETCHED = "fetch.parquet"
SELECTED = "selected"
STATS = "_stats.json"

STATUS_THAT_CAN_CHANGE = r"http_(408|425|429|5\d\d)"
"""Pattern of the status of servers that are busy or broken. `other` can change too, since its cause is unknown."""

RETRIES = "retries"
"""Folder of what `--retry-failed` fetched: `00001`, `00002`, …, each like the folder above it."""

RETRIED_KEY = "privsieve_first_key"
"""Column of a retry's selection: the key that the URL has in fetch.parquet."""

_SHARD = re.compile(r"(\d{5,})" + re.escape(STATS))


@dataclass(frozen=True)
class FailureReason:
    """Why a URL gave no image."""

    name: str
    pattern: str
    """Finds the reason in img2dataset's message, which is free text and is not kept."""

    meaning: str

    can_change: bool = False
    """Whether the same URL may give an image another time; then `--retry-failed` asks again."""


REASONS: tuple[FailureReason, ...] = (
    FailureReason(
        "opted_out", r"refused: opted_out|disallowed by X-Robots-Tag", "the answer asks not to be used like this"
    ),
    FailureReason("too_large", r"refused: too_large", "more bytes than --max-bytes"),
    FailureReason(
        "not_an_image", r"refused: not_an_image|[Ii]mage decoding error", "the bytes do not begin as an image file"
    ),
    FailureReason("empty", r"refused: empty", "the answer has no bytes"),
    FailureReason("private_address", r"refused: private_address", "the host is in a private network"),
    FailureReason("redirect_loop", r"infinite loop", "too many redirections"),
    FailureReason("timeout", r"timed out|[Tt]imeout", "no whole answer within --timeout", can_change=True),
    FailureReason("connection_refused", r"Connection refused", "nothing listens there", can_change=True),
    FailureReason(
        "unknown_host", r"Errno -\d+\]|getaddrinfo|Name or service", "the host has no address", can_change=True
    ),
    FailureReason("tls", r"SSL|CERTIFICATE|certificate", "the secure connection failed", can_change=True),
    FailureReason("not_http", r"unknown url type", "neither http nor https, or a redirection to such"),
    FailureReason(
        "bad_url",
        r"control characters|nonnumeric port|no host given|codec can't encode|label|Invalid|does not appear to be",
        "not a URL that can be asked for",
    ),
    FailureReason(
        "connection",
        r"reset|closed|unreachable|BadStatusLine|IncompleteRead|Errno|urlopen",
        "the connection broke",
        can_change=True,
    ),
)
"""Tried in this order. `http_404` and the like are the server's status; `no_url`: the row has none; else `other`."""


def finished_shards(out: Place) -> dict[str, int]:
    """Return shard name -> rows, for shards that img2dataset finished.

    Removes the mark of a damaged shard, so that it is fetched again.
    """
    finished: dict[str, int] = {}
    for name in out.names():
        match = _SHARD.fullmatch(name)
        if not match:
            continue
        num_rows = _num_rows(out, match[1])
        if num_rows is None:
            out.at(name).remove()
        else:
            finished[match[1]] = num_rows
    return finished


def num_newly_finished_rows(out: Place, known: dict[str, int]) -> int:
    """Add the shards that were finished meanwhile to `known`, and return their rows; for progress only."""
    before = sum(known.values())
    for name in out.names():
        match = _SHARD.fullmatch(name)
        if match and match[1] not in known:
            try:
                known[match[1]] = int(json.loads(out.at(name).read())["count"])
            except (ValueError, KeyError):
                continue  # is being written
    return sum(known.values()) - before


def _num_rows(out: Place, shard: str) -> int | None:
    """Return the number of rows of a finished shard; None if its files disagree."""
    try:
        announced = json.loads(out.at(f"{shard}{STATS}").read())["count"]
        with out.at(f"{shard}.parquet").open() as stream:
            num_rows = int(pq.ParquetFile(stream).metadata.num_rows)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None
    return num_rows if num_rows == announced and out.at(f"{shard}.tar").exists() else None


def reconcile(out: Place, num_selected: int, images_per_shard: int) -> Counter[str]:
    """Write fetch.parquet with exactly one row per selected URL. Return reason -> URLs, "" for downloaded.

    Finished retries below `out` are counted instead of the failures that they tried again. IncompleteError, and no
    table, if a URL has no row.
    """
    finished = finished_shards(out)
    num_rows = sum(finished.values())
    with duckdb.connect() as connection:
        if not out.is_local:
            connection.register_filesystem(ReadOnlyFiles(out.fs))
        rows = _outcomes(connection, out, sorted(finished)) if finished else None
        num_known = rows.aggregate("count(DISTINCT key)").fetchall()[0][0] if rows else 0
        if rows is None or not num_known == num_rows == num_selected:
            raise IncompleteError(
                f"{num_selected - num_known} of {num_selected} URLs have no row yet, in shards of {images_per_shard}; "
                "give the same command again to continue"
            )
        for retry in finished_retries(out):
            rows = _with_retry(connection, rows, out, retry)
        counts = rows.aggregate("reason, count(*)").fetchall()
        with out.at(FETCHED).create() as file:
            reader = rows.order("key").to_arrow_reader(10_000)
            with pq.ParquetWriter(file, reader.schema, compression="zstd") as writer:
                for batch in reader:
                    writer.write_batch(batch)
    return Counter({str(reason or ""): int(count) for reason, count in counts})


def _outcomes(connection: duckdb.DuckDBPyConnection, out: Place, shards: list[str]) -> duckdb.DuckDBPyRelation:
    """Return one row for each selected URL that has an outcome: key, url, shard, status, reason, sha256."""
    fetched = file_list(out.at(f"{shard}.parquet") for shard in shards)
    cases = " ".join(
        f"WHEN regexp_matches(error_message, {literal(r.pattern)}) THEN {literal(r.name)}" for r in REASONS
    )
    return connection.sql(
        f"""
        SELECT key, selected.url, parse_filename(fetched_from, true) || '.tar' AS shard,
            CASE fetched.status WHEN 'success' THEN 'downloaded' ELSE 'failed' END AS status,
            CASE WHEN fetched.status = 'success' THEN NULL
                WHEN trim(coalesce(selected.url, '')) = '' THEN 'no_url'
                WHEN error_message LIKE 'HTTP Error ___:%' AND error_message NOT LIKE '%infinite loop%'
                    THEN 'http_' || substring(error_message, 12, 3)
                {cases} ELSE 'other' END AS reason,
            fetched.sha256, CAST(NULL AS VARCHAR) AS key_in_shard
        FROM read_parquet({selected_files(out)}) AS selected
        JOIN read_parquet({fetched}, union_by_name = true, filename = 'fetched_from') AS fetched USING (key)
        """
    )


def selected_files(out: Place) -> str:
    """Return a SQL list of the files that hold the selected rows of a fetch, or of a retry."""
    folder = out.at(SELECTED)
    return file_list(folder.at(name) for name in folder.names() if name.endswith(".parquet"))


def finished_retries(out: Place) -> list[str]:
    """Return the names of the folders of finished retries below `RETRIES`, in order."""
    names = itertools.takewhile(
        lambda name: out.at(RETRIES, name, FETCHED).exists(), map(retry_name, itertools.count(1))
    )
    return list(names)


def retry_name(number: int) -> str:
    """Return the name of a retry's folder. number: from 1 on."""
    return f"{number:05d}"


def _with_retry(
    connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation, out: Place, name: str
) -> duckdb.DuckDBPyRelation:
    """Return the rows, with the outcome of the retry for those that it tried again."""
    retry = out.at(RETRIES, name)
    before, folder = f"before_{name}", f"{RETRIES}/{name}/"
    rows.create_view(before)
    return connection.sql(
        f"""
        WITH again AS (
            SELECT selected.{RETRIED_KEY} AS first_key, fetched.*
            FROM read_parquet({selected_files(retry)}) AS selected
            JOIN read_parquet({file_list([retry.at(FETCHED)])}) AS fetched USING (key)
        )
        SELECT {before}.key, {before}.url,
            CASE WHEN again.status = 'downloaded' THEN '{folder}' || again.shard ELSE {before}.shard END AS shard,
            coalesce(again.status, {before}.status) AS status,
            CASE WHEN again.status IS NULL THEN {before}.reason ELSE again.reason END AS reason,
            coalesce(again.sha256, {before}.sha256) AS sha256,
            CASE WHEN again.status = 'downloaded' THEN again.key ELSE {before}.key_in_shard END AS key_in_shard
        FROM {before} LEFT JOIN again ON again.first_key = {before}.key
        """
    )
