"""`privsieve audit apply` with labels of another run: they correct by sensitivity and specificity, or are weighted."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from reports.audit.other_run import audit_of_other_run
from reports.run.warehouse import open_warehouse
from scoring.labels.table import read_judged
from scoring.runs.audit_files import SUBJECTS
from tests.auditing.made import (
    AGE,
    NUM_IMAGES,
    filled,
    sample,
    truth,
    write,
)
from tests.jobs.made import privsieve
from tests.records import run_record


@pytest.mark.slow
def test_labels_of_another_run_correct_by_sensitivity_and_specificity(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, is_there = shutil.copytree(run, tmp_path / "other"), truth()
    answers = [str(int(one)) for one in is_there]
    all_of_it = [{"sha256": f"{n:064x}", "private": answers[n], "age": answers[n]} for n in range(NUM_IMAGES)]
    labels = write(tmp_path / "labels.csv", all_of_it)
    assert privsieve("audit", "apply", run, labels, "--sensitivity-from", other, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    private, gov_ids = found["subjects"][:2], found["subjects"][2]
    assert private[0]["method"] == "rogan-gladen"
    assert private[0]["corrected"]["value"] == pytest.approx(is_there.mean(), abs=0.01)
    assert gov_ids["note"] == "no labels"
    assert "nothing in the two runs can show" in found["notes"][0]
    assert privsieve("audit", "apply", run, labels, "--sensitivity-from", other, "--format", "csv") == 0
    said = capsys.readouterr()
    assert {row["subject"] for row in csv.DictReader(said.out.splitlines())} == set(SUBJECTS)
    assert said.err.splitlines() == [*found["cautions"], *found["notes"]]
    assert "MADE-UP ANSWERS" in said.err
    # The engine never answers for age, so its silence is no answer that could be right.
    age = found["subjects"][1 + AGE]
    assert (age["subject"], age["num_labels"], age["note"]) == ("age", private[0]["num_labels"], "not identified")
    assert age["sensitivity"] == age["specificity"] == {"value": None, "low": None, "high": None}
    twisted = write(tmp_path / "twisted.csv", [row | {"private": str(1 - int(row["private"]))} for row in all_of_it])
    assert privsieve("audit", "apply", run, twisted, "--sensitivity-from", other, "--format", "json") == 0
    private = json.loads(capsys.readouterr().out)["subjects"][0]
    assert (private["corrected"]["value"], private["note"]) == (None, "not identified")
    (other / "run.json").write_text(run_record({"name": "x", "protocol": "y", "assessed": []}).model_dump_json())
    assert privsieve("audit", "apply", run, labels, "--sensitivity-from", other) == 2
    assert "was made by another engine" in capsys.readouterr().err


@pytest.mark.slow
def test_labels_of_the_sample_of_another_run_are_weighted(run: Path, tmp_path: Path) -> None:
    other, is_there = open_warehouse(str(shutil.copytree(run, tmp_path / "other"))), truth()
    true_rate = float(is_there[np.arange(NUM_IMAGES) % 50 != 7].mean())
    weighted, unweighted, held = [], [], []
    for seed in range(6):
        listed = tmp_path / f"{seed}.csv"
        sample(Path(other.url), listed, "--n", 300, "--for", "private", "--seed", seed, "--replace")
        labels = read_judged(str(write(listed, filled(listed, {"private": is_there}))))
        audit = audit_of_other_run(open_warehouse(str(run)), other, labels, None)
        assert len(audit.notes) == 1
        found = audit.subjects[0].corrected
        assert found.value is not None and found.low is not None and found.high is not None  # noqa: PT018
        weighted.append(found.value)
        held.append(found.low <= true_rate <= found.high)
        (Path(other.url) / "audit" / "sample.parquet").unlink()
        audit = audit_of_other_run(open_warehouse(str(run)), other, labels, None)
        assert "each counts once, as if the pictures had been drawn evenly" in audit.notes[1]
        unweighted.append(audit.subjects[0].corrected.value or 0.0)
    assert np.mean(weighted) == pytest.approx(true_rate, abs=0.015)
    assert sum(held) >= 5
    assert np.mean(unweighted) < true_rate - 0.03


@pytest.mark.slow
def test_labels_that_are_partly_of_the_sample_of_another_run_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, is_there = shutil.copytree(run, tmp_path / "other"), truth()
    sample(other, tmp_path / "list.csv", "--n", 100)
    some = [{"sha256": f"{n:064x}", "private": str(int(is_there[n]))} for n in range(NUM_IMAGES // 2)]
    labels = write(tmp_path / "labels.csv", some)
    capsys.readouterr()
    assert privsieve("audit", "apply", run, labels, "--sensitivity-from", other) == 2
    assert "are not of its audit sample; give the labels of its sample only" in capsys.readouterr().err
