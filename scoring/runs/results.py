"""The rows of a run as files: one per slice below `scores/`, and few large ones below `compact/` that replaced some.

`RUN/compact.json` decides which. The files that it names hold every row of its shards exactly once, and what `scores/`
still has of these shards is ignored. All other shards are in `scores/`. Files in `compact/` that it does not name are
ignored.
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
from scoring.runs import COMPACT, MANIFEST, SCORES
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
    """`compact.json`: the files that replaced the results of slices."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    privsieve: str
    num_rows: Count

    rows_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Hash of these rows (`scoring.runs.footers`); the same as before they were compacted."""

    shards: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+\.parquet$")]
    """Name of the file in `compact/` with the positions of the rows of each shard (`PARTS_SCHEMA`)."""

    files: tuple[CompactFile, ...]


@dataclass(frozen=True)
class RunListing:
    """The files of a run at one moment. On an object store it takes minutes for millions of files: make it once."""

    names: list[str]
    """Names of the results in `scores/` that were not replaced, sorted."""

    replaced: list[str]
    """Names of those that were replaced and not removed yet."""

    manifest: Manifest | None
    """None if nothing was compacted."""

    parts: "tuple[ResultPart, ...]"
    """Where the rows of the compacted shards are, in order."""

    @property
    def score_files(self) -> list[str]:
        """Paths below the run that together hold every row once: compacted files, in the order of shard and index, and
        results of slices, in the order of their names; none if nothing was scanned yet."""
        compacted = () if self.manifest is None else self.manifest.files
        return [*(posixpath.join(COMPACT, f.name) for f in compacted), *(posixpath.join(SCORES, n) for n in self.names)]


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
    for file in () if listed.manifest is None else listed.manifest.files:
        for first in range(0, file.num_rows, rows_at_once):
            num = min(rows_at_once, file.num_rows - first)
            yield RowRange(posixpath.join(COMPACT, file.name), first, num)
    yield from (RowRange(posixpath.join(SCORES, name)) for name in listed.names)


@dataclass(frozen=True)
class Results:
    """Slices of a run that have their result, and where their rows are."""

    ledger: Ledger

    ranges: dict[str, list[RowRange]]
    """Row ranges of the compacted shards, by shard id."""

    listed: RunListing

    @property
    def are_all_compacted(self) -> bool:
        """Whether no row is left in `scores/`, as after a scan that has compacted the run at its end."""
        return bool(self.ranges) and len(self.ranges) == len(self.ledger)

    def of(self, shard: str) -> list[RowRange]:
        """Return the ranges of the shard's rows, in order, for `scoring.runs.rows.rows_at`."""
        compacted = self.ranges.get(shard_id_of(shard))
        if compacted is not None:
            return compacted
        return [RowRange(posixpath.join(SCORES, name)) for name in result_names(shard, self.ledger)]


def remedy(path: str) -> str:
    """Say what to do about a damaged file with rows. path: relative to the run."""
    is_compact = path.startswith(f"{COMPACT}/")
    return "restore it from a copy, or scan into a new run" if is_compact else "delete it and run the same scan again"


def manifest(run: Place) -> Manifest | None:
    """Read the manifest; always asks the storage. None if there is none; RunError if it is damaged."""
    if not run.at(MANIFEST).exists():
        return None
    try:
        return parsed(Manifest, run.at(MANIFEST).read())
    except ValueError:
        raise RunError(f"{run.at(MANIFEST).path} is damaged; restore it from a copy") from None


def results(run: Place, listed: RunListing | None = None) -> Results:
    """Return which slices have their result, and where the rows of each shard are. listed: None lists the run now."""
    listed = listed or listing(run)
    ledger = ledger_of(listed.names)
    num_slices, ranges = dict[str, int](), dict[str, list[RowRange]]()
    for part in listed.parts:
        assert listed.manifest is not None
        num_slices[part.shard_id] = num_slices.get(part.shard_id, 0) + part.num_slices
        of_shard = ranges.setdefault(part.shard_id, [])
        if part.num_rows:
            name = posixpath.join(COMPACT, listed.manifest.files[part.file].name)
            of_shard.append(RowRange(name, part.first_row, part.num_rows, part.blocks_sha256))
    ledger.present.update((shard_id, (1 << n) - 1) for shard_id, n in num_slices.items())
    ledger.last.update((shard_id, n - 1) for shard_id, n in num_slices.items())
    return Results(ledger, ranges, listed)


def listing(run: Place) -> RunListing:
    """List the files of a run. RunError if `scores/` has a Parquet file that is not a result."""
    names = run.at(SCORES).names()
    compacted = manifest(run)  # after the names: no file was removed that it does not replace
    stray = next((n for n in names if n.endswith(".parquet") and not shard_id_of_result(n)), None)
    if stray is not None:
        raise RunError(f"{printable(run.at(SCORES, stray).path)} is not a result of a scan; remove it from {SCORES}/")
    parts = () if compacted is None else tuple(_parts(run, compacted))
    shard_ids = {part.shard_id for part in parts}
    replaced = [name for name in names if shard_id_of_result(name) in shard_ids]
    return RunListing(sorted({n for n in names if shard_id_of_result(n)} - {*replaced}), replaced, compacted, parts)


def _parts(run: Place, compacted: Manifest) -> list[ResultPart]:
    """Read the positions of the rows of the compacted shards, in order. RunError if this does not fit the manifest's
    files."""
    file = run.at(COMPACT, compacted.shards)
    with refuse_damage(file.path, "is damaged or missing; restore it from a copy"), file.open() as stream:
        table = pq.read_table(stream, page_checksum_verification=True).cast(PARTS_SCHEMA)  # ValueError for others
    columns = table.to_pydict()
    parts = [ResultPart(*values) for values in zip(*(columns[name] for name in PARTS_SCHEMA.names), strict=True)]
    if any(column.null_count for column in table.columns) or not _fit(parts, compacted):
        raise RunError(f"{file.path} does not fit the files that {MANIFEST} names; restore it from a copy")
    return parts


def _fit(parts: list[ResultPart], compacted: Manifest) -> bool:
    """Return whether the parts cover all rows of the files, without gaps or overlaps."""
    num_rows = dict.fromkeys(range(len(compacted.files)), 0)
    for part in parts:
        if num_rows.get(part.file) != part.first_row or part.num_rows < 0 or not 0 < part.num_slices <= MAX_SLICES:
            return False
        num_rows[part.file] += part.num_rows
    return list(num_rows.values()) == [file.num_rows for file in compacted.files]
