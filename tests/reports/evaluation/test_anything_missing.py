"""Whatever is missing in answers and labels: an evaluation has its figures, and its counts add up."""

import json

import numpy as np
import pyarrow as pa
import pytest

from ingest.errors import Fault
from reports.evaluation.answers import JudgedRun, answers_of, truth_of
from reports.evaluation.compute import Groups, compare, evaluation_of
from reports.evaluation.results import as_json
from reports.evaluation.words import render, tables
from reports.labels.joining import join
from scoring.assessment import Assessment, not_assessed
from scoring.labels.table import to_labels
from scoring.table import Facts, Verdict, to_table
from scoring.taxonomy import KEYS
from tests.records import engine_record

NUM = 20


def _verdict(generator: np.random.Generator, protocol: str) -> Verdict:
    if generator.random() < 0.2:
        return Fault("rejection", "neither yes nor no")
    if protocol == "binary":
        return Assessment(
            not_assessed(), private=bool(generator.random() < 0.5), prob_private=float(generator.random())
        )
    if protocol == "severity":
        return Assessment(not_assessed(), holistic_score=float(generator.choice([0, 0.292, 0.711, 1])))
    return Assessment(generator.choice([0, 0.5, 1, np.nan], len(KEYS)).astype(np.float32))


def _rows(generator: np.random.Generator, protocol: str) -> pa.Table:
    """Names and hashes repeat, and some have no hash."""
    hashes = [f"{generator.integers(NUM):064x}" if generator.random() < 0.7 else None for _ in range(NUM)]
    facts = [Facts("s", n, f"k{generator.integers(NUM)}", None, 1, hash_) for n, hash_ in enumerate(hashes)]
    return to_table(facts, [_verdict(generator, protocol) for _ in facts])


def _labels(generator: np.random.Generator) -> pa.Table:
    def some(values: object, share: float) -> list[object]:
        return [value.item() if generator.random() < share else None for value in np.asarray(values)]

    shares = generator.choice([0, 0.6, 1], 3)
    columns: dict[str, list[object]] = {
        "annotator": ["me"] * NUM,
        "sha256": [f"{n:064x}" if n % 3 else None for n in range(NUM)],
        "key": [f"k{n}" for n in range(NUM)],
        "class": some(generator.choice(["<script>", "\x1b[31m"], NUM), 0.7),
        "private": some(generator.integers(0, 2, NUM), shares[0]),
        "score": some(generator.random(NUM), shares[1]),
    }
    return to_labels(columns | {key: some(generator.choice([0, 0.5, 1], NUM), shares[2]) for key in KEYS}, NUM)


@pytest.mark.parametrize("protocol", ["binary", "severity", "slots"])
@pytest.mark.parametrize("seed", range(3))
def test_counts_add_up_whatever_is_missing(protocol: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    labels = _labels(generator)
    engine = engine_record(protocol=f"{protocol}:x", assessed=list(KEYS) if protocol == "slots" else [])
    both = []
    for _ in range(2):
        joined = join(_rows(generator, protocol), labels)
        answers = answers_of(joined.rows, engine)
        both.append(
            JudgedRun(
                "run", "engine", (), joined, truth_of(joined.labels), answers, np.zeros(joined.rows.num_rows, bool)
            )
        )
    found = evaluation_of(both[0], Groups("classes", labels))
    counts = found.join
    assert counts.num_joined_rows + counts.num_rows_without_label == counts.num_rows == NUM
    assert counts.num_joined_labels + counts.num_labels_without_row == counts.num_labels == NUM
    if found.private:
        assert found.private.num_pictures + found.private.num_unlabelled == counts.num_joined_rows
        assert found.private.answered.num_pictures + found.private.num_rejected == found.private.num_pictures
        assert sum(group.num_rejected for group in found.groups) == found.private.num_rejected
    if found.score:
        missing = found.score.num_not_scored + found.score.num_unlabelled
        assert found.score.num_pictures + missing == counts.num_joined_rows
        assert sum(map(sum, found.score.confusion)) == found.score.num_pictures
    for one in found.attributes.values():
        assert one.num_pictures + one.num_not_answered == one.num_labelled
    json.dumps(as_json(found), allow_nan=False)
    assert all(len(row) == len(table.heads) for table in tables(found) for row in table.rows)
    assert "<script>" not in render(found)
    compared = compare(both[0], both[1])
    assert compared.num_pictures <= min(one.joined.counts.num_joined_labels for one in both)
