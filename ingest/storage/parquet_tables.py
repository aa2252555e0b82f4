"""Small Parquet tables, read and written whole, with JSON texts in the footer that say what the rows are."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import PrivsieveError, RunError, StorageError
from ingest.storage.place import Place
from ingest.storage.retries import is_of_storage, reason_of


def write_table(file: Place, table: pa.Table, footer: Mapping[bytes, str] = {}) -> None:
    """Write a table, whole or not at all. StorageError if it cannot be written. footer: key -> JSON text. Metadata that
    the table has itself are not written."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(footer or None), sink)
    file.write(sink.getvalue().to_pybytes())


def write_checked(file: Place, table: pa.Table, rows_per_group: int | None = None) -> str:
    """Write a table with checksums of its pages, whole or not at all, and return the hash of the file, in hex."""
    with file.create() as stream:
        pq.write_table(table, stream, rows_per_group, compression="zstd", write_page_checksum=True)
    return stream.sha256


def read_table(file: Place, key: bytes) -> tuple[pa.Table, bytes]:
    """Read a table, without metadata, and the JSON text that its footer has under a key. Read within `refuse_damage`:
    damage is a pyarrow.ArrowException, OSError, ValueError or, without the key, KeyError."""
    with file.open() as stream:
        table = pq.read_table(stream, page_checksum_verification=False)
    table.validate(full=True)  # else a text that is not UTF-8 is an error where it is looked at
    return table.replace_schema_metadata(None), (table.schema.metadata or {})[key]


def read_checked(file: Place, wanted: Collection[str] | None = None) -> pa.Table:
    """Read a table whose pages must have their checksums. pyarrow.ArrowException if it is damaged. wanted: those of
    these columns that the file has; None for all."""
    with file.open() as stream:
        # Without threads: those of pyarrow abort the process if it ends while they start.
        parquet = pq.ParquetFile(stream, pre_buffer=False, page_checksum_verification=True)
        names = None if wanted is None else [name for name in wanted if name in parquet.schema_arrow.names]
        table = parquet.read(names, use_threads=False)
    table.validate(full=True)
    return table


def in_row_groups(tables: Iterable[pa.Table], rows_per_group: int) -> Iterator[pa.Table]:
    """Yield the same rows, in order, in tables of `rows_per_group` rows; the last one may be shorter. No row: nothing.
    Few rows are in memory at once. tables: of one schema."""
    waiting, num_rows = list[pa.Table](), 0
    for table in tables:
        waiting.append(table)
        num_rows += table.num_rows
        while num_rows >= rows_per_group:
            rows = pa.concat_tables(waiting)
            yield rows.slice(0, rows_per_group).combine_chunks()
            waiting, num_rows = [rows.slice(rows_per_group)], num_rows - rows_per_group
    if num_rows:
        yield pa.concat_tables(waiting).combine_chunks()


@contextmanager
def refuse_damage(name: str, what: str, kind: type[PrivsieveError] = RunError) -> Iterator[None]:
    """Turn any error of a damaged file into one line, "<name> <what>", since errors of Parquet may quote its content.
    StorageError if the store failed to read an existing file."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        if is_of_storage(error):
            raise StorageError(f"cannot read {name}: {reason_of(error)}") from None
        raise kind(f"{name} {what}") from None
