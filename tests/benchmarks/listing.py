"""What it costs to continue a scan of 500,000 shards of 10 slices each: from the names of results to what is left.

    python -m tests.benchmarks.listing [--num-shards 500000] [--num-slices 10] [--num-files 200000]

Each measurement has a process of its own, so that its peak memory is its own; each ends with what it counted.

    names       the listing itself: the names as a list of strings, as a listing leaves them (not part of the work)
    resume      the same, then names -> by_shard -> finished for every shard -> what is left
    results     the same from `compact-shards.parquet` of a compacted run instead of from names
    folder      listing a real folder of empty files on the local disk with `Place.names`

One shard in a hundred lacks its last slice, so that something is left.
"""

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.results import COMPACT, MANIFEST, PARTS, PARTS_SCHEMA, CompactFile, Manifest, results
from ingest.slices import by_shard, file_name, finished, result_names, stem_of
from ingest.storage import Place, place

SHARDS_PER_FILE = 200


def _shards(num_shards: int) -> list[str]:
    return [f"{number // 1000:03d}/{number:06d}.tar" for number in range(num_shards)]


def _lacks_last(number: int) -> bool:
    return number % 100 == 7


def _names(shards: list[str], num_slices: int) -> list[str]:
    """As `file_name` makes them; the part that all slices of a shard share is made once."""
    names: list[str] = []
    for number, shard in enumerate(shards):
        stem = stem_of(shard)
        names += [f"{stem}.{n:05d}.parquet" for n in range(num_slices - 1)]
        if not _lacks_last(number):
            names.append(file_name(shard, num_slices - 1, True))
    return names


def _made(num_shards: int, num_slices: int) -> tuple[float, str]:
    shards = _shards(num_shards)
    started = time.perf_counter()
    names = _names(shards, num_slices)
    return time.perf_counter() - started, f"{len(names):,} names"


def _resume(num_shards: int, num_slices: int) -> tuple[float, str]:
    shards = _shards(num_shards)
    names = _names(shards, num_slices)
    started = time.perf_counter()
    done = by_shard(names)
    left = [shard for shard in shards if not finished(shard, done)]
    there = sum(len(result_names(shard, done)) for shard in left)
    seconds = time.perf_counter() - started
    assert len(left) == sum(map(_lacks_last, range(num_shards)))
    assert there == len(left) * (num_slices - 1)
    return seconds, f"{len(names):,} names, {len(left):,} shards left, which have {there:,} slices"


def _compacted(num_shards: int, num_slices: int) -> tuple[float, str]:
    shards = _shards(num_shards)
    with tempfile.TemporaryDirectory() as folder:
        _write_parts(place(folder), shards, num_slices)
        started = time.perf_counter()
        known = results(place(folder))
        left = [shard for shard in shards if not finished(shard, known.done)]
        seconds = time.perf_counter() - started
        size = (Path(folder) / PARTS).stat().st_size
    assert not left
    return seconds, f"{len(known.done):,} shards, none left; {PARTS} has {size / 1e6:.1f} MB"


def _write_parts(run: Place, shards: list[str], num_slices: int) -> None:
    numbers = range(len(shards))
    columns = {
        "stem": [stem_of(shard) for shard in shards],
        "num_slices": [num_slices] * len(shards),
        "file": [number // SHARDS_PER_FILE for number in numbers],
        "first_row": [number % SHARDS_PER_FILE * 10_000 for number in numbers],
        "num_rows": [10_000] * len(shards),
    }
    with run.at(PARTS).create() as stream:
        pq.write_table(pa.table(columns, PARTS_SCHEMA), stream, compression="zstd")
    num_files = -(-len(shards) // SHARDS_PER_FILE)
    files = tuple(CompactFile(name=f"{n:05d}.parquet", num_rows=2_000_000, num_bytes=0) for n in range(num_files))
    described = Manifest(
        privsieve="0",
        num_shards=len(shards),
        num_slices=len(shards) * num_slices,
        num_rows=len(shards) * 10_000,
        slices_sha256="",
        files=files,
    )
    run.at(MANIFEST).write(described.model_dump_json().encode())
    assert not run.at(COMPACT).exists()


def _folder(num_shards: int, num_slices: int) -> tuple[float, str]:
    expected = _names(_shards(num_shards), num_slices)
    with tempfile.TemporaryDirectory() as folder:
        for name in expected:
            Path(folder, name).touch()
        started = time.perf_counter()
        names = place(folder).names()
        seconds = time.perf_counter() - started
    assert names == sorted(expected)
    return seconds, f"{len(names):,} empty files"


def _measured(label: str, work: Callable[[int, int], tuple[float, str]], num_shards: int, num_slices: int) -> str:
    seconds, counted = work(num_shards, num_slices)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{label:10} {seconds:7.1f} s   peak {peak_mb:6,.0f} MB   {counted}"


@click.command()
@click.option("--num-shards", type=click.IntRange(min=100), default=500_000, show_default=True)
@click.option("--num-slices", type=click.IntRange(min=2), default=10, show_default=True)
@click.option("--num-files", type=click.IntRange(min=10), default=200_000, show_default=True)
def main(num_shards: int, num_slices: int, num_files: int) -> None:
    """Measure the start of a scan that is continued."""
    fresh = multiprocessing.get_context("spawn")
    for label, work, shards in (
        ("names", _made, num_shards),
        ("resume", _resume, num_shards),
        ("results", _compacted, num_shards),
        ("folder", _folder, num_files // num_slices),
    ):
        with ProcessPoolExecutor(1, fresh) as process:
            click.echo(process.submit(_measured, label, work, shards, num_slices).result())


if __name__ == "__main__":
    main()
