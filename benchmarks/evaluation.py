"""What an evaluation costs: metrics, intervals and the join, beside one pass of the bootstrap's own arithmetic.

    python -m benchmarks.evaluation [--num-pictures 10000] [--num-draws 1000]

Makes a run with random attributes and labels of it. Prints seconds, and the ratio to drawing as many random numbers as
the bootstrap needs, which says more on a busy machine.
"""

import tempfile
import time
from pathlib import Path

import click
import numpy as np
import pyarrow as pa

from reports.evaluation.compute import EvaluationOptions, evaluation_of, judged
from scoring.assessment import Assessment
from scoring.labels.table import to_labels
from scoring.table import Facts, to_table
from scoring.taxonomy import KEYS
from tests.records import run_record, write_result


def make_run(folder: Path, num_pictures: int) -> pa.Table:
    """A run of random attributes below `folder`, and labels that agree with 85 of 100 of them."""
    generator = np.random.default_rng(0)
    truth = (generator.random((num_pictures, len(KEYS))) < 0.05).astype(np.float32)
    answers = np.where(generator.random(truth.shape) < 0.85, truth, 1 - truth)
    probabilities = np.stack([1 - answers, np.zeros_like(answers), answers], axis=2) * 0.8 + 0.2 / 3
    hashes = [f"{n:064x}" for n in range(num_pictures)]
    facts = [Facts("0.tar", n, f"{n:09d}", None, 1, hash_) for n, hash_ in enumerate(hashes)]
    found = [Assessment(row, probabilities=some) for row, some in zip(answers, probabilities, strict=True)]
    engine = {"name": "canned", "protocol": "slots", "assessed": list(KEYS)}
    (folder / "scores").mkdir(parents=True)
    (folder / "run.json").write_text(run_record(engine).model_dump_json())
    write_result(folder, "0.tar", 0, True, to_table(facts, found))
    columns: dict[str, list[object]] = {key: truth[:, place].tolist() for place, key in enumerate(KEYS)}
    classes: list[object] = [f"class {n % 8}" for n in range(num_pictures)]
    names: list[object] = list(hashes)
    who: list[object] = ["made"] * num_pictures
    return to_labels(columns | {"sha256": names, "class": classes, "annotator": who}, num_pictures)


@click.command()
@click.option("--num-pictures", type=int, default=10_000, show_default=True)
@click.option("--num-draws", type=int, default=1000, show_default=True)
def main(num_pictures: int, num_draws: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        labels = make_run(Path(folder), num_pictures)
        options = EvaluationOptions(num_draws=num_draws, by="class")
        start = time.perf_counter()
        one = judged(folder, labels, options)
        joined = time.perf_counter()
        evaluation_of(one, options)
        done = time.perf_counter()
    generator = np.random.default_rng(0)
    for _ in range(num_draws):
        generator.integers(num_pictures, size=num_pictures)
    drawn = time.perf_counter() - done
    click.echo(f"{num_pictures:,} pictures, {num_draws:,} draws")
    click.echo(f"read and joined  {joined - start:6.2f} s")
    click.echo(
        f"all metrics      {done - joined:6.2f} s  {(done - joined) / drawn:5.1f} x drawing alone ({drawn:.2f} s)"
    )


if __name__ == "__main__":
    main()
