"""The run folder: `run.json`, written first, and one Parquet file per finished slice below `scores/`.

While a scan works, `lease.json` says who it is, and `attempts/` what is being scanned.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ingest.errors import RunError, StorageError
from ingest.record import RECORD, RunRecord, open_run
from ingest.results import COMPACT, SCORES, RowRange, is_compacted, remedy
from ingest.sample import printable
from ingest.storage.place import PART, Place, place
from ingest.storage.retries import is_of_storage, reason_of

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPTS = "attempts"
LEASE = "lease.json"
CANARY = "canary"

MAX_DIFFERENCES = 3
"""So many are told where settings differ."""

MAX_CHARACTERS = 1000
"""Of a value in a message."""


def rows_at(run: Place, ranges: Sequence[RowRange], columns: Sequence[str] | None = None) -> "pa.Table":
    """Rows of a run, in the order of `ranges`, all columns unless said.

    RunError names a file that is damaged, StorageError one that cannot be read for now.
    """
    import pyarrow as pa

    from scoring.table import SCHEMA, as_schema

    tables = [SCHEMA.empty_table().select(list(columns) if columns else SCHEMA.names)]
    for rows in ranges:
        place = run.at(rows.path)
        try:
            tables.append(as_schema(_read(place, rows, columns), tables[0].schema))
        except (pa.ArrowException, OSError, ValueError) as error:
            if not rows.path.startswith(f"{COMPACT}/") and is_compacted(run):
                raise RunError(f"{run.path} was compacted meanwhile; ask again") from None
            if is_of_storage(error):
                raise StorageError(f"cannot read the score file {printable(place.path)}: {reason_of(error)}") from None
            raise RunError(f"the score file {printable(place.path)} is damaged; {remedy(rows.path)}") from None
    return pa.concat_tables(tables)


def _read(place: Place, rows: RowRange, columns: Sequence[str] | None) -> "pa.Table":
    """Decodes only the row groups that the rows lie in."""
    import pyarrow.parquet as pq

    with place.open() as stream:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
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


def refuse_other(url: str, record: RunRecord) -> RunRecord | None:
    """The record of the run at `url`, None where none is begun. RunError where it differs, or other files lie there."""
    root = place(url)
    if not root.at(RECORD).exists():
        refuse_other_files(root, url)
        return None
    before = open_run(url)[1]
    different = differences(before, record.model_copy(update={"code": before.code}))
    if different:
        raise RunError(f"{url} was scanned with other settings: {different}; use another --run")
    return before


def start_or_continue(url: str, record: RunRecord) -> RunRecord:
    """Writes `run.json` where there is none, and returns what is there; for who holds the lease. See `refuse_other`."""
    before = refuse_other(url, record)
    if before is None:
        place(url).at(RECORD).write((json.dumps(record.model_dump(), indent=2) + "\n").encode())
    return before or record


def refuse_other_files(root: Place, url: str) -> None:
    """RunError where `root`, in which no run was begun, holds more than what a scan does before it begins one."""
    others = [name for name in root.names() if name != LEASE and not name.endswith(PART)]
    if others or any(not name.startswith((LEASE, RECORD)) for name in root.names()):
        raise RunError(f"{url} holds other files and is no run; use a new folder for --run")


def remove_unfinished(run: Place) -> None:
    """What was left behind by workers killed while they wrote; for who holds the lease, when all workers are gone."""
    for folder in (run.at(name) for name in (SCORES, ATTEMPTS, CANARY) if run.is_local):
        for name in folder.names():
            if name.endswith(PART):
                folder.at(name).remove()


def differences(before: BaseModel, now: BaseModel) -> str:
    """The settings that differ, the first of them with both values in short; nothing where none does."""
    found = list(_differing("", before.model_dump(), now.model_dump()))
    more = [f"{len(found) - MAX_DIFFERENCES} more"] if len(found) > MAX_DIFFERENCES else []
    return "; ".join(found[:MAX_DIFFERENCES] + more)


def _differing(name: str, before: Any, now: Any) -> Iterator[str]:
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        keys = list({**before, **now})
        if "name" in keys and before.get("name") != now.get("name"):
            keys = ["name"]  # all else follows from it
        for key in keys:
            yield from _differing(f"{name} {_cut(key)}".lstrip(), before.get(key), now.get(key))
    elif isinstance(before, (list, tuple)) and isinstance(now, (list, tuple)):
        gone, new = ([_cut(str(v)) for v in some if v not in other] for some, other in ((before, now), (now, before)))
        told = [f"had {', '.join(gone)}"] if gone else []
        told += [f"has now {', '.join(new)}"] if new else []
        yield f"{name} {' and '.join(told) or 'has another order'}"
    else:
        yield f"{name} was {_in_short(before)}, now {_in_short(now)}"


def _in_short(value: Any) -> str:
    """Hashes by their first digits."""
    if value is None:
        return "not set"
    if isinstance(value, str):
        return f"{value[:8]}…" if re.fullmatch(r"[0-9a-f]{64}", value) else f'"{_cut(value)}"'
    return _cut(str(value))


def _cut(text: str) -> str:
    """A text of run.json for a message; most paths are told whole."""
    return printable(text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…")


@cache
def code_hash() -> str:
    """Hash of the source files of the four rooms: tells the code of a working tree, which no version number does."""
    top = Path(__file__).parent.parent
    digest = sha256()
    for room in ("ingest", "scoring", "reports", "jobs"):
        for path in sorted((top / room).rglob("*")):
            if path.suffix in (".py", ".yaml", ".sql"):
                content = path.read_bytes()
                digest.update(f"{path.relative_to(top).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()
