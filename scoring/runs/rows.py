"""Rows of a run, compacted or not; which of them are about images.

Of a damaged shard a part, or all, could not be read, so an unknown number of its images has no row. Each such part has
a row in the score files, with a reason of `ingest.errors.SHARD_REASONS`. It is counted apart from the rows of images
everywhere, and if a run has one, nothing can be said of all images of its source.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import SHARD_REASONS, RunError, StorageError, number_of
from ingest.sample import printable
from ingest.storage.parquet_tables import refuse_damage
from ingest.storage.place import Place
from scoring.runs import COMPACT
from scoring.runs.record import READABLE, RunRecord
from scoring.runs.results import RowRange, RunListing, manifest, remedy, row_ranges
from scoring.sql.names import literal
from scoring.table import SCHEMA, Col


@dataclass(frozen=True)
class Damage:
    """The part of a source that could not be read; nothing by default."""

    num_shards: int = 0
    """Number of shards that could not be read, in part or at all."""

    parts: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of parts, the most frequent first."""

    first_shard: str | None = None
    """First of these shards by name, printable; None if there is none."""

    @property
    def num_parts(self) -> int:
        """Number of rows of the run that are not about an image."""
        return sum(self.parts.values())

    @property
    def named(self) -> str:
        """The first shard, and how many there are if it is not the only one."""
        first = str(self.first_shard)
        return first if self.num_shards == 1 else f"{number_of(self.num_shards, 'shard')}, {first} first"

    @property
    def caution(self) -> str | None:
        """One sentence without a full stop; None if no shard is damaged."""
        if not self.num_shards:
            return None
        are, their = ("is", "its") if self.num_shards == 1 else ("are", "their")
        reasons = ", ".join(f"{reason} {number:,}" for reason, number in self.parts.items())
        return (
            f"{number_of(self.num_shards, 'shard')} {are} damaged ({reasons}): an unknown number of {their} images "
            "was not seen"
        )


NO_DAMAGE = Damage()


def damage_of(counted: Iterable[tuple[str, Mapping[str, int]]]) -> Damage:
    """Add up damage. counted: shards, possibly repeated, with rows by reason; reasons of images are skipped."""
    parts, shards = Counter[str](), set[str]()
    for shard, reasons in counted:
        shard_parts = Counter({reason: number for reason, number in reasons.items() if reason in SHARD_REASONS})
        if shard_parts.total():
            parts += shard_parts
            shards.add(shard)
    ordered = dict(sorted(parts.items(), key=lambda item: (-item[1], item[0])))
    return Damage(len(shards), ordered, printable(min(shards)) if shards else None)


def scope_of(record: RunRecord, has_all: bool, damage: Damage) -> str:
    """Describe which images of its source a run covers. has_all: whether it has all that it could choose from."""
    if not record.is_whole and not has_all:
        return record.scope
    return READABLE if damage.num_parts and not record.unread_columns else record.whole


def num_of_images(reasons: Mapping[str, int]) -> dict[str, int]:
    """Drop the reasons that are about a part of a shard; the most frequent first."""
    images = {reason: number for reason, number in reasons.items() if reason not in SHARD_REASONS}
    return dict(sorted(images.items(), key=lambda item: (-item[1], item[0])))


def rows_at(run: Place, ranges: Sequence[RowRange], columns: Sequence[str] | None = None) -> pa.Table:
    """Read rows of a run, in the order of `ranges`. columns: None for all. RunError names a damaged file, StorageError
    one that cannot be read now."""
    columns = list(columns) if columns else SCHEMA.names
    tables = [SCHEMA.empty_table().select(columns)]
    for rows in ranges:
        file = run.at(rows.path)
        try:
            with refuse_damage(f"the score file {printable(file.path)}", f"is damaged; {remedy(rows.path)}"):
                tables.append(_read(file, rows, columns).select(columns).cast(tables[0].schema))
        except (RunError, StorageError):
            if not rows.path.startswith(f"{COMPACT}/") and not file.exists() and manifest(run) is not None:
                raise RunError(f"{run.path} was compacted meanwhile; ask again") from None
            raise
    return pa.concat_tables(tables)


def num_whole_rows(run: Place, listed: RunListing) -> int:
    """Count the rows of a run by reading all of them, with the checksums of their pages. Errors as in `rows_at`."""
    return sum(rows_at(run, [rows]).num_rows for rows in row_ranges(listed))


def _read(score_file: Place, rows: RowRange, columns: list[str]) -> pa.Table:
    """Decode only the row groups that hold the rows."""
    with score_file.open() as stream:
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


IS_DAMAGE_SQL = f"coalesce({Col.REASON} IN ({', '.join(map(literal, sorted(SHARD_REASONS)))}), false)"
"""SQL condition over the rows of a run: whether a row is about a part of a shard and not about an image."""


def damage_in_rows(run: Place, listed: RunListing) -> Damage:
    """Find damage in the rows of a run: footers of compacted files do not name the shard of a reason."""
    chunks = (rows_at(run, [part], [Col.SHARD, Col.REASON]) for part in row_ranges(listed))
    damaged = (rows.filter(is_damage(rows)).to_pylist() for rows in chunks)
    return damage_of((row[Col.SHARD], {row[Col.REASON]: 1}) for rows in damaged for row in rows)


def images_only(rows: pa.Table) -> pa.Table:
    """Keep the rows that are about an image. rows: of a run, with the column `reason`."""
    return rows.filter(pc.invert(is_damage(rows)))


def is_damage(rows: pa.Table) -> pa.ChunkedArray:
    """Return for each row whether it is about a part of a shard. rows: of a run, with the column `reason`."""
    return pc.is_in(rows[Col.REASON], pa.array(sorted(SHARD_REASONS)))
