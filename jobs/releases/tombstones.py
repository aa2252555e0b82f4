"""`removed.parquet`: which pictures were taken down from a release, when and why, and nothing of what they showed."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import LabelsError, PrivsieveError
from ingest.formats.released import REMOVED
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import Place
from scoring.labels.label_files import bounded_table

Why = Literal["objection", "erasure", "copyright", "safety", "other"]

REMOVED_SCHEMA = pa.schema(
    {
        "shard": pa.string(),
        "key": pa.string(),
        "sha256": pa.string(),
        "released_sha256": pa.string(),
        "received": pa.date32(),
        "done": pa.date32(),
        "why": pa.string(),
        "by": pa.string(),
    }
)
"""One row per removed picture. `sha256`: of the picture as it was scanned. `received`, `done`: days on which the
request came and was carried out; `received` is null if it was not given, and so is `why`, of `Why`. `by`: what the
request named, such as `url`. No hash of a URL: URLs of public tables can be hashed, too, so it would lead to the
picture."""

_SHA256 = re.compile("[0-9a-f]{64}")


def tombstones_of(content: bytes, url: str) -> list[dict[str, Any]]:
    """Return the rows of an untrusted `removed.parquet`. PrivsieveError if it is something else."""
    wrong = PrivsieveError(f"{url} is Parquet, and not the {REMOVED} of a release, or it is damaged")
    try:
        schema = pq.read_schema(pa.BufferReader(content))
        if not schema.equals(REMOVED_SCHEMA):
            raise wrong
        rows: list[dict[str, Any]] = bounded_table(content, url, schema.names).to_pylist()
    except (pa.ArrowException, LabelsError, OSError, ValueError):
        raise wrong from None
    if any(_SHA256.fullmatch(row["released_sha256"] or "") is None for row in rows):
        raise wrong
    if any(row["why"] not in (None, *get_args(Why)) for row in rows):
        raise wrong
    return rows


def write_tombstones(root: Place, staged: Place, removed: Sequence[Mapping[str, Any]]) -> str:
    """Write the tombstones of a release and those of this takedown, and return the hash of the file. removed: rows of
    this takedown, without `done`."""
    rows = tombstones_of(root.at(REMOVED).read(), root.at(REMOVED).path) if root.at(REMOVED).exists() else []
    rows += [{**row, "done": date.today()} for row in removed]
    return write_checked(staged.at(REMOVED), pa.Table.from_pylist(rows, REMOVED_SCHEMA))
