"""What it costs to continue a scan of 500,000 shards of 10 slices each: from the names of results to what is left.

    python -m benchmarks.listing [--num-shards 500000] [--num-slices 10] [--num-files 200000]
        [--num-objects 1000000]

Each measurement has a process of its own, so that its peak memory is its own; each ends with what it counted.

    names       the listing itself: the names as a list of strings, as a listing leaves them (not part of the work)
    resume      the same, then names -> ledger_of -> finished for every shard -> what is left
    results     the same from the list of shards of a compacted run instead of from names
    folder      listing a real folder of empty files on the local disk with `Place.names`
    s3          as resume, with `results` of a run on S3: the driver asks a server beside it for pages of 1,000 names,
                which are made up but else as those of AWS; the server answers at once and takes from the same cores

One shard in a hundred lacks its last slice, so that something is left.
"""

import multiprocessing
import os
import resource
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import click
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.storage.place import Place, place
from scoring.runs import COMPACT, MANIFEST, SCORES
from scoring.runs.ledger import finished, ledger_of, result_name, result_names, shard_id_of
from scoring.runs.results import PARTS_SCHEMA, CompactFile, Manifest, results

PARTS = "shards-0.parquet"
SHARDS_PER_FILE = 200
NAMES_PER_PAGE = 1000

OBJECT = (
    "<Contents><Key>{}</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified>"
    "<ETag>&quot;9b2cf535f27731c974343645a3985328&quot;</ETag><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>"
    "<ChecksumType>FULL_OBJECT</ChecksumType><Size>112640</Size><StorageClass>STANDARD</StorageClass></Contents>"
)
PAGE = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<KeyCount>{}</KeyCount><IsTruncated>{}</IsTruncated>{}{}</ListBucketResult>"
)


def _shards(num_shards: int) -> list[str]:
    return [f"{number // 1000:03d}/{number:06d}.tar" for number in range(num_shards)]


def _lacks_last(number: int) -> bool:
    return number % 100 == 7


def _names(shards: list[str], num_slices: int) -> list[str]:
    """As `result_name` makes them; the part that all slices of a shard share is made once."""
    names: list[str] = []
    for number, shard in enumerate(shards):
        shard_id = shard_id_of(shard)
        names += [f"{shard_id}.{n:05d}.parquet" for n in range(num_slices - 1)]
        if not _lacks_last(number):
            names.append(result_name(shard, num_slices - 1, True))
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
    ledger = ledger_of(names)
    left = [shard for shard in shards if not finished(shard, ledger)]
    there = sum(len(result_names(shard, ledger)) for shard in left)
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
        left = [shard for shard in shards if not finished(shard, known.ledger)]
        seconds = time.perf_counter() - started
        size = (Path(folder) / COMPACT / PARTS).stat().st_size
    assert not left
    return seconds, f"{len(known.ledger):,} shards, none left; the list of their rows has {size / 1e6:.1f} MB"


def _write_parts(run: Place, shards: list[str], num_slices: int) -> None:
    numbers = range(len(shards))
    columns = {
        "shard_id": [shard_id_of(shard) for shard in shards],
        "num_slices": [num_slices] * len(shards),
        "file": [number // SHARDS_PER_FILE for number in numbers],
        "first_row": [number % SHARDS_PER_FILE * 10_000 for number in numbers],
        "num_rows": [10_000] * len(shards),
        "blocks_sha256": [""] * len(shards),
    }
    with run.at(COMPACT, PARTS).create() as stream:
        pq.write_table(pa.table(columns, PARTS_SCHEMA), stream, compression="zstd")
    num_files = -(-len(shards) // SHARDS_PER_FILE)
    files = tuple(CompactFile(name=f"{n:05d}.parquet", num_rows=2_000_000, num_bytes=0) for n in range(num_files))
    described = Manifest(privsieve="0", num_rows=len(shards) * 10_000, rows_sha256="0" * 64, shards=PARTS, files=files)
    run.at(MANIFEST).write(described.model_dump_json().encode())


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


def _serve(num_shards: int, num_slices: int, tell_port: Connection) -> None:
    """The part of S3 that a listing needs, over a bucket that holds the run's result files and no more."""
    keys = sorted(f"run/{SCORES}/{name}" for name in _names(_shards(num_shards), num_slices))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            start = max(bisect_left(keys, asked["prefix"]), bisect_right(keys, asked.get("continuation-token", "")))
            end = max(start, bisect_left(keys, asked["prefix"] + "\x7f"))
            page = keys[start : min(end, start + int(asked.get("max-keys", NAMES_PER_PAGE)))]
            has_more = start + len(page) < end
            token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if has_more else ""
            objects = "".join(map(OBJECT.format, page))
            content = PAGE.format(len(page), str(has_more).lower(), token, objects).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    tell_port.send(server.server_address[1])
    server.serve_forever()


def _s3(num_shards: int, num_slices: int) -> tuple[float, str]:
    shards = _shards(num_shards)
    fresh = multiprocessing.get_context("spawn")
    receiver, tell = fresh.Pipe(duplex=False)
    server = fresh.Process(target=_serve, args=(num_shards, num_slices, tell))
    server.start()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{receiver.recv()}",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        started, started_cpu = time.perf_counter(), time.process_time()
        ledger = results(place("s3://bucket/run")).ledger
        left = [shard for shard in shards if not finished(shard, ledger)]
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu
    finally:
        server.terminate()
        server.join()
    assert len(left) == sum(map(_lacks_last, range(num_shards)))
    num_names = sum(bits.bit_count() for bits in ledger.present.values())
    assert num_names == num_shards * num_slices - len(left)
    return seconds, f"{num_names:,} names, {len(left):,} shards left; {cpu_seconds:.1f} s of CPU time"


def _measured(label: str, work: Callable[[int, int], tuple[float, str]], num_shards: int, num_slices: int) -> str:
    seconds, counted = work(num_shards, num_slices)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{label:10} {seconds:7.1f} s   peak {peak_mb:6,.0f} MB   {counted}"


@click.command()
@click.option("--num-shards", type=click.IntRange(min=100), default=500_000, show_default=True)
@click.option("--num-slices", type=click.IntRange(min=2), default=10, show_default=True)
@click.option("--num-files", type=click.IntRange(min=10), default=200_000, show_default=True)
@click.option("--num-objects", type=click.IntRange(min=1000), default=1_000_000, show_default=True)
def main(num_shards: int, num_slices: int, num_files: int, num_objects: int) -> None:
    """Measure the start of a scan that is continued."""
    fresh = multiprocessing.get_context("spawn")
    for label, work, shards in (
        ("names", _made, num_shards),
        ("resume", _resume, num_shards),
        ("results", _compacted, num_shards),
        ("folder", _folder, num_files // num_slices),
        ("s3", _s3, num_objects // num_slices),
    ):
        with ProcessPoolExecutor(1, fresh) as process:
            click.echo(process.submit(_measured, label, work, shards, num_slices).result())


if __name__ == "__main__":
    main()
