"""`removed.parquet` of a release: which pictures were removed from it, when and why; nothing of what they showed.

Holders of older copies use it to find these pictures (`privsieve apply-removals`).
"""

import re
from collections.abc import Sequence
from datetime import date
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import LabelsError, PrivsieveError
from ingest.formats.released import REMOVED
from ingest.storage.place import Place
from scoring.labels.parquet_file import bounded_table

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
"""`sha256`: of the picture as it was scanned. `received`, `done`: days on which the request came and was carried out;
`received` is null if it was not given, and so is `why`, of `Why`. `by`: what the request named, such as `url`."""

_MAGIC = b"PAR1"
_SHA256 = re.compile("[0-9a-f]{64}")


def is_tombstones(content: bytes) -> bool:
    """Return whether a list is a Parquet file and no text."""
    return content.startswith(_MAGIC)


def tombstones_of(content: bytes, url: str) -> list[dict[str, Any]]:
    """Return the rows of an untrusted `removed.parquet`. PrivsieveError if it is something else."""
    wrong = PrivsieveError(f"{url} is Parquet, and not the {REMOVED} of a release, or it is damaged")
    try:
        if not pq.read_schema(pa.BufferReader(content)).equals(REMOVED_SCHEMA):
            raise wrong
        rows: list[dict[str, Any]] = bounded_table(content, url, REMOVED_SCHEMA.names).to_pylist()
    except (pa.ArrowException, LabelsError, OSError, ValueError):
        raise wrong from None
    if any(_SHA256.fullmatch(row["released_sha256"] or "") is None for row in rows):
        raise wrong
    if any(row["why"] not in (None, *get_args(Why)) for row in rows):
        raise wrong
    return rows


def write_tombstones(root: Place, staged: Place, taken: pa.Table, requested: Sequence[dict[str, Any]]) -> str:
    """Write the tombstones of a release and those of this takedown, and return the hash of the file.

    taken: rows of `decisions.parquet` as they were before. requested: `received`, `why` and `by` of each.
    """
    before = REMOVED_SCHEMA.empty_table()
    if root.at(REMOVED).exists():
        before = pa.Table.from_pylist(tombstones_of(root.at(REMOVED).read(), root.at(REMOVED).path), REMOVED_SCHEMA)
    names = ("shard", "key", "sha256", "released_sha256")
    rows = [
        row | request | {"done": date.today()}
        for row, request in zip(taken.select(names).to_pylist(), requested, strict=True)
    ]
    table = pa.concat_tables([before, pa.Table.from_pylist(rows, REMOVED_SCHEMA)])
    with staged.at(REMOVED).create() as stream:
        pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
    return stream.sha256
