"""One large file from many slices: joined on this machine's disk, checked, then put in its place."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import RunError
from ingest.sample import printable
from ingest.storage.place import Place
from jobs.compact.slices import SliceFile, hash_of, rows_by_shard, rows_in
from scoring.runs.footers import footer_of
from scoring.runs.layout import COMPACT, SCORES
from scoring.runs.results import CompactFile, ResultPart, RowRange
from scoring.runs.rows import rows_at
from scoring.table import SCHEMA, Col

if TYPE_CHECKING:
    import duckdb

ROWS_PER_GROUP = 40_960
"""Few enough that the rows of one shard are read without many others, and enough to compress well."""

MEMORY_GB = 4
READ_AT_ONCE = 16


def open_duckdb(aside: str) -> "duckdb.DuckDBPyConnection":
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = '{MEMORY_GB}GB'")
    connection.execute("SET temp_directory = $1", [aside])
    return connection


def bytes_in(place: Place) -> int:
    with place.open() as stream:
        return stream.seek(0, 2)


def is_made_of(place: Place, inputs: Sequence[SliceFile]) -> bool:
    """Whether an earlier attempt has made this file of the same slices, and it is whole."""
    if not place.exists():
        return False
    try:
        with place.open() as stream:
            marks = pq.read_metadata(stream).metadata or {}
    except pa.ArrowInvalid:
        return False
    return bool(marks.get(b"privsieve.slices") == hash_of(inputs).encode())


def write_joined(
    connection: "duckdb.DuckDBPyConnection", run: Place, inputs: Sequence[SliceFile], joined: Path, place: Place
) -> None:
    """Joins slices in a file on this machine's disk, checks it, then gives it its place.

    Not by DuckDB, which neither checks nor writes the checksums of pages.
    """
    reasons = Counter[str]()
    with pq.ParquetWriter(joined, SCHEMA, compression="zstd", write_page_checksum=True) as writer:
        for table in _row_groups(run, inputs):
            writer.write_table(table, ROWS_PER_GROUP)
            counted = table[Col.REASON].drop_null().value_counts().to_pylist()
            reasons.update({item["values"]: item["counts"] for item in counted})
        writer.add_key_value_metadata(footer_of({"slices": hash_of(inputs)}, rows_in(inputs), reasons))
    _check(connection, inputs, joined, place)
    with open(joined, "rb") as source, place.create() as stream:
        shutil.copyfileobj(source, stream, 2**22)
    joined.unlink()


def _row_groups(run: Place, inputs: Sequence[SliceFile]) -> Iterator[pa.Table]:
    """The rows of the slices, in order, in tables of `ROWS_PER_GROUP` rows, the last one shorter."""
    rows, left = SCHEMA.empty_table(), iter(inputs)
    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        while window := list(islice(left, READ_AT_ONCE)):
            ranges = [[RowRange(f"{SCORES}/{item.name}")] for item in window]
            rows = pa.concat_tables([rows, *threads.map(lambda one: rows_at(run, one), ranges)])
            while rows.num_rows >= ROWS_PER_GROUP:
                yield rows.slice(0, ROWS_PER_GROUP).combine_chunks()
                rows = rows.slice(ROWS_PER_GROUP)
    if rows.num_rows:
        yield rows.combine_chunks()


_FOUND = """
    SELECT ordinal, count(*), min(shard), max(shard), count(*) FILTER (WHERE "index" <= before)
    FROM (
        SELECT shard, "index", ordinal,
            lag("index") OVER (PARTITION BY ordinal ORDER BY file_row_number) AS before
        FROM read_parquet($1, file_row_number = true) AS joined
        ASOF JOIN expected ON joined.file_row_number >= expected.first_row
    )
    GROUP BY ordinal ORDER BY ordinal"""


def _check(connection: "duckdb.DuckDBPyConnection", inputs: Sequence[SliceFile], joined: Path, place: Place) -> None:
    """The rows are all there, shard by shard, and no index comes twice. Nothing is removed where this fails."""
    expected = [(shard, num_rows) for shard, num_rows in rows_by_shard(inputs).items() if num_rows]
    ends = list(accumulate(num_rows for _, num_rows in expected))
    table = {"ordinal": list(range(len(expected))), "first_row": [0, *ends[:-1]][: len(ends)]}
    connection.register("expected", pa.table(table, pa.schema([("ordinal", pa.int64()), ("first_row", pa.int64())])))
    rows = connection.execute(_FOUND, [str(joined)]).fetchall()
    connection.unregister("expected")
    names = [(num_rows, printable(shard)) for shard, num_rows in expected]
    wanted = [(n, num_rows, name, name, 0) for n, (num_rows, name) in enumerate(names)]
    if rows != wanted:
        wrong = next((w for w, f in zip(wanted, rows, strict=False) if w != f), None)
        first = f"{wrong[2]} first" if wrong else f"{len(rows)} shards instead of {len(wanted)}"
        raise RunError(
            f"{place.path} would not hold the rows of its slices exactly once, in order ({first}); "
            "nothing was removed; scan the source into a new run"
        )


def check_seams(run: Place, files: Sequence[CompactFile], parts: Sequence[ResultPart]) -> None:
    """A shard that two files share goes on in the second where it ended in the first."""
    for before, after in pairwise(parts):
        if before.shard_id == after.shard_id:
            last = RowRange(f"{COMPACT}/{files[before.file].name}", before.first_row + before.num_rows - 1, 1)
            first = RowRange(f"{COMPACT}/{files[after.file].name}", after.first_row, 1)
            indices = rows_at(run, [last, first], [Col.INDEX])[Col.INDEX].to_pylist()
            if indices[0] >= indices[1]:
                raise RunError(
                    f"index {indices[1]} of {last.path} comes again in {first.path}; nothing was removed; "
                    "scan the source into a new run"
                )
