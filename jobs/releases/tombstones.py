"""Which pictures were taken down from a release, when and why, and nothing of what they showed: `removed.parquet`, for
holders of older copies, and the same with the hashes of the scanned pictures for whoever keeps the release."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import LabelsError, PrivsieveError
from ingest.formats.released import REMOVED, TAKEN_DOWN
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import Place
from jobs.releases.files import REMOVED_SCHEMA, TAKEN_DOWN_SCHEMA
from scoring.labels.label_files import bounded_table

Why = Literal["objection", "erasure", "copyright", "safety", "other"]

OF_PICTURE = ("shard", "key", "sha256")
"""Columns that name a picture, in `decisions.parquet` and in `taken_down.parquet`."""

Tombstones = Sequence[Mapping[str, Any]]
"""Rows of `removed.parquet` or `taken_down.parquet`."""

_SHA256 = re.compile("[0-9a-f]{64}")


def tombstones_of(content: bytes, url: str) -> list[dict[str, Any]]:
    """Return the rows of an untrusted `removed.parquet` or `taken_down.parquet`. PrivsieveError if it is something
    else."""
    wrong = PrivsieveError(f"{url} is Parquet, and not the {REMOVED} of a release, or it is damaged")
    try:
        schema = pq.read_schema(pa.BufferReader(content))
        if schema not in (REMOVED_SCHEMA, TAKEN_DOWN_SCHEMA):
            raise wrong
        rows: list[dict[str, Any]] = bounded_table(content, url, schema.names).to_pylist()
    except (pa.ArrowException, LabelsError, OSError, ValueError):
        raise wrong from None
    if any(_SHA256.fullmatch(row["released_sha256"] or "") is None for row in rows):
        raise wrong
    if any(row["why"] not in (None, *get_args(Why)) for row in rows):
        raise wrong
    return rows


def write_tombstones(root: Place, staged: Place, removed: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write the tombstones of a release and those of this takedown, and return each file -> its hash. removed: rows of
    this takedown, without `done`."""
    before = root.at(TAKEN_DOWN)
    rows = tombstones_of(before.read(), before.path) if before.exists() else []
    rows += [{**row, "done": date.today()} for row in removed]
    table = pa.Table.from_pylist(rows, TAKEN_DOWN_SCHEMA)
    tables = {REMOVED: table.select(REMOVED_SCHEMA.names), TAKEN_DOWN: table}
    return {name: write_checked(staged.at(name), rows) for name, rows in tables.items()}
