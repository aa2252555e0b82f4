"""The end of a scan: many small result files of a finished run become few large ones, sorted.

First the large files are written. Then `compact.json` names them, and from that moment they are the rows of the run.
At last the small files are removed. A scan that is killed before the second step leaves the run as it was; after it,
the next scan removes the rest.
"""

import hashlib
import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from itertools import groupby, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest import __version__
from ingest.errors import RunError
from ingest.sample import printable
from ingest.storage.parquet_tables import in_row_groups, write_checked
from ingest.storage.place import Place
from jobs.runtime.progress import Meter
from scoring.runs import COMPACT, MANIFEST, SCORES
from scoring.runs.footers import footer_of, footers, hash_of_marks
from scoring.runs.lease import Lease
from scoring.runs.ledger import result_names, shard_id_of, shard_id_of_result
from scoring.runs.results import (
    PARTS_SCHEMA,
    CompactFile,
    Manifest,
    ResultPart,
    RowRange,
    RunListing,
    listing,
    manifest,
    results,
)
from scoring.runs.rows import rows_at
from scoring.screen.guard import GuardCounts, left_out
from scoring.table import SCHEMA, Col

COMPACT_FROM = 1_000
"""Small files of a finished run that are joined; each takes a report about 2 ms, and a list of an object store a
thousandth of a second."""

ROWS_PER_FILE = 2_000_000
"""About 200 MB."""

SLICES_PER_FILE = 4_096
"""A file ends here at the latest, however few rows its slices have."""

ROWS_PER_GROUP = 40_960
"""Few enough that the rows of one shard are read without many others, and enough to compress well."""

NAMED_DIGITS = 12
"""Digits of a hash in the name of a file: two attempts with other slices never write to the same name."""

AT_ONCE = 16
"""An object store takes its time for each file, however many are read or removed at once."""

REMOVED_AT_ONCE = 1_000


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


def compact(run: Place, shards: Sequence[str], settings: str, own_lease: Lease, meter: Meter) -> None:
    """Join the small files of a run if there are many, and remove those that large ones have replaced.

    shards: of the source, with all slices. settings: `RunRecord.settings_hash`. RunError if the small files do not hold
    each row once, IncompleteError if another command has taken the run over; then nothing is removed.
    """
    listed = listing(run)
    if len(listed.names) >= COMPACT_FROM:
        meter.phase(f"joining {len(listed.names):,} result files")
        _join(run, listed, shards, settings, own_lease)
        listed = listing(run)
    if listed.replaced:
        _remove_replaced(run, listed, own_lease)


def _join(run: Place, listed: RunListing, shards: Sequence[str], settings: str, own_lease: Lease) -> None:
    """Write the large files and decide on them."""
    before = listed.manifest
    files, parts = list(before.files if before else ()), list(listed.parts)
    total, end = int(before.rows_sha256, 16) if before else 0, ("", -1)
    current = results(run, listed)
    loose = [shard for shard in shards if shard_id_of(shard) not in current.ranges]
    named = [(shard, name) for shard in loose for name in result_names(shard, current.ledger)]
    read = zip(named, footers(run, (name for _, name in named), settings), strict=True)
    small = (SliceFile(shard, name, f.num_rows, f.mark, f.blocks_sha256) for (shard, name), f in read)
    for slices in _grouped(small):
        own_lease.check()
        place = run.at(COMPACT, f"{len(files):05d}-{_hash_of(slices)[:NAMED_DIGITS]}.parquet")
        end = _write(run, slices, place, end)
        parts += _parts_of(slices, len(files))
        files.append(CompactFile(name=place.name, num_rows=sum(s.num_rows for s in slices), num_bytes=place.size()))
        total += sum(slice_.mark for slice_ in slices)
    name = f"shards-{hashlib.sha256(''.join(file.name for file in files).encode()).hexdigest()[:NAMED_DIGITS]}.parquet"
    rows = [dict(zip(PARTS_SCHEMA.names, astuple(part), strict=True)) for part in parts]
    own_lease.confirm()
    write_checked(run.at(COMPACT, name), pa.Table.from_pylist(rows, schema=PARTS_SCHEMA))
    decided = Manifest(
        privsieve=__version__,
        num_rows=sum(file.num_rows for file in files),
        rows_sha256=hash_of_marks(total),
        shards=name,
        files=tuple(files),
    )
    own_lease.confirm()
    if manifest(run) == before:  # else another process took the lease over, came first, and lost it again
        run.at(MANIFEST).write((decided.model_dump_json(indent=2) + "\n").encode())


def _grouped(slices: Iterator[SliceFile]) -> Iterator[list[SliceFile]]:
    """Yield the slices of each large file. They follow from their names and row counts alone."""
    group, num_rows = list[SliceFile](), 0
    for slice_ in slices:
        if group and (num_rows + slice_.num_rows > ROWS_PER_FILE or len(group) == SLICES_PER_FILE):
            yield group
            group, num_rows = [], 0
        group.append(slice_)
        num_rows += slice_.num_rows
    if group:
        yield group


def _hash_of(slices: Sequence[SliceFile]) -> str:
    """Return a hash of names and row counts, which identifies the content of a large file."""
    return hashlib.sha256("".join(f"{item.name} {item.num_rows}\n" for item in slices).encode()).hexdigest()


def _parts_of(slices: Sequence[SliceFile], file: int) -> Iterator[ResultPart]:
    first_row = 0
    for shard_id, group in groupby(slices, key=lambda item: shard_id_of_result(item.name)):
        of_shard = list(group)
        num_rows, blocks = sum(item.num_rows for item in of_shard), {item.blocks_sha256 for item in of_shard}
        same_blocks = blocks.pop() if len(blocks) == 1 else ""
        yield ResultPart(shard_id, len(of_shard), file, first_row, num_rows, same_blocks)
        first_row += num_rows


def _write(run: Place, slices: Sequence[SliceFile], place: Place, end: tuple[str, int]) -> tuple[str, int]:
    """Write one large file, whole or not at all. Return the shard and index of its last row. end: of the file before.
    DuckDB does not do it, since it neither checks nor writes the checksums of pages."""
    reasons, screened = Counter[str](), GuardCounts()

    def rows() -> Iterator[pa.Table]:
        nonlocal end
        waiting = iter(slices)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            while window := list(islice(waiting, AT_ONCE)):
                read = threads.map(lambda item: rows_at(run, [RowRange(posixpath.join(SCORES, item.name))]), window)
                for slice_, table in zip(window, read, strict=True):
                    end = _end_of(slice_, table, end)
                    yield table

    with place.create() as stream, pq.ParquetWriter(stream, SCHEMA, compression="zstd", write_page_checksum=True) as to:
        for table in in_row_groups(rows(), ROWS_PER_GROUP):
            to.write_table(table, ROWS_PER_GROUP)
            screened += left_out(table)
            reasons.update({n["values"]: n["counts"] for n in table[Col.REASON].drop_null().value_counts().to_pylist()})
        texts = {"screen": screened.text} if screened.num_seen else {}
        num_rows = sum(slice_.num_rows for slice_ in slices)
        to.add_key_value_metadata(footer_of(texts | {"slices": _hash_of(slices)}, num_rows, reasons))
    return end


def _end_of(slice_: SliceFile, table: pa.Table, end: tuple[str, int]) -> tuple[str, int]:
    """Return shard and index of the last row so far. RunError unless the rows are those of the slice, each once and in
    order, after `end`."""
    shard = printable(slice_.shard)
    before = end[1] if end[0] == shard else -1
    indices = np.concatenate([[before], table[Col.INDEX].to_numpy()])
    is_right = table.num_rows == slice_.num_rows and pc.all(pc.equal(table[Col.SHARD], shard)).as_py() is not False
    if not is_right or (np.diff(indices) <= 0).any():
        raise RunError(
            f"{slice_.name} does not hold the rows of its slice of {shard} exactly once, in order; nothing was "
            "removed; scan the source into a new run"
        )
    return shard, int(indices[-1])


def _remove_replaced(run: Place, listed: RunListing, own_lease: Lease) -> None:
    """Remove the small files whose rows the large ones hold. RunError if they are not those of the manifest."""
    assert listed.manifest is not None
    sizes = {posixpath.basename(entry["name"]): entry["size"] for entry in run.at(COMPACT).entries()}
    wrong = next((file.name for file in listed.manifest.files if sizes.get(file.name) != file.num_bytes), None)
    if wrong is not None:
        path = run.at(COMPACT, wrong).path
        raise RunError(f"{path} is not what {MANIFEST} says; nothing was removed; restore it from a copy")
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for start in range(0, len(listed.replaced), REMOVED_AT_ONCE):
            own_lease.confirm()
            names = listed.replaced[start : start + REMOVED_AT_ONCE]
            list(threads.map(lambda name: run.at(SCORES, name).remove(), names))
        own_lease.confirm()
        of_other_attempts = sizes.keys() - {listed.manifest.shards, *(file.name for file in listed.manifest.files)}
        list(threads.map(lambda name: run.at(COMPACT, name).remove(), sorted(of_other_attempts)))
