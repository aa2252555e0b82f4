"""What a report and SQL cost on a run of many rows, beside a plain group-by of the same files with polars.

    python -m tests.benchmarks.figures [--num-rows 50000000] [--num-files 500] [--folder FOLDER] [--question NAME …]

Makes the run once and keeps it in FOLDER: few distinct answers, 365 categories, three images in a hundred quarantined.
Each measurement has a process of its own and prints its seconds, its peak memory and its ratio to the group-by.
"""

import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import click
import numpy as np
import pyarrow as pa

from jobs.cli import main
from scoring.assessment import Assessment, View
from scoring.engines.canned import CannedEngine
from scoring.table import SCHEMA, Facts, Quarantined, to_table
from scoring.taxonomy import KEYS
from tests.records import run_record, write_result

NUM_PATTERNS = 3000
NUM_CATEGORIES = 365
QUARANTINED_SHARE = 0.03
EXPONENT = 1.3
"""Of how often the n-th most frequent answer comes: most images show nothing, or the same few things."""

QUERIES = {
    "rates": "SELECT category, privacy_rate FROM rates ORDER BY 2 DESC LIMIT 10",
    "attributes": "SELECT attribute, avg(value) FROM attributes WHERE status = 'scored' GROUP BY 1 ORDER BY 1",
    "levels": "SELECT level, count(*) FROM scored GROUP BY ALL ORDER BY 1",
    "severest": "SELECT shard, key, s_lex FROM scored ORDER BY s_lex DESC LIMIT 20",
    "quarantined": "SELECT reason, count(*) FROM quarantined GROUP BY ALL",
}


def _patterns() -> pa.Table:
    """One row per distinct answer; the first of them shows nothing."""
    views = [View(np.zeros((1, 1, 3), np.uint8), frozenset(), f"pattern {n}") for n in range(NUM_PATTERNS)]
    answers = [a for a in CannedEngine().assess(views) if isinstance(a, Assessment)]
    nothing = Assessment(np.zeros(len(KEYS), np.float32), boxes=(), evidence=())
    facts = [Facts("", 0, "", None, 100_000, "0" * 64, 640, 480, "jpeg", 1, 1, (), 0)] * (NUM_PATTERNS + 1)
    table = to_table(facts, [nothing, *answers[1:], Quarantined("truncated", "the data ends before the picture does")])
    return table.combine_chunks()


def make_run(folder: Path, num_rows: int, num_files: int) -> Path:
    """A finished run below `folder`, made once."""
    run = folder / f"run-{num_rows}-{num_files}"
    if (run / "run.json").exists():
        return run
    (run / "scores").mkdir(parents=True, exist_ok=True)
    rng, patterns = np.random.default_rng(0), _patterns()
    weights = 1 / np.arange(1, NUM_PATTERNS + 1) ** EXPONENT
    categories = pa.array([f"/c/category_{n:03d}" for n in range(NUM_CATEGORIES)])
    for number in range(num_files):
        count = num_rows // num_files
        drawn = rng.choice(NUM_PATTERNS, count, p=weights / weights.sum())
        drawn[rng.random(count) < QUARANTINED_SHARE] = NUM_PATTERNS
        shard = f"{number:05d}.tar"
        digests = rng.bytes(32 * count).hex()
        own = {
            "shard": pa.array([shard] * count),
            "index": pa.array(np.arange(count)),
            "key": pa.array([f"{number:05d}{n:06d}" for n in range(count)]),
            "category": categories.take(pa.array(rng.integers(0, NUM_CATEGORIES, count))),
            "sha256": pa.array([digests[64 * n : 64 * (n + 1)] for n in range(count)]),
        }
        table = patterns.take(pa.array(drawn))
        for name, column in own.items():
            field = SCHEMA.field(name)
            table = table.set_column(SCHEMA.get_field_index(name), field, column.cast(field.type))
        write_result(run, shard, 0, True, table)
    record = run_record({"name": "canned", "protocol": "sha256", "assessed": list(KEYS)})
    (run / "run.json").write_text(json.dumps(record.model_dump()))
    return run


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


def measured(work: Callable[..., str], *arguments: str) -> tuple[float, float, str]:
    """Seconds, peak memory in GB, and what the work says."""
    started = time.perf_counter()
    said = work(*arguments)
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return time.perf_counter() - started, peak_gb, said


@click.command()
@click.option("--num-rows", default=50_000_000, show_default=True)
@click.option("--num-files", default=500, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path(tempfile.gettempdir()) / "privsieve-figures")
@click.option("--question", "questions", multiple=True, help="Only these: polars, report, html, or a query's name.")
def figures(num_rows: int, num_files: int, folder: Path, questions: tuple[str, ...]) -> None:
    run = str(make_run(folder, num_rows, num_files))
    work: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
        "polars": (_polars, (run,)),
        "report": (_verb, ("report", run, "--format", "json")),
        "html": (_verb, ("report", run, "--html", f"{run}.html")),
        **{name: (_verb, ("sql", run, query, "--format", "csv")) for name, query in QUERIES.items()},
    }
    baseline = 0.0
    for name, (call, arguments) in work.items():
        if questions and name not in questions:
            continue
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            seconds, peak_gb, said = process.submit(measured, call, *arguments).result()
        baseline = baseline or seconds
        click.echo(f"{name:12} {seconds:7.1f} s {peak_gb:5.1f} GB  {seconds / baseline:5.2f} x  {said}")


if __name__ == "__main__":
    figures()
