"""Rows of a run, compacted or not, of this version or older ones."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ingest.errors import RunError, StorageError
from ingest.sample import printable
from ingest.storage.place import Place
from ingest.storage.retries import is_of_storage, reason_of
from scoring.runs.layout import COMPACT
from scoring.runs.results import RowRange, RunListing, is_compacted, remedy, row_ranges

if TYPE_CHECKING:
    import pyarrow as pa


def rows_at(run: Place, ranges: Sequence[RowRange], columns: Sequence[str] | None = None) -> "pa.Table":
    """Read rows of a run, in the order of `ranges`. columns: None for all.

    RunError names a damaged file, StorageError one that cannot be read now.
    """
    import pyarrow as pa

    from scoring.table import SCHEMA, as_schema

    tables = [SCHEMA.empty_table().select(list(columns) if columns else SCHEMA.names)]
    for rows in ranges:
        file = run.at(rows.path)
        try:
            tables.append(as_schema(_read(file, rows, columns), tables[0].schema))
        except (pa.ArrowException, OSError, ValueError) as error:
            if not rows.path.startswith(f"{COMPACT}/") and is_compacted(run):
                raise RunError(f"{run.path} was compacted meanwhile; ask again") from None
            if is_of_storage(error):
                raise StorageError(f"cannot read the score file {printable(file.path)}: {reason_of(error)}") from None
            raise RunError(f"the score file {printable(file.path)} is damaged; {remedy(rows.path)}") from None
    return pa.concat_tables(tables)


def num_whole_rows(run: Place, listed: RunListing) -> int:
    """Count the rows of a run by reading all of them, with the checksums of their pages. Errors as in `rows_at`."""
    return sum(rows_at(run, [rows]).num_rows for rows in row_ranges(listed))


def _read(score_file: Place, rows: RowRange, columns: Sequence[str] | None) -> "pa.Table":
    """Decode only the row groups that hold the rows."""
    import pyarrow.parquet as pq

    from scoring.table import COLUMN_OF

    with score_file.open() as stream:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        if columns is not None:
            names = file.schema_arrow.names
            columns = [COLUMN_OF[column].name_in(names) or column for column in columns]
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
