"""`python -m benchmarks.guarantee --draws 1000 [--copies 300]`: how often the promise of an audit is broken.

One made run of 4,000 pictures, of which 1,500 are private and 8 % of these hardly seen. It is audited so many times,
each with another seed, and each audit is labelled without errors. Everything is done by the functions of the commands:
the draw, the thinning and the threshold. --copies adds so many copies to each of three private pictures that the model
sees well.
"""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.storage.place import place
from jobs.releases.decider import Decider
from jobs.releases.guaranteeing import guarantee
from reports.audit.drawing import draw
from reports.run.warehouse import open_warehouse
from scoring.assessment import EngineOptions
from scoring.engines import canned
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from scoring.policies.policy_file import load_policy
from scoring.runs import record
from scoring.runs.audit_files import write_sample
from scoring.table import Facts, to_table
from scoring.taxonomy import KEYS
from tests.jobs.releases import NO_RULES
from tests.records import run_record, write_result
from tests.reports.conftest import answer

NUM_PRIVATE, NUM_OTHERS, SHARE_HARD = 1_500, 2_500, 0.08
NUM_DRAWN = 1_500
RECALL = CONFIDENCE = 0.9

Numbers = npt.NDArray[np.float64]


def made_scores(random: np.random.Generator) -> Numbers:
    """Of the private pictures first. Exact in single precision, as rows hold them."""
    num_hard = int(SHARE_HARD * NUM_PRIVATE)
    seen, hard = random.beta(5, 2, NUM_PRIVATE - num_hard), random.beta(1, 6, num_hard)
    scores = np.concatenate([seen, hard, random.beta(1.2, 6, NUM_OTHERS)])
    return np.round(scores, 3).astype(np.float32).astype(np.float64)


def make_run(folder: Path, scores: Numbers, pictures: Sequence[int]) -> list[str]:
    """A run with a row for each of these pictures; returns their hashes."""
    engine = asdict(canned.describe(EngineOptions())) | {"assessed": list(KEYS)}
    (folder / "scores").mkdir()
    (folder / "run.json").write_text(run_record(engine).model_dump_json())
    hashes = [hashlib.sha256(str(picture).encode()).hexdigest() for picture in pictures]
    facts = [Facts("0.tar", n, f"{n:06d}", None, 9, sha256) for n, sha256 in enumerate(hashes)]
    rows = to_table(facts, [answer(biometrics=float(scores[picture] > 0.5)) for picture in pictures])
    column = rows.schema.get_field_index("prob_private")
    given = pa.array(scores[list(pictures)].astype(np.float32))
    write_result(folder, "0.tar", 0, True, rows.set_column(column, rows.schema.field(column), given))
    return hashes


@click.command()
@click.option("--draws", "num_draws", default=1_000)
@click.option("--copies", "num_copies", default=0)
def main(num_draws: int, num_copies: int) -> None:
    random = np.random.default_rng(11)
    scores = made_scores(random)
    easy = np.flatnonzero(scores[:NUM_PRIVATE] > 0.85)[:3]
    pictures = random.permutation(np.concatenate([np.arange(len(scores)), np.repeat(easy, num_copies)])).tolist()
    num_broken, nums_labelled = 0, list[int]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hashes = make_run(folder, scores, pictures)
        private = {sha256 for sha256, picture in zip(hashes, pictures, strict=True) if picture < NUM_PRIVATE}
        (root, described), run = record.read_record(name), open_warehouse(name)
        promise = {"recall": RECALL, "confidence": CONFIDENCE, "by": "prob_private"}
        policy = load_policy(f"{NO_RULES}guarantee: {json.dumps(promise)}".encode(), "none")
        labels = str(folder / "labels.parquet")
        for seed in range(num_draws):
            sample, _ = draw(run, NUM_DRAWN, "private", seed, None)
            write_sample(place(name), sample)
            drawn = list(dict.fromkeys(sample.table["sha256"].to_pylist()))
            columns: dict[str, Sequence[object]] = {
                "sha256": drawn,
                "annotator": ["me"] * len(drawn),
                "private": [int(sha256 in private) for sha256 in drawn],
            }
            write_labels(to_labels(columns, len(drawn)), labels, LabelsOrigin("hand"))
            found = guarantee(labels, root, described, Decider(policy, described.engine))
            nums_labelled.append(found.record.num_private_labelled)
            num_broken += bool((scores[:NUM_PRIVATE] >= found.threshold.lowest).mean() < RECALL)
    click.echo(
        f"{num_draws} audits, {num_copies} copies of three pictures, {np.mean(nums_labelled):.0f} private pictures "
        f"labelled: broken in {100 * num_broken / num_draws:.1f} %"
    )


if __name__ == "__main__":
    main()
