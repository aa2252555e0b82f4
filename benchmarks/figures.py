"""What a report and SQL cost on a run of many rows, beside a plain group-by of the same files with polars.

    python -m benchmarks.figures [--num-rows 50000000] [--num-files 500] [--folder FOLDER] [--question NAME …]

Makes the run once and keeps it in FOLDER: few distinct answers, 365 categories, three images in a hundred quarantined.
Each measurement has a process of its own and prints its seconds, its CPU seconds, which say more on a busy machine, the
ratio of both to the group-by, and its peak memory.

`--question diff` compares the run with a second one of the same images, of which one in five has another answer: once
within the free room, and once within `--room-gb` of memory and temporary folder together.
"""

import json
import multiprocessing
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from itertools import repeat
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from ingest.errors import Fault
from jobs.cli import main
from reports.diff.compute import compare_runs
from scoring.assessment import Assessment, View
from scoring.engines.canned import CannedEngine
from scoring.table import SCHEMA, Facts, to_table
from scoring.taxonomy import KEYS
from tests.records import run_record, write_result

NUM_PATTERNS = 3000
NUM_CATEGORIES = 365
QUARANTINED_SHARE = 0.03
EXPONENT = 1.3
"""Of how often the n-th most frequent answer comes: most images show nothing, or the same few things."""

OTHER, CHANGED_SHARE = "other", 0.2
"""The second run of `diff`, and the share of its images that have another answer."""

QUERIES = {
    "rates": "SELECT category, privacy_rate FROM rates ORDER BY 2 DESC LIMIT 10",
    "attributes": "SELECT attribute, avg(value) FROM attributes WHERE status = 'scored' GROUP BY 1 ORDER BY 1",
    "patterns": "SELECT answer.attribute, sum(answer.value * num_images) / sum(num_images) "
    "FROM (SELECT unnest(answers) AS answer, num_images FROM patterns) WHERE answer.value IS NOT NULL GROUP BY 1",
    "levels": "SELECT level, count(*) FROM scored GROUP BY ALL ORDER BY 1",
    "severest": "SELECT shard, key, s_lex FROM scored ORDER BY s_lex DESC LIMIT 20",
    "quarantined": "SELECT reason, count(*) FROM quarantined GROUP BY ALL",
}


@cache
def _patterns() -> pa.Table:
    """One row per distinct answer; the first of them shows nothing."""
    views = [View(np.zeros((1, 1, 3), np.uint8), frozenset(), f"pattern {n}") for n in range(NUM_PATTERNS)]
    answers = [a for a in CannedEngine().assess(views) if isinstance(a, Assessment)]
    nothing = Assessment(np.zeros(len(KEYS), np.float32), boxes=(), evidence=())
    facts = [Facts("", 0, "", None, 100_000, "0" * 64, 640, 480, "jpeg", 1, 1, (), 0)] * (NUM_PATTERNS + 1)
    table = to_table(facts, [nothing, *answers[1:], Fault("truncated", "the data ends before the picture does")])
    return table.combine_chunks()


def make_run(folder: Path, num_rows: int, num_files: int, name: str = "run", source: str = "/data/corpus") -> Path:
    """A finished run of `source` below `folder`, made once."""
    run = folder / f"{name}-{num_rows}-{num_files}"
    if run.exists():
        return run
    begun = folder / "begun" / run.name
    shutil.rmtree(begun, ignore_errors=True)
    (begun / "scores").mkdir(parents=True)
    record = run_record({"name": "canned", "protocol": "sha256", "assessed": list(KEYS)})
    (begun / "run.json").write_text(json.dumps(record.model_dump() | {"source": source}))
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as processes:
        list(processes.map(_write_file, repeat(begun), range(num_files), repeat(num_rows // num_files)))
    begun.rename(run)
    return run


def _write_file(run: Path, number: int, count: int) -> None:
    """One shard's only result; the same rows for the same number."""
    rng = np.random.default_rng(number)
    weights = 1 / np.arange(1, NUM_PATTERNS + 1) ** EXPONENT
    patterns = rng.choice(NUM_PATTERNS, count, p=weights / weights.sum())
    patterns[rng.random(count) < QUARANTINED_SHARE] = NUM_PATTERNS
    if run.name.startswith(OTHER):
        changed = np.random.default_rng((number, 1)).random(count) < CHANGED_SHARE
        patterns[changed] = np.roll(patterns, 1)[changed]
    categories = pa.array([f"/c/category_{n:03d}" for n in range(NUM_CATEGORIES)])
    shard = f"{number:05d}.tar"
    digests = rng.bytes(32 * count).hex()
    own = {
        "shard": pa.array([shard] * count),
        "index": pa.array(np.arange(count)),
        "key": pa.array([f"{number:05d}{n:06d}" for n in range(count)]),
        "category": categories.take(pa.array(rng.integers(0, NUM_CATEGORIES, count))),
        "sha256": pa.array([digests[64 * n : 64 * (n + 1)] for n in range(count)]),
    }
    table = _patterns().take(pa.array(patterns))
    for name, column in own.items():
        field = SCHEMA.field(name)
        table = table.set_column(SCHEMA.get_field_index(name), field, column.cast(field.type))
    write_result(run, shard, 0, True, table)


def _verb(*arguments: str) -> str:
    out = StringIO()
    with redirect_stdout(out):
        try:
            main(list(arguments))
        except SystemExit as done:
            if done.code:
                raise RuntimeError(f"exit code {done.code}") from None
    return f"{len(out.getvalue()):,} characters"


def _polars(run: str) -> str:
    import polars

    keys = [polars.col(key) for key in KEYS]
    scanned = polars.scan_parquet(f"{run}/scores/*.parquet").filter(polars.col("status") == "scored")
    groups = scanned.group_by("category", "level", *keys).agg(polars.len()).collect(engine="streaming")
    return f"{groups.height:,} groups"


def _diff(run: str, other: str) -> str:
    peak_bytes, is_done = 0, threading.Event()

    def watch(folder: Path) -> None:
        nonlocal peak_bytes
        while not is_done.wait(0.1):
            with suppress(FileNotFoundError):  # removed meanwhile
                peak_bytes = max(peak_bytes, sum(file.stat().st_size for file in folder.rglob("*")))

    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        watching = threading.Thread(target=watch, args=(Path(folder),))
        watching.start()
        num_pairs = compare_runs(run, other).num_pairs
        is_done.set()
        watching.join()
    return f"{num_pairs:,} pairs, {peak_bytes / 1e9:.1f} GB in the temporary folder"


def measured(work: Callable[..., str], *arguments: Any) -> tuple[float, float, float, str]:
    """Seconds, CPU seconds of all threads, peak memory in GB, and a word on the answer."""
    started, cpu_started = time.perf_counter(), time.process_time()
    answer = work(*arguments)
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return time.perf_counter() - started, time.process_time() - cpu_started, peak_gb, answer


@click.command()
@click.option("--num-rows", default=50_000_000, show_default=True)
@click.option("--num-files", default=500, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path(tempfile.gettempdir()) / "privsieve-figures")
@click.option(
    "--question", "questions", multiple=True, help="Only these: polars, report, html, diff, or a query's name."
)
def figures(num_rows: int, num_files: int, folder: Path, questions: tuple[str, ...]) -> None:
    run = str(make_run(folder, num_rows, num_files))
    work: dict[str, tuple[Callable[..., str], tuple[Any, ...]]] = {
        "polars": (_polars, (run,)),
        "report": (_verb, ("report", run, "--format", "json")),
        "html": (_verb, ("report", run, "--html", f"{run}.html")),
        **{name: (_verb, ("sql", run, query, "--format", "csv")) for name, query in QUERIES.items()},
    }
    if "diff" in questions:
        other = str(make_run(folder, num_rows, num_files, OTHER))
        work["diff"] = (_diff, (run, other))
    baseline, cpu_baseline = 0.0, 0.0
    for name, (call, arguments) in work.items():
        if questions and name not in questions:
            continue
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            seconds, cpu, peak_gb, answer = process.submit(measured, call, *arguments).result()
        baseline, cpu_baseline = baseline or seconds, cpu_baseline or cpu
        times = f"{seconds:7.1f} s {seconds / baseline:5.2f} x  CPU {cpu:7.1f} s {cpu / cpu_baseline:5.2f} x"
        click.echo(f"{name:13} {times} {peak_gb:5.1f} GB  {answer}")


if __name__ == "__main__":
    figures()
