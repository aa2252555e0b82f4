"""Which rows of a run are about a part of a damaged shard, and not about an image (`scoring.runs.damage`)."""

import pyarrow as pa

from ingest.fault import SHARD_REASONS
from ingest.storage.place import Place
from scoring.runs.damage import Damage, damage_of
from scoring.runs.results import RunListing, row_ranges
from scoring.runs.rows import rows_at
from scoring.sql.names import literal
from scoring.table import Col

IS_DAMAGE_SQL = f"coalesce({Col.REASON} IN ({', '.join(map(literal, sorted(SHARD_REASONS)))}), false)"
"""SQL condition over the rows of a run: whether a row is about a part of a shard and not about an image."""


def damage_in_rows(run: Place, listed: RunListing) -> Damage:
    """Find damage in the rows of a compacted run, whose footers do not name the shard of a reason."""
    chunks = (rows_at(run, [part], [Col.SHARD, Col.REASON]) for part in row_ranges(listed))
    damaged = (rows.filter(is_damage(rows)).to_pylist() for rows in chunks)
    return damage_of((row[Col.SHARD], {row[Col.REASON]: 1}) for rows in damaged for row in rows)


def images_only(rows: pa.Table) -> pa.Table:
    """Keep the rows that are about an image. rows: of a run, with the column `reason`."""
    import pyarrow.compute as pc

    return rows.filter(pc.invert(is_damage(rows)))


def is_damage(rows: pa.Table) -> pa.ChunkedArray:
    """Return for each row whether it is about a part of a shard. rows: of a run, with the column `reason`."""
    import pyarrow.compute as pc

    return pc.is_in(rows[Col.REASON], pa.array(sorted(SHARD_REASONS)))
