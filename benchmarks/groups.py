"""What `groups` of a policy costs on a run of many rows, beside the same dry run without groups.

    python -m benchmarks.groups [--num-rows 1000000] [--folder FOLDER]

The run is made up, once, and kept in FOLDER: random hashes, and a fifth of the rows are near copies of others, each
with up to 4 of 64 bits changed. Each measurement has a process of its own, so that its peak memory is its
own.
"""

import multiprocessing
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import measured
from benchmarks.filter import DROP_ALL, filtered, run_of
from scoring.table import SCHEMA, Col
from tests.records import write_result

COPIES = 5
"""Every fifth row is a near copy of the one before it."""

CHANGED = 4
"""Most bits in which a copy differs."""


def _hashes(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random hashes, shape (count, 8); every fifth is the one before it with some bits changed."""
    hashes = rng.integers(0, 256, (count, 8), np.uint8)
    hashes[COPIES - 1 :: COPIES] = hashes[COPIES - 2 :: COPIES][: len(hashes[COPIES - 1 :: COPIES])]
    copies = np.arange(COPIES - 1, count, COPIES)
    for _ in range(CHANGED):
        bits = rng.integers(0, 64, len(copies))
        hashes[copies, bits // 8] ^= (1 << (bits % 8)).astype(np.uint8)
    return hashes


def _with_hashes(run: Path) -> None:
    """Give all rows hashes."""
    for number, file in enumerate(sorted((run / "scores").iterdir())):
        table = pq.read_table(file, schema=SCHEMA)
        shard, hashes = table["shard"][0].as_py(), _hashes(np.random.default_rng(number), table.num_rows)
        field = SCHEMA.field(Col.PHASH)
        texts = pa.array([row.tobytes().hex() for row in hashes], field.type)
        table = table.set_column(SCHEMA.get_field_index(Col.PHASH), field, texts)
        file.unlink()
        write_result(run, shard, 0, True, table)


@click.command()
@click.option("--num-rows", default=1_000_000, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path(tempfile.gettempdir()) / "privsieve-groups")
def benchmark(num_rows: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    policy = folder / "drop-all.yaml"
    is_new = not (folder / "hashed").exists()
    run = run_of(folder, num_rows)
    if is_new:
        _with_hashes(run)
        (folder / "hashed").touch()
    plain = None
    for kind in ("", "phash"):
        policy.write_text(DROP_ALL + (f"groups: {kind}\n" if kind else ""))
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            arguments = (str(run), str(policy), str(folder / "out"), "--dry-run")
            seconds, cpu_seconds, peak_gb, _ = process.submit(measured, filtered, *arguments).result()
        plain = plain or (cpu_seconds, peak_gb)
        click.echo(
            f"{kind or 'no groups':9} {num_rows:>11,} rows {seconds:7.1f} s {cpu_seconds:7.1f} s CPU "
            f"{cpu_seconds / plain[0]:6.2f} x {peak_gb:6.2f} GB {peak_gb / plain[1]:5.2f} x"
        )
    shutil.rmtree(folder / "out", ignore_errors=True)


if __name__ == "__main__":
    benchmark()
