"""What became of each selected URL: img2dataset's rows, counted against the selection, as one table. img2dataset writes
`00000.tar`, `00000.parquet` and, last, `00000_stats.json` for each shard."""

import json
import re
from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import IncompleteError
from ingest.storage.place import Place
from scoring.sql.names import file_list, literal
from scoring.sql.read_only_files import ReadOnlyFiles

FETCHED = "fetch.parquet"
SELECTED = "selected"
STATS = "_stats.json"

REASONS = {
    "opted_out": r"refused: opted_out|disallowed by X-Robots-Tag",
    "too_large": r"refused: too_large",
    "not_an_image": r"refused: not_an_image|[Ii]mage decoding error",
    "empty": r"refused: empty",
    "private_address": r"refused: private_address",
    "redirect_loop": r"infinite loop",
    "not_http": r"unknown url type|Redirection to url .* is not allowed",
    "http": r"^HTTP Error \d{3}:",
    "timeout": r"timed out|[Tt]imeout",
    "connection_refused": r"Connection refused",
    "unknown_host": r"Errno -\d+\]|getaddrinfo|Name or service",
    "tls": r"SSL|CERTIFICATE|certificate",
    "bad_url": r"control characters|nonnumeric port|no host given|can't encode|label|Invalid|does not appear to be",
    "connection": r"reset|closed|unreachable|BadStatusLine|IncompleteRead|Errno|urlopen",
}
"""Why a URL gave no image -> what finds it in img2dataset's message, which is free text and is not kept. Tried in this
order. `http` gets the server's status, as `http_404`; `no_url`: the row has none; else `other`."""


def finished_shards(out: Place) -> dict[str, int]:
    """Return shard name -> rows, for shards that img2dataset finished. Removes the mark of a damaged shard, so that it
    is fetched again."""
    finished: dict[str, int] = {}
    for name in out.names():
        if match := re.fullmatch(r"(\d{5,})" + re.escape(STATS), name):
            try:
                announced = json.loads(out.at(name).read())["count"]
                with out.at(f"{match[1]}.parquet").open() as stream:
                    num_rows = int(pq.ParquetFile(stream).metadata.num_rows)
                is_whole = num_rows == announced and out.at(f"{match[1]}.tar").exists()
            except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
                is_whole = False
            if is_whole:
                finished[match[1]] = num_rows
            else:
                out.at(name).remove()
    return finished


def write_outcomes(out: Place, num_selected: int) -> Counter[str]:
    """Write fetch.parquet with exactly one row per selected URL. Return reason -> URLs, "" for downloaded.
    IncompleteError, and no table, if a URL has no row."""
    finished = finished_shards(out)
    with duckdb.connect() as connection:
        if not out.is_local:
            connection.register_filesystem(ReadOnlyFiles(out.fs))
        rows = connection.sql(_outcomes(out, sorted(finished))) if finished else None
        num_known = rows.aggregate("count(DISTINCT key)").fetchall()[0][0] if rows else 0
        if rows is None or not num_known == sum(finished.values()) == num_selected:
            missing = f"{num_selected - num_known} of {num_selected} URLs have no row yet"
            raise IncompleteError(f"{missing}; give the same command again to continue")
        counts = rows.aggregate("reason, count(*)").fetchall()
        with out.at(FETCHED).create() as file:
            reader = rows.order("key").to_arrow_reader(10_000)
            with pq.ParquetWriter(file, reader.schema, compression="zstd") as writer:
                for batch in reader:
                    writer.write_batch(batch)
    return Counter({str(reason or ""): int(count) for reason, count in counts})


def _outcomes(out: Place, shards: list[str]) -> str:
    """Return a query for the selected rows that have an outcome, with shard, status, reason and sha256."""
    fetched = file_list(out.at(f"{shard}.parquet") for shard in shards)
    cases = " ".join(
        f"WHEN regexp_matches(error_message, {literal(pattern)}) THEN "
        + ("'http_' || substring(error_message, 12, 3)" if name == "http" else literal(name))
        for name, pattern in REASONS.items()
    )
    return f"""
        SELECT key, url, * EXCLUDE (
                key, url, status, error_message, width, height, original_width, original_height, sha256, fetched_from
            ), parse_filename(fetched_from, true) || '.tar' AS shard,
            CASE status WHEN 'success' THEN 'downloaded' ELSE 'failed' END AS status,
            CASE WHEN status = 'success' THEN NULL
                WHEN trim(coalesce(url, '')) = '' THEN 'no_url' {cases} ELSE 'other' END AS reason, sha256
        FROM read_parquet({fetched}, union_by_name = true, filename = 'fetched_from')
        """
