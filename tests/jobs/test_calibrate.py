"""`privsieve calibrate` as a user calls it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ingest.errors import LabelsError
from jobs.releases.decider import Decider
from jobs.releases.guaranteeing import guarantee
from scoring.assessment import Assessment
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from scoring.policies.policy_file import load_policy
from scoring.runs.record import read_record
from scoring.taxonomy import KEYS
from tests.audits import write_drawn
from tests.jobs.made import privsieve
from tests.jobs.releases import NO_RULES
from tests.making import Capture
from tests.reports.evaluation.conftest import BINARY, SEVERITY, MakeRun, answered, by_hash, make_run, scored

__all__ = ["make_run"]  # the fixture

NUM = 600
COMMON, RARE, RARE_TOO = "biometrics", "contact_details", "medical_data"
LEVELS_TOO_SURE = np.array([0.01, 0.3, 0.6, 0.9, 0.99], np.float32)
"""Probabilities that the model gives for COMMON; they mean 0, .25, .25, .75, 1."""


def of(values: dict[str, float], probabilities: dict[str, float]) -> Assessment:
    vector, given = np.full(len(KEYS), np.nan, np.float32), np.full((len(KEYS), 3), np.nan, np.float32)
    for key, value in values.items():
        vector[KEYS.index(key)] = value
    for key, probability in probabilities.items():
        given[KEYS.index(key)] = [1 - probability, 0, probability]
    return Assessment(vector, probabilities=given)


def truth_of(number: int) -> float:
    """Of COMMON in picture `number`."""
    step, turn = number % 5, number // 5
    return float([False, turn % 4 == 0, turn % 4 == 0, turn % 4 != 0, True][step])


@pytest.fixture
def run(make_run: MakeRun) -> Path:
    rows = []
    for number in range(NUM):
        given = float(LEVELS_TOO_SURE[number % 5])
        rare = 0.4 if number % 50 == 0 else 0.02 + 0.001 * (number % 7)
        values = {COMMON: float(given >= 0.5), RARE: 0.0, RARE_TOO: 0.0}
        rows.append((f"p{number}", of(values, {COMMON: given, RARE: rare, RARE_TOO: rare})))
    return make_run(rows)


def columns_of(numbers: Sequence[int]) -> dict[str, list[float]]:
    return {
        key: [truth_of(n) if key == COMMON else float(n % 50 == 0) for n in numbers] for key in (COMMON, RARE, RARE_TOO)
    }


def labels_file(folder: Path, numbers: Sequence[int]) -> Path:
    columns = columns_of(numbers)
    labels = by_hash([f"p{n}" for n in numbers], **columns)
    write_labels(labels, str(folder / "labels.parquet"), LabelsOrigin("hand"))
    return folder / "labels.parquet"


def json_of(capsys: Capture, *arguments: object) -> dict[str, Any]:
    """By subject."""
    assert privsieve("calibrate", *arguments, "--format", "json") == 0
    report = json.loads(capsys.readouterr().out)
    return {one["subject"]: one for one in report["subjects"]} | {"report": report}


def test_a_common_attribute_gets_a_map_and_the_threshold_that_means_at_least_half_and_a_rare_one_none(
    run: Path, tmp_path: Path, capsys: Capture
) -> None:
    found = json_of(capsys, run, "--labels", labels_file(tmp_path, range(NUM)))
    common = found[COMMON]
    assert (common["num_pictures"], common["num_present"]) == (NUM, 270)
    # The share for which it is true passes half between .6 and .9.
    assert 0.6 < common["threshold"] < 0.9
    assert common["wrong_before"] == pytest.approx((30 + 90 + 30) / NUM)
    assert common["wrong_after"] == pytest.approx((30 + 30 + 30) / NUM)
    assert common["before"]["ece"] == pytest.approx((0.01 + 0.05 + 0.35 + 0.15 + 0.01) / 5, abs=1e-6)
    assert common["after"]["ece"] < common["before"]["ece"]
    rare = found[RARE]
    assert (rare["num_present"], rare["threshold"], rare["after"]) == (12, None, None)
    assert "fewer than 20 pictures" in rare["note"]


def test_the_private_decision_is_calibrated_by_the_worst_attribute_of_levels_1_and_2(
    run: Path, tmp_path: Path, capsys: Capture
) -> None:
    labels = labels_file(tmp_path, range(NUM))
    assert privsieve("calibrate", run, "--labels", labels) == 0
    text = capsys.readouterr().out
    assert "private: not calibrated, since the labels call too few pictures private, or too few public" in text
    columns = columns_of(range(NUM))
    private = [int(any(of_key[n] == 1 for of_key in columns.values())) for n in range(NUM)]
    whole = by_hash([f"p{n}" for n in range(NUM)], private=private, **columns)
    write_labels(whole, str(labels), LabelsOrigin("hand"))
    assert privsieve("calibrate", run, "--labels", labels) == 0
    text = capsys.readouterr().out
    assert "joined  600 of 600 rows have a label; 0 labels belong to no row" in text
    assert "drawn   600 labelled pictures, each weighted the same; copies of one count once" in text
    assert "private: largest P(present) of level 1 and 2 from 0.7" in text
    assert "without a labelled picture that has a probability: gov_ids, " in text


def test_the_binary_protocol_has_one_threshold(make_run: MakeRun, tmp_path: Path, capsys: Capture) -> None:
    run = make_run([(f"p{n}", answered(n % 2 == 0, 0.2 + 0.6 * (n % 2 == 0))) for n in range(60)], BINARY)
    labels = by_hash([f"p{n}" for n in range(60)], private=[int(n % 2 == 0) for n in range(60)])
    write_labels(labels, str(tmp_path / "labels.parquet"), LabelsOrigin("hand"))
    found = json_of(capsys, run, "--labels", tmp_path / "labels.parquet")["private"]
    assert found["probability"] == "prob_private"
    assert privsieve("calibrate", run, "--labels", tmp_path / "labels.parquet") == 0
    text = capsys.readouterr().out
    assert "level" not in text
    assert "present" not in text
    assert "attribute" not in text
    threshold = f"{found['threshold']:g}"
    assert f"private: prob_private from {threshold} on; use it in a policy as when: prob_private >= {threshold}" in text


def test_a_guarantee_for_a_run_that_asks_for_the_whole_picture(make_run: MakeRun, tmp_path: Path) -> None:
    labels = by_hash([f"p{n}" for n in range(60)], private=[1] * 60)
    write_labels(labels, str(tmp_path / "labels.parquet"), LabelsOrigin("hand"))
    partly = by_hash([f"p{n}" for n in range(60)], biometrics=[1] * 50 + [0] * 10)
    write_labels(partly, str(tmp_path / "partly.parquet"), LabelsOrigin("hand"))
    policy = load_policy(f"{NO_RULES}guarantee: {{recall: 0.9}}".encode(), "none")
    plain = make_run([(f"p{n}", answered(n > 5)) for n in range(60)], BINARY, "plain")
    severity = make_run([(f"p{n}", scored(0.7 + n / 300)) for n in range(60)], SEVERITY, "severity")
    for run, file, message in (
        (plain, "labels", "this run says yes or no without probabilities, so there is no number for a threshold; scan"),
        (severity, "partly", "fill in the column private, or all of these attributes"),
    ):
        root, record = read_record(str(run))
        with pytest.raises(LabelsError, match=message):
            guarantee(str(tmp_path / f"{file}.parquet"), root, record, Decider(policy, record.engine))
    root, record = read_record(str(plain))
    policy = load_policy(f"{NO_RULES}guarantee: {{recall: 0.5, by: private_answer}}".encode(), "none")
    found = guarantee(str(tmp_path / "labels.parquet"), root, record, Decider(policy, record.engine))
    assert (found.threshold.lowest, found.record.num_missed) == (1, 6)


def test_pictures_on_which_people_differ_are_left_out_and_counted(run: Path, tmp_path: Path, capsys: Capture) -> None:
    """Three people label 60 pictures; one of them sees COMMON the other way round in ten, and of four one is away."""
    rows = {"sha256": [], "annotator": [], COMMON: []}  # type: dict[str, list[object]]
    for number in range(60):
        for who in ("ana", "ben", "cyd")[: 2 if number < 4 else 3]:
            twisted = number < 10 and who == "ben"
            values = (f"{number:064x}", who, 1 - truth_of(number) if twisted else truth_of(number))
            for column, value in zip(rows.values(), values, strict=True):
                column.append(value)
    hashes = by_hash([f"p{n}" for n in range(60)])["sha256"].to_pylist()
    rows["sha256"] = [hashes[int(str(name), 16)] for name in rows["sha256"]]
    write_labels(to_labels(rows, len(rows["sha256"])), str(tmp_path / "three.parquet"), LabelsOrigin("hand"))
    found = json_of(capsys, run, "--labels", tmp_path / "three.parquet")
    assert found[COMMON]["num_pictures"] == 56
    assert found[COMMON]["num_present"] == sum(truth_of(n) for n in range(4, 60))
    assert found["report"]["num_undecided"] == {COMMON: 4}
    assert privsieve("calibrate", run, "--labels", tmp_path / "three.parquet") == 0
    assert f"left out as undecided, since people differ or cannot say: {COMMON} 4; these are hard" in (
        capsys.readouterr().out
    )


def test_the_audit_sample_is_weighted_back_to_the_run(run: Path, tmp_path: Path, capsys: Capture) -> None:
    """Drawn thirty times as densely where the model says .6 and .9; weights give the figures of the whole run again."""
    whole = json_of(capsys, run, "--labels", labels_file(tmp_path, range(NUM)))[COMMON]["before"]
    dense = [n for n in range(NUM) if n % 5 in (2, 3) or n // 5 in (0, 25, 50, 75)]
    sample = {
        "shard": ["a"] * len(dense),
        "index": dense,
        "inclusion_probability": [1.0 if n % 5 in (2, 3) else 1 / 30 for n in dense],
    }
    write_drawn(str(run), pa.table(sample), NUM, least=1 / 30)
    labels = labels_file(tmp_path, dense)
    found = json_of(capsys, run, "--labels", labels)
    assert found["report"]["drawn"] == "audit"
    weighted = found[COMMON]["before"]
    evenly = json_of(capsys, run, "--labels", labels, "--drawn", "evenly")[COMMON]["before"]
    assert weighted["brier"] == pytest.approx(whole["brier"])
    assert weighted["ece"] == pytest.approx(whole["ece"])
    assert evenly["brier"] > whole["brier"] + 0.08
    assert privsieve("calibrate", run, "--labels", labels) == 0
    assert "252 of the 252 pictures of the audit sample have a label; each is weighted by 1 / probability" in (
        capsys.readouterr().out
    )
