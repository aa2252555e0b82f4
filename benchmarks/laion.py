"""What a run of LAION's size costs beside its pictures: 41,455 shards of 10,000 pictures, of which none exists.

    python -m benchmarks.laion [--num-shards 41455] [--rows-per-shard 40]

The shards are empty files with the names and counts that img2dataset leaves; the results are canned answers, written as
`compact` leaves them, so few per shard that they fit on a disk. Each measurement has a process of its own, so that its
peak memory is its own; what it counted comes last.

    listing     the shards of the source, from the folder
    counts      the numbers of pictures beside all shards
    drawing     100 of the shards
    resume      from the names of 10 results for each shard to what is left
    status      `status`, and of the compacted run
    report      `report --format json` of the same two
    by shards   the same of a run of a hundredth of the shards, which were drawn, with ten times as many pictures each
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np

from ingest.formats import open_source, stated_counts
from jobs.scanning.chosen import draw_shards
from scoring.runs.ledger import finished, ledger_of, shard_id_of
from scoring.table import Facts, to_table
from tests.jobs.made import compact_run
from tests.records import run_record, write_result
from tests.reports.conftest import answer

NUM_SLICES = 10
PER_SHARD = 10_000
LISTED_SHARDS = 4


def _corpus(folder: Path, num_shards: int) -> Path:
    """Empty tars but for some, with the counts of img2dataset beside."""
    source = folder / "source"
    source.mkdir()
    for number in range(num_shards):
        (source / f"{number:05d}.tar").touch()
        stats = {"count": PER_SHARD, "successes": PER_SHARD}
        (source / f"{number:05d}_stats.json").write_text(json.dumps(stats))
    return source


def _run(folder: Path, source: Path, num_shards: int, rows_per_shard: int, is_drawn: bool) -> Path:
    """One result for each shard: canned answers that are alike within a shard."""
    run = folder / ("drawn" if is_drawn else "run")
    (run / "scores").mkdir(parents=True)
    engine = {"name": "canned", "protocol": "canned", "assessed": ["gov_ids", "age"]}
    drawn = {"sample": num_shards * rows_per_shard, "seed": 0, "shards": num_shards}
    drawn |= {"num_source_shards": 100 * num_shards, "num_in_shards": num_shards * PER_SHARD}
    settings = {"source": str(source), **(drawn if is_drawn else {})}
    record = run_record(engine).model_copy(update=settings)
    (run / "run.json").write_text(record.model_dump_json())
    random, rates = np.random.default_rng(0), np.random.default_rng(1).beta(1, 9, num_shards)
    verdicts = (answer(), answer(gov_ids=1))
    for number in range(num_shards):
        name = f"{number:05d}.tar"
        facts = [
            Facts(name, n, f"{n:09d}", f"category {n % 50}", 9, f"{number:032x}{n:032x}") for n in range(rows_per_shard)
        ]
        answers = [verdicts[int(one)] for one in random.random(rows_per_shard) < rates[number]]
        rows = to_table(facts, answers)
        write_result(run, name, 0, True, rows)
    return run


def _listing(source: str, num_shards: int) -> str:
    return f"{len(open_source(source, 'webdataset', None).shards):,} shards"


def _counts(source: str, num_shards: int) -> str:
    found = stated_counts(open_source(source, "webdataset", None))
    return f"{found.num_images:,} images stated next to {len(found.by_shard):,} shards"


def _drawing(source: str, num_shards: int) -> str:
    return f"{len(draw_shards(open_source(source, 'webdataset', None).shards, 100, 0)):,} shards drawn"


def _resume(source: str, num_shards: int) -> str:
    shards = open_source(source, "webdataset", None).shards
    names = [
        f"{shard_id_of(shard)}.{number:05d}{'-last' if number == NUM_SLICES - 1 else ''}.parquet"
        for shard in shards
        for number in range(NUM_SLICES if shard[-5] != "7" else NUM_SLICES - 1)
    ]
    began = time.perf_counter()
    ledger = ledger_of(names)
    left = sum(not finished(shard, ledger) for shard in shards)
    return f"{len(names):,} names, {left:,} shards left; {time.perf_counter() - began:.1f} s of it from names"


MEASURED: dict[str, Callable[[str, int], str]] = {
    "listing": _listing,
    "counts": _counts,
    "drawing": _drawing,
    "resume": _resume,
}


def _in_own_process(label: str, arguments: list[str]) -> str:
    """Seconds and peak memory of a process; its last line of output if it is one of this module."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    assert status == 0 or label == "status", (label, output, process.stderr.read() if process.stderr else "")
    said = output.strip().splitlines()[-1][:100] if "benchmarks.laion" in arguments else ""
    cpu_s, peak_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    return f"{label:10} {seconds:7.1f} s   {cpu_s:7.1f} s CPU   peak {peak_mb:6,.0f} MB   {said}"


@click.command()
@click.option("--num-shards", type=click.IntRange(min=200), default=41_455, show_default=True)
@click.option("--rows-per-shard", type=click.IntRange(min=1), default=40, show_default=True)
@click.option("--part", type=click.Choice(list(MEASURED)), hidden=True)
@click.option("--source", hidden=True)
def main(num_shards: int, rows_per_shard: int, part: str | None, source: str | None) -> None:
    """Prints a line for each measurement."""
    if part is not None and source is not None:
        click.echo(MEASURED[part](source, num_shards))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = _corpus(folder, num_shards)
        for label in MEASURED:
            own = ["-m", "benchmarks.laion", "--part", label, "--source", str(corpus)]
            click.echo(_in_own_process(label, [*own, "--num-shards", str(num_shards)]))
        command = ["-m", "jobs"]
        for is_drawn in (False, True):
            sizes = (num_shards // 100, 10 * rows_per_shard) if is_drawn else (num_shards, rows_per_shard)
            run = str(_run(folder, corpus, *sizes, is_drawn))
            if is_drawn:
                click.echo(_in_own_process("by shards", [*command, "report", run, "--format", "json"]))
                continue
            click.echo(_in_own_process("status", [*command, "status", run]))
            click.echo(_in_own_process("report", [*command, "report", run, "--format", "json"]))
            compact_run(run)
            click.echo(_in_own_process("status, c.", [*command, "status", run]))
            click.echo(_in_own_process("report, c.", [*command, "report", run, "--format", "json"]))


if __name__ == "__main__":
    main()
