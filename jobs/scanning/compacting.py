"""`privsieve compact RUN`: the many small result files of a finished run become few large ones, sorted."""

import hashlib
import posixpath
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated

import pyarrow as pa

from ingest import __version__
from ingest.errors import RunError
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import Place
from jobs.console.requests import Count, Option, RunUrl, checked_request
from jobs.scanning.joining import (
    SLICES_PER_FILE,
    SliceFile,
    check_seams,
    finished_shards,
    grouped,
    hash_of,
    is_made_of,
    lines_of,
    open_duckdb,
    parts_of,
    refuse_missing,
    rows_in,
    slice_files,
    write_joined,
)
from scoring.runs import COMPACT, COMPACT_SHARDS, MANIFEST, RUN_LEASE, SCORES
from scoring.runs.footers import hash_of_marks
from scoring.runs.lease import Lease, lease
from scoring.runs.ledger import shard_id_of_result
from scoring.runs.record import RunRecord, read_record
from scoring.runs.results import PARTS_SCHEMA, CompactFile, Manifest, ResultPart, manifest, results

ROWS_PER_FILE = 2_000_000
"""About 200 MB."""


NAMED_DIGITS = 12
"""Digits of `hash_of` in the name of a file: two attempts with other slices never write to the same name."""


REMOVED_AT_ONCE = 1_000


REMOVERS = 16
"""An object store takes its time for each file, however many are removed at once."""


@checked_request
class CompactRequest:
    run: RunUrl
    """Folder or fsspec URL of a finished run."""

    rows_per_file: Annotated[Count, Option(fill=f"{SLICES_PER_FILE:,}")] = ROWS_PER_FILE
    """A file ends at this many rows, or at {} slices."""

    takeover: bool = False
    """Compact although another command holds the run."""


@dataclass(frozen=True)
class CompactResult:
    manifest: Manifest
    """What the run holds now."""

    num_removed: int
    """Small files that were removed this time."""

    was_compacted: bool
    """An earlier attempt had written the large files."""


def run_compact(request: CompactRequest) -> CompactResult:
    """Compact a run in this process, which mostly waits for the storage. Raise the errors of `ingest.errors`."""
    run, record = read_record(request.run)
    with lease(run.at(RUN_LEASE), request.run, request.takeover) as own_lease:
        before = manifest(run)
        compacted = before or _compacted(run, record, request, own_lease)
        num_removed = remove_slices(run, own_lease)
    return CompactResult(compacted, num_removed, before is not None)


def _compacted(run: Place, record: RunRecord, request: CompactRequest, own_lease: Lease) -> Manifest:
    """Make the large files and decide on them: steps 1 and 2."""
    ledger = results(run).ledger
    shards = finished_shards(request.run, record, ledger)
    slices: Iterable[SliceFile] = slice_files(run, record, shards, ledger)
    if not record.is_whole:
        slices = list(slices)
        refuse_missing(request.run, record, slices, ledger)
    new_manifest, parts = _joined(run, len(shards), grouped(slices, request.rows_per_file), own_lease)
    check_seams(run, new_manifest.files, parts)
    return _decide(run, new_manifest, parts, own_lease)


def _joined(
    run: Place, num_shards: int, groups: Iterable[list[SliceFile]], own_lease: Lease
) -> tuple[Manifest, list[ResultPart]]:
    """Take step 1: write a large file for each group. Return what the manifest will say, and where the rows are."""
    files, parts, digest, num_slices, total = list[CompactFile](), list[ResultPart](), hashlib.sha256(), 0, 0
    with tempfile.TemporaryDirectory() as aside, open_duckdb(aside) as connection:
        for slices in groups:
            own_lease.check()
            place = run.at(COMPACT, f"{len(files):05d}-{hash_of(slices)[:NAMED_DIGITS]}.parquet")
            if not is_made_of(place, slices):
                write_joined(connection, run, slices, Path(aside) / "joined.parquet", place)
            files.append(CompactFile(name=place.name, num_rows=rows_in(slices), num_bytes=place.size()))
            parts.extend(parts_of(slices, len(files) - 1))
            digest.update(lines_of(slices))
            num_slices += len(slices)
            total += sum(slice_.mark for slice_ in slices)
    new_manifest = Manifest(
        privsieve=__version__,
        num_shards=num_shards,
        num_slices=num_slices,
        num_rows=sum(file.num_rows for file in files),
        slices_sha256=digest.hexdigest(),
        rows_sha256=hash_of_marks(total),
        files=tuple(files),
    )
    return new_manifest, parts


def _decide(run: Place, new_manifest: Manifest, parts: list[ResultPart], own_lease: Lease) -> Manifest:
    """Take step 2 and return the manifest that counts: another process's, if it took the lease over and came first."""
    others = _decided_meanwhile(run, own_lease)
    if others is not None:
        return others
    rows = [dict(zip(PARTS_SCHEMA.names, astuple(part), strict=True)) for part in parts]
    write_checked(run.at(COMPACT_SHARDS), pa.Table.from_pylist(rows, schema=PARTS_SCHEMA))
    others = _decided_meanwhile(run, own_lease)
    if others is None:
        run.at(MANIFEST).write((new_manifest.model_dump_json(indent=2) + "\n").encode())
    return others or new_manifest


def _decided_meanwhile(run: Place, own_lease: Lease) -> Manifest | None:
    """Return the manifest that a process without the lease has written, or None. IncompleteError if ours was taken."""
    own_lease.confirm()
    return manifest(run)


def remove_slices(run: Place, own_lease: Lease) -> int:
    """Take step 3: remove the result files whose rows the compacted files hold, and no others. Return how many."""
    names, shard_ids = run.at(SCORES).names(), results(run).ledger.present
    replaced = [name for name in names if shard_id_of_result(name) in shard_ids]
    compacted = _seen(run, len(replaced))
    for start in range(0, len(replaced), REMOVED_AT_ONCE):
        own_lease.confirm()
        _remove(run.at(SCORES), replaced[start : start + REMOVED_AT_ONCE])
    own_lease.confirm()
    _remove(run.at(COMPACT), sorted(set(run.at(COMPACT).names()) - {file.name for file in compacted.files}))
    return len(replaced)


def _seen(run: Place, num_slices_left: int) -> Manifest:
    """Return the stored manifest. RunError if the files are not what it says."""
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
