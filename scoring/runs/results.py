"""The rows of a run as files: one per slice below `scores/` or, once compacted, few large ones below `compact/`.

`RUN/compact.json` decides which. If it exists, the files that it names hold every row exactly once, and `scores/` is
ignored, also while its files are still being removed. If it does not exist, `compact/` is ignored.
"""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from ingest.errors import RunError
from ingest.sample import printable
from ingest.storage.parquet_tables import refuse_damage
from ingest.storage.place import Place
from scoring.runs import COMPACT, COMPACT_SHARDS, MANIFEST, SCORES
from scoring.runs.ledger import MAX_SLICES, Ledger, ledger_of, result_names, shard_id_of, shard_id_of_result
from scoring.runs.record import parsed

_TEXTS = ("shard_id", "blocks_sha256")
PARTS_SCHEMA = pa.schema(
    [
        pa.field(name, pa.string() if name in _TEXTS else pa.int64(), nullable=False)
        for name in ("shard_id", "num_slices", "file", "first_row", "num_rows", "blocks_sha256")
    ]
)
"""Positions of the rows of each shard: one line per shard and file, in the order of the rows. Columns as in
`ResultPart`."""

Count = Annotated[int, Field(ge=0, lt=2**63)]


class CompactFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+\.parquet$")]
    num_rows: Count
    num_bytes: Count


class Manifest(BaseModel):
    """`compact.json`: the files that replaced the results of the slices."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    privsieve: str
    num_shards: Count
    num_slices: Count
    num_rows: Count

    slices_sha256: str
    """Hash of the lines `name num_rows` of all slice files that were replaced, in the order of the rows."""

    rows_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Hash of the rows before compaction (`scoring.runs.footers`)."""

    files: tuple[CompactFile, ...]


@dataclass(frozen=True)
class RunListing:
    """The files of a run at one moment. On an object store it takes minutes for millions of files: make it once."""

    names: list[str]
    """Names of the files in `scores/`, sorted."""

    manifest: Manifest | None
    """None if the run is not compacted."""

    @property
    def folder(self) -> str:
        """Folder that holds the score files, relative to the run."""
        return SCORES if self.manifest is None else COMPACT

    @property
    def score_files(self) -> list[str]:
        """Names in `folder` that together hold every row of the run once; none if nothing was scanned yet.

        In the order of shard and index if the run is compacted, else in the order of their names.
        """
        if self.manifest is not None:
            return [file.name for file in self.manifest.files]
        return [name for name in self.names if shard_id_of_result(name)]


@dataclass(frozen=True)
class ResultPart:
    """A line of `PARTS_SCHEMA`: rows of one shard in one file."""

    shard_id: str
    """See `scoring.runs.ledger.shard_id_of`."""

    num_slices: int
    """Slices of the shard in this file."""

    file: int
    """Position in `Manifest.files`."""

    first_row: int
    num_rows: int

    blocks_sha256: str
    """`scoring.runs.footers.Footer.blocks_sha256` of the slices; empty if there is none, or if they differ."""


@dataclass(frozen=True)
class RowRange:
    """Rows of one file of a run."""

    path: str
    """Path relative to the run."""

    first_row: int = 0

    num_rows: int | None = None
    """None: all from `first_row` on."""

    blocks_sha256: str = ""
    """As in `ResultPart`, for rows of one shard; empty if there is none, or if the footer of the file has it."""


def row_ranges(listed: RunListing, rows_at_once: int = 327_680) -> Iterator[RowRange]:
    """Yield all rows of a run in parts that fit into memory: a slice, or `rows_at_once` rows of a compacted file."""
    if listed.manifest is None:
        yield from (RowRange(posixpath.join(SCORES, name)) for name in listed.score_files)
        return
    for file in listed.manifest.files:
        for first in range(0, file.num_rows, rows_at_once):
            num = min(rows_at_once, file.num_rows - first)
            yield RowRange(posixpath.join(COMPACT, file.name), first, num)


@dataclass(frozen=True)
class Results:
    """Slices of a run that have their result, and where their rows are."""

    ledger: Ledger

    ranges: dict[str, list[RowRange]] | None
    """Row ranges by shard id; None if the run is not compacted."""

    def of(self, shard: str) -> list[RowRange]:
        """Return the ranges of the shard's rows, in order, for `scoring.runs.rows.rows_at`."""
        if self.ranges is not None:
            return self.ranges.get(shard_id_of(shard), [])
        return [RowRange(posixpath.join(SCORES, name)) for name in result_names(shard, self.ledger)]


def remedy(path: str) -> str:
    """Say what to do about a damaged file with rows. path: relative to the run."""
    is_compact = path.startswith(f"{COMPACT}/")
    return "restore it from a copy, or scan into a new run" if is_compact else "delete it and run the same scan again"


def is_compacted(run: Place) -> bool:
    """Return whether the rows are below `compact/`; always asks the storage."""
    return run.at(MANIFEST).exists()


def manifest(run: Place) -> Manifest | None:
    """Read the manifest; None if the run is not compacted. RunError if the manifest is damaged."""
    if not is_compacted(run):
        return None
    try:
        return parsed(Manifest, run.at(MANIFEST).read())
    except ValueError:
        raise RunError(f"{run.at(MANIFEST).path} is damaged; restore it from a copy") from None


def results(run: Place, listed: RunListing | None = None) -> Results:
    """Return which slices have their result, and where the rows of each shard are. listed: None lists the run now."""
    listed = listed or listing(run)
    compacted = listed.manifest
    if compacted is None:
        return Results(ledger_of(listed.names), None)
    num_slices, ranges = dict[str, int](), dict[str, list[RowRange]]()
    for part in _parts(run, compacted):
        num_slices[part.shard_id] = num_slices.get(part.shard_id, 0) + part.num_slices
        if part.num_rows:
            name = posixpath.join(COMPACT, compacted.files[part.file].name)
            rows = RowRange(name, part.first_row, part.num_rows, part.blocks_sha256)
            ranges.setdefault(part.shard_id, []).append(rows)
    present = {shard_id: (1 << n) - 1 for shard_id, n in num_slices.items()}
    return Results(Ledger(present, {shard_id: n - 1 for shard_id, n in num_slices.items()}), ranges)


def listing(run: Place) -> RunListing:
    """List the files of a run.

    RunError if the folder has a Parquet file that is not a result, since DuckDB reads all of them.
    """
    names = run.at(SCORES).names()
    compacted = manifest(run)  # after the names: if there is none now, none of the names was removed before
    stray = next((n for n in names if n.endswith(".parquet") and not shard_id_of_result(n)), None)
    if stray is not None and compacted is None:
        raise RunError(f"{printable(run.at(SCORES, stray).path)} is not a result of a scan; remove it from {SCORES}/")
    return RunListing(names, compacted)


def _parts(run: Place, compacted: Manifest) -> list[ResultPart]:
    """Read the positions of the rows of a compacted run's shards, in order. RunError if this does not fit the
    manifest's files."""
    file = run.at(COMPACT_SHARDS)
    with refuse_damage(file.path, "is damaged or missing; restore it from a copy"), file.open() as stream:
        # ValueError if it has other columns
        table = pq.read_table(stream, page_checksum_verification=True).cast(PARTS_SCHEMA)
    columns = table.to_pydict()
    parts = [ResultPart(*values) for values in zip(*(columns[name] for name in PARTS_SCHEMA.names), strict=True)]
    if any(column.null_count for column in table.columns) or not _fit(parts, compacted):
        raise RunError(f"{file.path} does not fit the files that {MANIFEST} names; restore it from a copy")
    return parts


def _fit(parts: list[ResultPart], compacted: Manifest) -> bool:
    """Return whether the parts cover all rows of the files, without gaps or overlaps, and all slices."""
    num_rows = dict.fromkeys(range(len(compacted.files)), 0)
    for part in parts:
        if num_rows.get(part.file) != part.first_row or part.num_rows < 0 or not 0 < part.num_slices <= MAX_SLICES:
            return False
        num_rows[part.file] += part.num_rows
    is_all = list(num_rows.values()) == [file.num_rows for file in compacted.files]
    return is_all and sum(part.num_slices for part in parts) == compacted.num_slices
