"""What `filter` costs: the memory of the process that leads it, and its speed beside a plain copy of the tars.

    python -m benchmarks.filter [--num-rows 100000 --num-rows 1000000 …] [--num-gb 1] [--folder FOLDER]

Runs and tars are made once and kept in FOLDER. Each measurement has a process of its own, so that its peak memory is
its own. "release" keeps no image: it writes and joins the decisions and copies nothing.
"""

import hashlib
import io
import json
import multiprocessing
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

import click
import numpy as np

from benchmarks.figures import make_run, measured
from jobs.cli import main
from scoring.assessment import Assessment
from scoring.table import Facts, to_table
from scoring.taxonomy import KEYS
from tests.records import run_record, write_result

ROWS_PER_SHARD = 10_000
IMAGES_PER_TAR = 1_000
IMAGE_BYTES = 100_000
DROP_ALL = "name: drop-all\ndefault: drop\nrules:\n  - {name: faces, when: level = 1, then: drop, reason: a face}\n"
KEEP_ALL = "name: keep-all\ndefault: keep\nquarantined: keep\nrules: []\n"


def run_of(folder: Path, num_rows: int) -> Path:
    """A finished run of many rows, and its corpus of tars, which are empty: decisions do not read them."""
    num_shards = max(1, num_rows // ROWS_PER_SHARD)
    source = folder / f"corpus-{num_rows}"
    source.mkdir(exist_ok=True)
    run = make_run(folder, num_rows, num_shards, source=str(source))
    for number in range(num_shards):
        (source / f"{number:05d}.tar").touch()
    return run


def _tars(folder: Path, num_tars: int) -> tuple[Path, Path]:
    """Tars of random bytes, and a run in which all of them were scored."""
    source, run = folder / f"tars-{num_tars}", folder / f"run-of-tars-{num_tars}"
    made = folder / f"tars-{num_tars}.made"
    if made.exists():
        return source, run
    source.mkdir(exist_ok=True)
    (run / "scores").mkdir(parents=True, exist_ok=True)
    record = run_record({"name": "canned", "protocol": "sha256", "assessed": list(KEYS)})
    (run / "run.json").write_text(json.dumps(record.model_dump() | {"source": str(source)}))
    rng = np.random.default_rng(0)
    for number in range(num_tars):
        shard, facts = f"{number:05d}.tar", []
        with tarfile.open(source / shard, "w") as archive:
            for index in range(IMAGES_PER_TAR):
                content, key = rng.bytes(IMAGE_BYTES), f"{index:06d}"
                info = tarfile.TarInfo(f"{key}.jpg")
                info.size = IMAGE_BYTES
                archive.addfile(info, io.BytesIO(content))
                facts.append(Facts(shard, index, key, None, IMAGE_BYTES, hashlib.sha256(content).hexdigest()))
        rows = to_table(facts, [Assessment(np.zeros(len(KEYS), np.float32))] * IMAGES_PER_TAR)
        write_result(run, shard, 0, True, rows)
    made.touch()
    return source, run


def filtered(run: str, policy: str, out: str, *more: str) -> str:
    shutil.rmtree(out, ignore_errors=True)
    printed = io.StringIO()
    with redirect_stdout(printed):
        try:
            main(["filter", run, "--policy", policy, "--out", out, "--quiet", *more])
        except SystemExit as done:
            if done.code:
                raise RuntimeError(f"exit code {done.code}") from None
    return next(line for line in printed.getvalue().splitlines() if line.startswith("policy"))


def _copy(source: str, out: str) -> str:
    shutil.rmtree(out, ignore_errors=True)
    Path(out).mkdir()
    for path in sorted(Path(source).iterdir()):
        with tarfile.open(path) as before, tarfile.open(Path(out) / path.name, "w") as after:
            for member in before:
                after.addfile(member, before.extractfile(member))
    return "tarfile"


def _alone(work: Callable[..., str], *arguments: str) -> tuple[float, float, str]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        seconds, _, peak_gb, answer = process.submit(measured, work, *arguments).result()
    return seconds, peak_gb, answer


@click.command()
@click.option("--num-rows", "sizes", type=int, multiple=True, default=(100_000, 1_000_000, 5_000_000))
@click.option("--num-gb", type=float, default=1.0, show_default=True, help="Size of the tars that are copied.")
@click.option("--repeats", default=3, show_default=True, help="Of each copy; the fastest counts.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path(tempfile.gettempdir()) / "privsieve-filter")
def benchmark(sizes: tuple[int, ...], num_gb: float, repeats: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    drop_all, keep_all, out = folder / "drop-all.yaml", folder / "keep-all.yaml", str(folder / "out")
    drop_all.write_text(DROP_ALL)
    keep_all.write_text(KEEP_ALL)
    for num_rows in sizes:
        run = str(run_of(folder, num_rows))
        for what, more in (("dry run", "--dry-run"), ("release", "--executor=inline")):
            seconds, peak_gb, _ = _alone(filtered, run, str(drop_all), out, more)
            click.echo(f"{what:8} {num_rows:>11,} rows {seconds:7.1f} s {peak_gb:6.2f} GB")
    if num_gb:
        source, of_tars = _tars(folder, max(1, round(num_gb * 1e9 / IMAGES_PER_TAR / IMAGE_BYTES)))
        work: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
            "tarfile": (_copy, (str(source), out)),
            "inline": (filtered, (str(of_tars), str(keep_all), out, "--executor=inline")),
            "ray": (filtered, (str(of_tars), str(keep_all), out, "--executor=ray")),
        }
        fastest = {name: min(_alone(call, *values)[0] for _ in range(repeats)) for name, (call, values) in work.items()}
        for name, seconds in fastest.items():
            click.echo(f"{name:8} {num_gb:g} GB {seconds:7.1f} s  {fastest['tarfile'] / seconds:5.2f} x the plain copy")
    shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    benchmark()
