"""A run to audit, and labels of its pictures."""

import csv
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import Fault, RunError
from ingest.storage.place import place
from reports.run.warehouse import STALE_AUDIT, Run
from scoring.assessment import Assessment
from scoring.labels.reviews import ReviewAnswers
from scoring.runs.audit_files import read_sample, read_stored
from scoring.runs.record import RunRecord
from scoring.table import Facts, Verdict, to_table
from scoring.taxonomy import KEYS
from tests.jobs.made import privsieve
from tests.records import run_record, write_result

NUM_IMAGES = 2_000

NUM_SHARDS = 4

CATEGORIES = ("bar", "beach", "office")

BIOMETRICS = KEYS.index("biometrics")

AGE = KEYS.index("age")


def read_corrected_rates(run: Run) -> pa.Table | None:
    """Rows of `scoring.runs.audit_files.CORRECTED_SCHEMA`; None if the run was not audited.

    RunError in one line if the file is damaged, or of other rows than the run has now.
    """
    stored = read_stored(run.root)
    if stored is None:
        return None
    table, state = stored
    if not run.has_rows_of(state):
        raise RunError(f"{run.url}: {STALE_AUDIT}")
    return table


def truth() -> npt.NDArray[np.bool_]:
    """Which pictures show biometrics: those of offices more often."""
    random = np.random.default_rng(1)
    return random.random(NUM_IMAGES) < np.where(np.arange(NUM_IMAGES) % 3 == 2, 0.3, 0.05)


def verdict(number: int, is_there: bool, random: np.random.Generator) -> Verdict:
    """The engine misses every fifth, sees what is not there in every twentieth, and is unsure of some."""
    if number % 50 == 7:
        return Fault("truncated", "the file ends early")
    values = np.zeros(len(KEYS), dtype=np.float32)
    chance = random.random()
    values[BIOMETRICS] = (1 if chance < 0.8 else 0.5 if chance < 0.9 else 0) if is_there else chance < 0.05
    values[AGE] = np.nan  # never judged
    return Assessment(values)


def make_run(
    folder: Path, name: str = "run", num_slices: int = 1, num_images: int = NUM_IMAGES, engine_seed: int = 2
) -> Path:
    """slices: of each shard. engine_seed: which mistakes the engine makes."""
    run = folder / name
    (run / "scores").mkdir(parents=True)
    engine = {"name": "canned", "protocol": "canned", "assessed": [key for key in KEYS if key != "age"]}
    (run / "run.json").write_text(run_record(engine).model_dump_json())
    random, is_there = np.random.default_rng(engine_seed), truth()
    verdicts = [verdict(n, bool(is_there[n]), random) for n in range(NUM_IMAGES)]
    size = NUM_IMAGES // NUM_SHARDS
    for shard in range(num_images // size):
        numbers = range(shard * size, (shard + 1) * size)
        # The first two pictures of all shards have one key each.
        keys = {n: f"{n % size if n % size < 2 else n:06d}" for n in numbers}
        facts = [Facts(f"{shard}.tar", n % size, keys[n], CATEGORIES[n % 3], 1, f"{n:064x}") for n in numbers]
        table = to_table(facts, [verdicts[n] for n in numbers])
        cuts = np.linspace(0, size, num_slices + 1).astype(int)
        for number, (start, end) in enumerate(itertools.pairwise(cuts)):
            write_result(run, f"{shard}.tar", number, number == num_slices - 1, table.slice(start, end - start))
    return run


def as_per_category(run: Path) -> None:
    """Turn the run into one of as many images of each category."""
    path, per_category = run / "run.json", {"sample": 700, "seed": 0, "per_category": True, "drawn": NUM_IMAGES}
    record = RunRecord(**(json.loads(path.read_text()) | per_category))
    path.write_text(record.model_dump_json())
    for file in (run / "scores").iterdir():  # results of other settings would be refused
        table = pq.read_table(file)
        meta = dict(table.schema.metadata) | {b"privsieve.settings": record.settings_hash().encode()}
        pq.write_table(table.replace_schema_metadata(meta), file)


def filled(path: Path, columns: Mapping[str, npt.NDArray[np.bool_]], rows: slice = slice(None)) -> list[dict[str, str]]:
    """Rows of the list with the true answers."""
    listed = list(csv.DictReader(path.open()))
    for row in listed[rows]:
        for column, answers in columns.items():
            row[column] = str(int(answers[int(row["sha256"], 16)]))
    return listed


def write(path: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def sample(run: Path, out: Path, *options: object) -> pa.Table:
    assert privsieve("audit", "sample", run, "--out", out, *options) == 0
    return read_sample(place(str(run))).table


def answer(folder: ReviewAnswers, sha256: str, who: str, says: str) -> None:
    folder.add(
        {
            "sha256": sha256,
            "annotator": who,
            "private": {"private": 1, "public": 0}.get(says),
            "answer": says,
            "queue": "audit",
            "is_gold": False,
        }
    )
