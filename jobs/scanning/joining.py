"""Joins the slice files of a finished run into large files, in the order of their rows.

They are joined on this machine's disk, checked, then put in their place.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise, tee
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import RunError, number_of
from ingest.sample import printable
from ingest.storage.parquet_tables import in_row_groups
from ingest.storage.place import Place
from scoring.runs import COMPACT, SCORES
from scoring.runs.coverage import has_all_chosen
from scoring.runs.footers import footer_of, footers
from scoring.runs.ledger import Ledger, finished, has_any_result, result_names, shard_id_of, shard_ids_of_others
from scoring.runs.record import RunRecord
from scoring.runs.results import CompactFile, ResultPart, RowRange
from scoring.runs.rows import rows_at
from scoring.screen.guard import GuardCounts, left_out
from scoring.table import SCHEMA, Col

SLICES_PER_FILE = 4_096
"""A file ends here at the latest, however few rows its slices have."""

ROWS_PER_GROUP = 40_960
"""Few enough that the rows of one shard are read without many others, and enough to compress well."""

MEMORY_GB = 4
READ_AT_ONCE = 16


@dataclass(frozen=True)
class SliceFile:
    shard: str
    """As the source names it."""

    name: str
    """Below `scores/`."""

    num_rows: int

    mark: int
    """What it adds to the hash of the run's rows (`scoring.runs.footers`)."""

    blocks_sha256: str
    """`scoring.runs.footers.Footer.blocks_sha256`."""


def finished_shards(url: str, record: RunRecord, ledger: Ledger) -> list[str]:
    """Return the shards with results, in order. RunError if one is not scanned to its end, or not of this source."""
    corpus = record.open_source()
    shards = [shard for shard in corpus.shards if record.is_whole or has_any_result(shard, ledger)]
    unfinished = [shard for shard in shards if not finished(shard, ledger)]
    if unfinished or not shards:
        have = "has" if len(unfinished) == 1 else "have"
        first = f": {number_of(len(unfinished), 'shard')} {have} images without a row, {printable(unfinished[0])} first"
        raise RunError(f"{url} is not finished{first if unfinished else ''}; run the same scan again, then compact")
    others = shard_ids_of_others(corpus.shards, ledger)
    if others:
        raise RunError(
            f"{url} has results of {number_of(len(others), 'shard')} that {printable(record.source)} has no longer; "
            "restore what is gone, or scan the source into a new run"
        )
    return shards


def refuse_missing(url: str, record: RunRecord, inputs: Sequence[SliceFile], ledger: Ledger) -> None:
    """Raise RunError if a scan of chosen samples has fewer rows than it chose."""
    num_rows, corpus = rows_in(inputs), record.open_source()
    if not has_all_chosen(record, num_rows, corpus.shards, ledger):
        raise RunError(
            f"{url} is not finished: {num_rows} of {record.num_chosen} chosen images have a row; "
            "run the same scan again, then compact"
        )


def slice_files(run: Place, record: RunRecord, shards: list[str], ledger: Ledger) -> Iterator[SliceFile]:
    """Yield the slice files in the order of their rows, with the counts of their footers."""
    named, again = tee((shard, name) for shard in shards for name in result_names(shard, ledger))
    found_footers = footers(run, (name for _, name in again), record.settings_hash())
    yield from (
        SliceFile(shard, name, footer.num_rows, footer.mark, footer.blocks_sha256)
        for (shard, name), footer in zip(named, found_footers, strict=True)
    )


def grouped(inputs: Iterable[SliceFile], rows_per_file: int) -> Iterator[list[SliceFile]]:
    """Yield the slices of each large file. They follow from their names and row counts alone."""
    group, num_rows = list[SliceFile](), 0
    for slice_ in inputs:
        if group and (num_rows + slice_.num_rows > rows_per_file or len(group) == SLICES_PER_FILE):
            yield group
            group, num_rows = [], 0
        group.append(slice_)
        num_rows += slice_.num_rows
    if group:
        yield group


def rows_in(inputs: Sequence[SliceFile]) -> int:
    return sum(slice_.num_rows for slice_ in inputs)


def lines_of(inputs: Sequence[SliceFile]) -> bytes:
    return "".join(f"{slice_.name} {slice_.num_rows}\n" for slice_ in inputs).encode()


def hash_of(inputs: Sequence[SliceFile]) -> str:
    """Return a hash of names and row counts, which identifies the content of a large file."""
    return hashlib.sha256(lines_of(inputs)).hexdigest()


def rows_by_shard(inputs: Sequence[SliceFile]) -> Counter[str]:
    rows = Counter[str]()
    for slice_ in inputs:
        rows[slice_.shard] += slice_.num_rows
    return rows


def parts_of(inputs: Sequence[SliceFile], file: int) -> list[ResultPart]:
    slices, rows = Counter(slice_.shard for slice_ in inputs), rows_by_shard(inputs)
    blocks = dict[str, set[str]]()
    for slice_ in inputs:
        blocks.setdefault(slice_.shard, set()).add(slice_.blocks_sha256)
    parts, first_row = list[ResultPart](), 0
    for shard, num_slices in slices.items():
        of_shard = blocks[shard].pop() if len(blocks[shard]) == 1 else ""
        parts.append(ResultPart(shard_id_of(shard), num_slices, file, first_row, rows[shard], of_shard))
        first_row += rows[shard]
    return parts


def open_duckdb(aside: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = '{MEMORY_GB}GB'")
    connection.execute("SET temp_directory = $1", [aside])
    return connection


def is_made_of(place: Place, inputs: Sequence[SliceFile]) -> bool:
    """Return whether an earlier attempt has made this file of the same slices, and it is whole."""
    if not place.exists():
        return False
    try:
        with place.open() as stream:
            marks = pq.read_metadata(stream).metadata or {}
    except pa.ArrowInvalid:
        return False
    return bool(marks.get(b"privsieve.slices") == hash_of(inputs).encode())


def write_joined(
    connection: duckdb.DuckDBPyConnection, run: Place, inputs: Sequence[SliceFile], joined: Path, place: Place
) -> None:
    """Join slices in a file on this machine's disk, check it, then put it in its place.

    DuckDB does not do it, since it neither checks nor writes the checksums of pages.
    """
    reasons, screened = Counter[str](), GuardCounts()
    with pq.ParquetWriter(joined, SCHEMA, compression="zstd", write_page_checksum=True) as writer:
        for table in in_row_groups(_rows(run, inputs), ROWS_PER_GROUP):
            writer.write_table(table, ROWS_PER_GROUP)
            counted = table[Col.REASON].drop_null().value_counts().to_pylist()
            screened += left_out(table)
            reasons.update({item["values"]: item["counts"] for item in counted})
        texts = {"screen": screened.text} if screened.num_seen else {}
        writer.add_key_value_metadata(footer_of(texts | {"slices": hash_of(inputs)}, rows_in(inputs), reasons))
    _check(connection, inputs, joined, place)
    with open(joined, "rb") as source, place.create() as stream:
        shutil.copyfileobj(source, stream, 2**22)
    joined.unlink()


def _rows(run: Place, inputs: Sequence[SliceFile]) -> Iterator[pa.Table]:
    """Yield the rows of each slice, in order."""
    waiting = iter(inputs)
    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        while window := list(islice(waiting, READ_AT_ONCE)):
            yield from threads.map(lambda item: rows_at(run, [RowRange(f"{SCORES}/{item.name}")]), window)


_FOUND = """
    SELECT ordinal, count(*), min(shard), max(shard), count(*) FILTER (WHERE "index" <= before)
    FROM (
        SELECT shard, "index", ordinal,
            lag("index") OVER (PARTITION BY ordinal ORDER BY file_row_number) AS before
        FROM read_parquet($1, file_row_number = true) AS joined
        ASOF JOIN expected ON joined.file_row_number >= expected.first_row
    )
    GROUP BY ordinal ORDER BY ordinal"""


def _check(connection: duckdb.DuckDBPyConnection, inputs: Sequence[SliceFile], joined: Path, place: Place) -> None:
    """Check that all rows are there, shard by shard, and no index comes twice. If this fails, nothing is removed."""
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
    """Check that a shard which two files share continues in the second where it ended in the first."""
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
