"""The run folder: `run.json`, written first, and one Parquet file per finished slice below `scores/`.

While a scan works, `lease.json` says who it is, and `attempts/` what is being scanned.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel

from ingest.errors import RunError
from ingest.record import RECORD as RECORD
from ingest.record import RunRecord as RunRecord
from ingest.record import open_run as open_run
from ingest.results import COMPACT, RowRange, is_compacted
from ingest.results import SCORES as SCORES
from ingest.storage import PART, Place, place

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPTS = "attempts"
LEASE = "lease.json"
CANARY = "canary.json"


def rows_at(run: Place, ranges: Sequence[RowRange], columns: Sequence[str] | None = None) -> "pa.Table":
    """Rows of a run, in the order of `ranges`, all columns unless said. RunError names the file that is damaged."""
    import pyarrow as pa

    from scoring.table import SCHEMA

    tables = [SCHEMA.empty_table().select(list(columns) if columns else SCHEMA.names)]
    for rows in ranges:
        place = run.at(rows.path)
        try:
            tables.append(_read(place, rows, columns).cast(tables[0].schema))
        except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, ValueError):
            if not rows.path.startswith(f"{COMPACT}/") and is_compacted(run):
                raise RunError(f"{run.path} was compacted meanwhile; ask again") from None
            raise RunError(f"the score file {place.path} is damaged; {_remedy(rows)}") from None
    return pa.concat_tables(tables)


def _read(place: Place, rows: RowRange, columns: Sequence[str] | None) -> "pa.Table":
    """Decodes only the row groups that the rows lie in."""
    import pyarrow.parquet as pq

    with place.open() as stream:
        file = pq.ParquetFile(stream)
        if rows.num_rows is None:
            return file.read(columns=columns).slice(rows.first_row)
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        starts = [sum(sizes[:number]) for number in range(len(sizes))]
        end = rows.first_row + rows.num_rows
        groups = [n for n, start in enumerate(starts) if start < end and start + sizes[n] > rows.first_row]
        if not groups or end > sum(sizes):
            raise ValueError("the file has fewer rows")
        table = file.read_row_groups(groups, columns=columns)
        return table.slice(rows.first_row - starts[groups[0]], rows.num_rows)


def _remedy(rows: RowRange) -> str:
    is_compact = rows.path.startswith(f"{COMPACT}/")
    return "restore it from a copy, or scan into a new run" if is_compact else "delete it and run the same scan again"


def start_or_continue(url: str, record: RunRecord) -> Place:
    """Writes `run.json`, or compares with the one that is there. RunError with the difference."""
    root = place(url)
    if root.at(RECORD).exists():
        different = differences(open_run(url)[1], record)
        if different:
            raise RunError(f"{url} was scanned with other settings: {different}; use another --run")
        return root
    if root.is_dir() and not all(name.startswith(RECORD) and name.endswith(PART) for name in root.names()):
        raise RunError(f"{url} holds other files and is no run; use a new folder for --run")
    root.at(RECORD).write((json.dumps(record.model_dump(), indent=2) + "\n").encode())
    return root


def differences(before: BaseModel, now: BaseModel) -> str:
    """The settings that differ, each with both values; nothing where none does."""
    old = before.model_dump()
    return "; ".join(f"{k} was {old[k]!r}, now {v!r}" for k, v in now.model_dump().items() if old[k] != v)
