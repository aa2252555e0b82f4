"""`privsieve compact RUN`: the many small result files of a finished run become few large ones, sorted.

Three steps, each of which may be killed and continued by the same command; readers are right at every moment:

    1. files below `compact/`, one by one, each checked before it gets its name    readers see `scores/`
    2. `compact-shards.parquet`, then `compact.json`, which decides                from here on `compact/`
    3. the files in `scores/` are removed, then what other attempts left below `compact/`

Two that work at once, as after `--takeover`, do each other no harm: a file is named by what it holds, who has lost the
lease neither decides nor removes, and nothing is removed before the files that `compact.json` names were seen.

Slices in the order of shards and numbers are rows in the order of shard and index, so joining them sorts them. Which
slices go into a file follows from their names and row counts alone: what an earlier attempt has finished is kept.
"""

import hashlib
import posixpath
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from itertools import accumulate, islice, pairwise, tee
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa
import pyarrow.parquet as pq

from ingest import __version__
from ingest.errors import RunError
from ingest.formats import open_source
from ingest.sample import printable
from ingest.storage.place import Place
from jobs.console.terminal import write_line
from scoring.runs.coverage import has_all_chosen
from scoring.runs.footers import footer_of, footers
from scoring.runs.layout import COMPACT, COMPACT_SHARDS, MANIFEST, RUN_LEASE, SCORES
from scoring.runs.lease import Lease, lease
from scoring.runs.ledger import Done, begun, finished, result_names, result_stem, stem_in, stems_of_others
from scoring.runs.record import RunRecord, open_run
from scoring.runs.results import PARTS_SCHEMA, CompactFile, Manifest, Part, RowRange, manifest, results
from scoring.runs.rows import rows_at
from scoring.table import SCHEMA

if TYPE_CHECKING:
    import duckdb

ROWS_PER_FILE = 2_000_000
"""About 200 MB."""

SLICES_PER_FILE = 4_096
"""A file ends here at the latest, however few rows its slices have."""

NAMED_DIGITS = 12
"""Of the hash of what a file holds, in its name: two attempts with other files never write to the same name."""

ROWS_PER_GROUP = 40_960
"""Few enough that the rows of one shard are read without many others, and enough to compress well."""

MEMORY_GB = 4
READ_AT_ONCE = 16
REMOVED_AT_ONCE = 1_000
REMOVERS = 16
"""An object store takes its time for each file, whatever the others do."""


@dataclass(frozen=True)
class _Input:
    """One slice file. shard: as the source names it."""

    shard: str
    name: str
    num_rows: int


@click.command()
@click.argument("run_url", metavar="RUN")
@click.option(
    "--rows-per-file",
    type=click.IntRange(min=1),
    default=ROWS_PER_FILE,
    show_default=True,
    help=f"A file ends at so many rows, or at {SLICES_PER_FILE:,} slices.",
)
@click.option("--takeover", is_flag=True, help="Go on although the run is marked as being worked on.")
def compact(run_url: str, rows_per_file: int, takeover: bool) -> None:
    """Join the small result files of a finished RUN into few large ones, sorted by shard and index.

    May be interrupted at any moment; the same command continues.
    """
    run, record = open_run(run_url)
    with lease(run.at(RUN_LEASE), run_url, takeover) as held:
        compacted = manifest(run)
        was_compacted = compacted is not None
        if compacted is None:
            compacted = _compact(run, run_url, record, rows_per_file, held)
        num_removed = _remove_slices(run, held)
    what = f"{compacted.num_rows} rows of {compacted.num_shards} shards in {len(compacted.files)} files"
    if was_compacted and not num_removed:
        write_line(f"{run_url} is compacted already, nothing to do: {what}")
    elif was_compacted:
        write_line(f"{run_url} was compacted: {what}; the last {num_removed} small files are removed now")
    else:
        num_bytes = sum(file.num_bytes for file in compacted.files)
        write_line(f"{what} ({num_bytes / 1e6:.1f} MB), from {compacted.num_slices} small ones, which are removed")


def _compact(run: Place, url: str, record: RunRecord, rows_per_file: int, held: Lease) -> Manifest:
    """Steps 1 and 2."""
    done = results(run).done
    shards = _finished_shards(url, record, done)
    digest, num_slices = hashlib.sha256(), 0
    files, parts = list[CompactFile](), list[Part]()
    with tempfile.TemporaryDirectory() as aside:
        connection = _connection(aside)
        slices = _inputs(run, record, shards, done)
        if record.sample is not None or record.limit is not None:
            slices = iter(_chosen_whole(url, record, list(slices), done))
        for inputs in _grouped(slices, rows_per_file):
            held.check()
            place = run.at(COMPACT, f"{len(files):05d}-{_hash(inputs)[:NAMED_DIGITS]}.parquet")
            if not _is_made_of(place, inputs):
                _write(connection, run, inputs, Path(aside) / "joined.parquet", place)
            files.append(CompactFile(name=place.name, num_rows=_num_rows(inputs), num_bytes=_num_bytes(place)))
            parts.extend(_parts(inputs, len(files) - 1, done))
            digest.update(_lines(inputs))
            num_slices += len(inputs)
        connection.close()
    _check_seams(run, files, parts)
    made = Manifest(
        privsieve=__version__,
        num_shards=len(shards),
        num_slices=num_slices,
        num_rows=sum(file.num_rows for file in files),
        slices_sha256=digest.hexdigest(),
        files=tuple(files),
    )
    others = _decided_meanwhile(run, held)
    if others is not None:
        return others
    with run.at(COMPACT_SHARDS).create() as stream:
        rows = [dict(zip(PARTS_SCHEMA.names, astuple(part), strict=True)) for part in parts]
        table = pa.Table.from_pylist(rows, schema=PARTS_SCHEMA)
        pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
    others = _decided_meanwhile(run, held)
    if others is None:
        run.at(MANIFEST).write((made.model_dump_json(indent=2) + "\n").encode())
    return others or made


def _decided_meanwhile(run: Place, held: Lease) -> Manifest | None:
    """What somebody whose lease was taken over has written all the same. IncompleteError where ours was."""
    held.confirm()
    return manifest(run)


# ---- what there is ----------------------------------------------------------------------------------------------


def _finished_shards(url: str, record: RunRecord, done: Done) -> list[str]:
    """The shards with results, in order. RunError where one is not scanned to its end, or not of this source."""
    is_whole = record.sample is None and record.limit is None
    corpus = open_source(record.source, record.format, record.category)
    shards = [shard for shard in corpus.shards if is_whole or begun(shard, done)]
    unfinished = [shard for shard in shards if not finished(shard, done)]
    if unfinished or not shards:
        first = f": {len(unfinished)} shards have images without a row, {printable(unfinished[0])} first"
        raise RunError(f"{url} is not finished{first if unfinished else ''}; run the same scan again, then compact")
    others = stems_of_others(corpus.shards, done)
    if others:
        raise RunError(
            f"{url} has results of {len(others)} shards that {printable(record.source)} has no longer; "
            "restore them, or scan the source into a new run"
        )
    return shards


def _chosen_whole(url: str, record: RunRecord, inputs: list[_Input], done: Done) -> list[_Input]:
    """RunError where a scan of chosen samples has fewer rows than it chose."""
    num_rows, corpus = _num_rows(inputs), open_source(record.source, record.format, record.category)
    if not has_all_chosen(record, num_rows, corpus.shards, done):
        raise RunError(
            f"{url} is not finished: {num_rows} of {record.sample or record.limit} chosen images have a row; "
            "run the same scan again, then compact"
        )
    return inputs


def _inputs(run: Place, record: RunRecord, shards: list[str], done: Done) -> Iterator[_Input]:
    """The slice files in the order of their rows, with the counts of their footers."""
    named, again = tee((shard, name) for shard in shards for name in result_names(shard, done))
    found = footers(run, (name for _, name in again), record.settings_hash())
    yield from (_Input(shard, name, one.num_rows) for (shard, name), one in zip(named, found, strict=True))


def _grouped(inputs: Iterator[_Input], rows_per_file: int) -> Iterator[list[_Input]]:
    group, num_rows = list[_Input](), 0
    for one in inputs:
        if group and (num_rows + one.num_rows > rows_per_file or len(group) == SLICES_PER_FILE):
            yield group
            group, num_rows = [], 0
        group.append(one)
        num_rows += one.num_rows
    if group:
        yield group


def _num_rows(inputs: Sequence[_Input]) -> int:
    return sum(one.num_rows for one in inputs)


def _lines(inputs: Sequence[_Input]) -> bytes:
    return "".join(f"{one.name} {one.num_rows}\n" for one in inputs).encode()


def _hash(inputs: Sequence[_Input]) -> str:
    """What a file holds."""
    return hashlib.sha256(_lines(inputs)).hexdigest()


def _rows_by_shard(inputs: Sequence[_Input]) -> Counter[str]:
    rows = Counter[str]()
    for one in inputs:
        rows[one.shard] += one.num_rows
    return rows


def _parts(inputs: Sequence[_Input], file: int, done: Done) -> list[Part]:
    slices, rows = Counter(one.shard for one in inputs), _rows_by_shard(inputs)
    parts, first_row = list[Part](), 0
    for shard, num_slices in slices.items():
        parts.append(Part(stem_in(shard, done), num_slices, file, first_row, rows[shard]))
        first_row += rows[shard]
    return parts


# ---- one file ---------------------------------------------------------------------------------------------------


def _connection(aside: str) -> "duckdb.DuckDBPyConnection":
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = '{MEMORY_GB}GB'")
    connection.execute("SET temp_directory = $1", [aside])
    return connection


def _num_bytes(place: Place) -> int:
    with place.open() as stream:
        return stream.seek(0, 2)


def _is_made_of(place: Place, inputs: Sequence[_Input]) -> bool:
    """Whether an earlier attempt has made this file of the same slices, and it is whole."""
    if not place.exists():
        return False
    try:
        with place.open() as stream:
            marks = pq.read_metadata(stream).metadata or {}
    except pa.ArrowInvalid:
        return False
    return bool(marks.get(b"privsieve.slices") == _hash(inputs).encode())


def _write(
    connection: "duckdb.DuckDBPyConnection", run: Place, inputs: Sequence[_Input], joined: Path, place: Place
) -> None:
    """Joins slices in a file on this machine's disk, checks it, then gives it its place.

    Not by DuckDB, which neither checks nor writes the checksums of pages.
    """
    reasons = Counter[str]()
    with pq.ParquetWriter(joined, SCHEMA, compression="zstd", write_page_checksum=True) as writer:
        for table in _row_groups(run, inputs):
            writer.write_table(table, ROWS_PER_GROUP)
            counted = table["reason"].drop_null().value_counts().to_pylist()
            reasons.update({one["values"]: one["counts"] for one in counted})
        writer.add_key_value_metadata(footer_of({"slices": _hash(inputs)}, _num_rows(inputs), reasons))
    _check(connection, inputs, joined, place)
    with open(joined, "rb") as source, place.create() as stream:
        shutil.copyfileobj(source, stream, 2**22)
    joined.unlink()


def _row_groups(run: Place, inputs: Sequence[_Input]) -> Iterator[pa.Table]:
    """The rows of the slices, in order, in tables of `ROWS_PER_GROUP` rows, the last one shorter."""
    rows, left = SCHEMA.empty_table(), iter(inputs)
    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        while window := list(islice(left, READ_AT_ONCE)):
            ranges = [[RowRange(f"{SCORES}/{one.name}")] for one in window]
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


def _check(connection: "duckdb.DuckDBPyConnection", inputs: Sequence[_Input], joined: Path, place: Place) -> None:
    """The rows are all there, shard by shard, and no index comes twice. Nothing is removed where this fails."""
    expected = [(shard, num_rows) for shard, num_rows in _rows_by_shard(inputs).items() if num_rows]
    ends = list(accumulate(num_rows for _, num_rows in expected))
    table = {"ordinal": list(range(len(expected))), "first_row": [0, *ends[:-1]][: len(ends)]}
    connection.register("expected", pa.table(table, pa.schema([("ordinal", pa.int64()), ("first_row", pa.int64())])))
    found = connection.execute(_FOUND, [str(joined)]).fetchall()
    connection.unregister("expected")
    names = [(num_rows, printable(shard)) for shard, num_rows in expected]
    wanted = [(n, num_rows, name, name, 0) for n, (num_rows, name) in enumerate(names)]
    if found != wanted:
        wrong = next((w for w, f in zip(wanted, found, strict=False) if w != f), None)
        first = f"{wrong[2]} first" if wrong else f"{len(found)} shards instead of {len(wanted)}"
        raise RunError(
            f"{place.path} would not hold the rows of its slices exactly once, in order ({first}); "
            "nothing was removed; scan the source into a new run"
        )


def _check_seams(run: Place, files: Sequence[CompactFile], parts: Sequence[Part]) -> None:
    """A shard that two files share goes on in the second where it ended in the first."""
    for before, after in pairwise(parts):
        if before.stem == after.stem:
            last = RowRange(f"{COMPACT}/{files[before.file].name}", before.first_row + before.num_rows - 1, 1)
            first = RowRange(f"{COMPACT}/{files[after.file].name}", after.first_row, 1)
            indices = rows_at(run, [last, first], ["index"])["index"].to_pylist()
            if indices[0] >= indices[1]:
                raise RunError(
                    f"index {indices[1]} of {last.path} comes again in {first.path}; nothing was removed; "
                    "scan the source into a new run"
                )


# ---- what is left over ------------------------------------------------------------------------------------------


def _remove_slices(run: Place, held: Lease) -> int:
    """Step 3: removes the result files whose rows the compacted files hold, and no others; returns how many."""
    names, stems = run.at(SCORES).names(), results(run).done.present
    replaced = [name for name in names if result_stem(name) in stems]
    compacted = _seen(run, len(replaced))
    for start in range(0, len(replaced), REMOVED_AT_ONCE):
        held.confirm()
        _remove(run.at(SCORES), replaced[start : start + REMOVED_AT_ONCE])
    held.confirm()
    _remove(run.at(COMPACT), sorted(set(run.at(COMPACT).names()) - {file.name for file in compacted.files}))
    return len(replaced)


def _seen(run: Place, num_slices_left: int) -> Manifest:
    """The manifest as it lies there. RunError where the files are not what it says."""
    compacted = manifest(run)
    assert compacted is not None
    sizes = {posixpath.basename(entry["name"]): entry["size"] for entry in run.at(COMPACT).entries()}
    wrong = next((file.name for file in compacted.files if sizes.get(file.name) != file.num_bytes), None)
    if wrong is not None:
        is_whole = num_slices_left == compacted.num_slices
        remedy = f"delete {MANIFEST} and compact again" if is_whole else "restore it from a copy"
        raise RunError(f"{run.at(COMPACT, wrong).path} is not what {MANIFEST} says; nothing was removed; {remedy}")
    return compacted


def _remove(folder: Place, names: Sequence[str]) -> None:
    with ThreadPoolExecutor(REMOVERS) as threads:
        for _ in threads.map(lambda name: folder.at(name).remove(), names):
            pass
