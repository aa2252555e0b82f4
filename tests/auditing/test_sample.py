"""`privsieve audit sample` as a user calls it: draw pictures for people to label."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import RunError
from ingest.storage.place import place
from reports.run.warehouse import open_warehouse
from scoring.runs.audit_files import read_sample
from tests.auditing.made import (
    NUM_IMAGES,
    as_per_category,
    filled,
    make_run,
    read_corrected_rates,
    sample,
    truth,
    write,
)
from tests.jobs.made import privsieve
from tests.reviewing.made import run_of
from tests.tuning_sets.made import files


@pytest.mark.slow
def test_every_scored_picture_can_be_drawn_and_unsure_ones_most_often(run: Path, tmp_path: Path) -> None:
    drawn = sample(run, tmp_path / "all.csv", "--n", 100_000)
    assert drawn.num_rows == NUM_IMAGES - NUM_IMAGES // 50  # but for the quarantined ones
    assert set(drawn["inclusion_probability"].to_pylist()) == {1.0}
    some = sample(run, tmp_path / "some.csv", "--n", 200, "--replace")
    assert 150 < some.num_rows < 250  # 200 are expected, the deviation is below 14
    means = some.group_by("biometrics").aggregate([("inclusion_probability", "mean")]).to_pylist()
    chances = {row["biometrics"]: row["inclusion_probability_mean"] for row in means}
    assert chances[0.5] > chances[1.0] > 1.3 * chances[0.0]
    # Each picture stands for as many as its weight says.
    assert sum(1 / chance for chance in some["inclusion_probability"].to_pylist()) == pytest.approx(1_960, rel=0.2)


@pytest.mark.slow
def test_the_sample_follows_from_the_seed_and_not_from_the_files(run: Path, tmp_path: Path) -> None:
    sliced = make_run(tmp_path, "sliced", num_slices=3)
    first = sample(run, tmp_path / "a.csv", "--n", 150, "--seed", 5)
    assert first == sample(sliced, tmp_path / "b.csv", "--n", 150, "--seed", 5)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    larger = sample(run, tmp_path / "c.csv", "--n", 300, "--seed", 5, "--replace")
    assert set(first["sha256"].to_pylist()) < set(larger["sha256"].to_pylist())


@pytest.mark.slow
def test_a_new_sample_keeps_the_one_before_and_the_rates_that_it_gave(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample(run, tmp_path / "list.csv", "--n", 100)
    labels = write(tmp_path / "labels.csv", filled(tmp_path / "list.csv", {"private": truth()}))
    assert privsieve("audit", "apply", run, labels) == 0
    rates, first = read_corrected_rates(open_warehouse(str(run))), (run / "audit" / "sample.parquet").read_bytes()
    capsys.readouterr()
    for number, seed in ((1, 1), (2, 2)):
        sample(run, tmp_path / f"{seed}.csv", "--n", 100, "--seed", seed, "--replace")
        output = capsys.readouterr().out
        assert f"the earlier sample is kept as {run}/audit/sample-{number}.parquet" in output
    assert read_corrected_rates(open_warehouse(str(run))) == rates
    assert (run / "audit" / "sample-1.parquet").read_bytes() == first
    (run / "audit" / "sample-1.parquet").rename(run / "audit" / "sample.parquet")
    assert privsieve("audit", "apply", run, labels) == 0


@pytest.mark.slow
def test_pictures_on_the_hash_list_are_drawn_and_not_named_to_the_people_who_label(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = sample(run, tmp_path / "whole.csv", "--n", 60)
    removed = whole["sha256"].to_pylist()[:2]
    (tmp_path / "hashes.txt").write_text("\n".join(f"sha256 {one}" for one in removed))
    capsys.readouterr()
    assert sample(run, tmp_path / "list.csv", "--n", 60, "--hash-list", tmp_path / "hashes.txt") == whole
    said = capsys.readouterr().out
    assert "left out: 2 drawn pictures on the hash list; apply counts such pictures as without a label" in said
    assert f"{whole.num_rows - 2} rows to fill in" in said
    content = (tmp_path / "list.csv").read_text()
    assert not [one for one in removed if one in content]
    labels = write(tmp_path / "labels.csv", filled(tmp_path / "list.csv", {"private": truth()}))
    assert privsieve("audit", "apply", run, labels, "--format", "json") == 0
    counts = json.loads(capsys.readouterr().out)["labels"]
    assert (counts["num_drawn"], counts["num_without_row"]) == (whole.num_rows, 2)


def test_what_people_label_in_label_studio_holds_no_answer_of_the_run_and_no_name(tmp_path: Path) -> None:
    run = run_of(tmp_path, files(6))
    drawn = sample(run, tmp_path / "tasks.json", "--n", 50, "--for", "private")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [task["data"]["sha256"] for task in tasks] == drawn["sha256"].to_pylist()
    assert not any(task["predictions"] for task in tasks)
    assert not any(key in (tmp_path / "tasks.json").read_text() for key in drawn["key"].to_pylist())
    assert {file.stem for file in (tmp_path / "tasks-pictures").iterdir()} == set(drawn["sha256"].to_pylist())
    assert (tmp_path / "tasks.xml").read_text().count("<Choices ") == 1


@pytest.mark.slow
def test_wrong_input_is_refused_in_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*arguments: object) -> str:
        assert privsieve("audit", *arguments) == 2
        line, *more = capsys.readouterr().err.splitlines()
        assert not more
        return line

    labels = write(tmp_path / "labels.csv", [{"sha256": "f" * 64, "private": "1"}])
    assert "has no audit sample; draw one with: privsieve audit sample" in refused("apply", run, labels)
    assert "ends in .csv" in refused("sample", run, "--out", tmp_path / "x.txt")
    assert "labels.csv already exists; name another --out, or remove it" in refused("sample", run, "--out", labels)
    assert "inside one" in refused("sample", run, "--out", run / "list.csv")
    assert 'no column "levl"' in refused("sample", run, "--out", tmp_path / "x.csv", "--private", "levl = 1")
    assert not (run / "audit").exists()
    assert not (tmp_path / "x.csv").exists()
    sample(run, tmp_path / "list.csv", "--n", 100)
    capsys.readouterr()
    assert "no label is of a picture of the audit sample" in refused("apply", run, labels)
    assert "--replace draws a new one" in refused("sample", run, "--out", tmp_path / "y.csv", "--n", 100, "--seed", 3)
    for name in ("sample", "corrected_rates"):
        (run / "audit" / f"{name}.parquet").write_bytes(b"PAR1 but no more")
    assert "is damaged; " in refused("apply", run, tmp_path / "list.csv")
    assert privsieve("sql", run, "FROM corrected_rates") == 2
    assert "use audit apply again" in capsys.readouterr().err
    pq.write_table(pa.table({"subject": ["private"]}), run / "audit" / "corrected_rates.parquet")
    with pytest.raises(RunError, match="is damaged; "):
        read_corrected_rates(open_warehouse(str(run)))


@pytest.mark.slow
def test_a_list_that_cannot_be_written_leaves_the_sample_and_the_rates_of_the_run(run: Path, tmp_path: Path) -> None:
    sample(run, tmp_path / "list.csv", "--n", 100)
    labels = write(tmp_path / "labels.csv", filled(tmp_path / "list.csv", {"private": truth()}))
    assert privsieve("audit", "apply", run, labels) == 0
    before = {file.name: file.read_bytes() for file in (run / "audit").iterdir()}
    assert set(before) == {"sample.parquet", "corrected_rates.parquet"}
    assert privsieve("audit", "sample", run, "--out", labels / "x.csv", "--n", 50, "--replace") == 2
    assert {file.name: file.read_bytes() for file in (run / "audit").iterdir()} == before
    (run / "audit" / "sample.parquet").write_bytes(b"PAR1 but no more")
    assert privsieve("audit", "sample", run, "--out", tmp_path / "new.csv", "--n", 50) == 2
    sample(run, tmp_path / "new.csv", "--n", 50, "--replace")
    # The rates are of the rows of the run still; the damaged file is kept aside, whatever is in it.
    kept = before | {"sample-1.parquet": b"PAR1 but no more"}
    del kept["sample.parquet"]
    found = {file.name: file.read_bytes() for file in (run / "audit").iterdir()}
    assert found.pop("sample.parquet") != before["sample.parquet"]
    assert found == kept


@pytest.mark.slow
def test_a_second_person_gets_a_list_of_their_own_and_differences_widen_the_interval(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_there = truth()
    sample(run, tmp_path / "list.csv", "--n", 300, "--for", "private")
    out = capsys.readouterr().out
    first = list(csv.DictReader((tmp_path / "list.csv").open()))
    second = list(csv.DictReader((tmp_path / "list.second.csv").open()))
    assert 15 <= len(second) <= 50
    assert second == first[: len(second)]
    assert f"{len(second)} pictures for a second person, which shows how often labels are wrong: {tmp_path}" in out
    assert f"next: privsieve review {run} --queue audit --as NAME" in out
    ana = write(tmp_path / "ana.csv", filled(tmp_path / "list.csv", {"private": is_there}))
    rows = filled(tmp_path / "list.second.csv", {"private": is_there})
    rows[3]["private"] = "1" if rows[3]["private"] == "0" else "0"
    ben = write(tmp_path / "ben.csv", rows)

    def applied(*labels: Path) -> dict[str, Any]:
        assert privsieve("audit", "apply", run, *labels, "--format", "json") == 0
        return dict(json.loads(capsys.readouterr().out)["subjects"][0])

    capsys.readouterr()
    alone, both = applied(ana), applied(ana, ben)
    looks = both["second_looks"]
    assert (looks["num_pictures"], alone["second_looks"]["num_pictures"]) == (len(second), 0)
    assert 0.5 < looks["kappa"] < 1
    assert both["num_undecided"] == 1
    assert both["corrected"]["low"] < alone["corrected"]["low"]
    assert both["corrected"]["high"] > alone["corrected"]["high"] + looks["reach"]
    assert privsieve("report", run, "--format", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["audited"]["gaps"]["num_judged_twice"] == len(second)
    assert report["audit_cautions"][-1].startswith(f"Several people judged {len(second)} pictures: ")
    assert report["audit_cautions"][-1].endswith("allow for as many wrong labels of pictures that one person judged.")
    assert privsieve("audit", "apply", run, ana, ana) == 2
    assert 'annotator "ana" labels' in capsys.readouterr().err


def _expected_points(said: str) -> float:
    found = re.search(r"expect about ± ([0-9.]+) points for the corrected private rate", said)
    assert found is not None
    return float(found[1])


@pytest.mark.slow
@pytest.mark.parametrize("num", [200, 800])
def test_the_width_to_expect_is_said_before_anyone_labels(
    run: Path, tmp_path: Path, num: int, capsys: pytest.CaptureFixture[str]
) -> None:
    sample(run, tmp_path / "list.csv", "--n", num, "--for", "private")
    said = capsys.readouterr().out
    assert "private pictures are expected for the guarantee of a policy and screen fit" in said
    assert "a promise needs 59 for 95 %, 299 for 99 %" in said
    labels = write(tmp_path / "labels.csv", filled(tmp_path / "list.csv", {"private": truth()}))
    assert privsieve("audit", "apply", run, labels, "--format", "json") == 0
    corrected = json.loads(capsys.readouterr().out)["subjects"][0]["corrected"]
    points = 50 * (corrected["high"] - corrected["low"])
    assert 0.7 * points < _expected_points(said) < 1.4 * points


@pytest.mark.slow
def test_labels_are_placed_where_the_source_is_large(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without sizes a third of the labels is of offices, which are 99 % of the source."""
    as_per_category(run)
    (tmp_path / "sizes.csv").write_text("category,images\nbar,1000\nbeach,1000\noffice,200000\n")
    sizes = ("--category-sizes", tmp_path / "sizes.csv")

    def drawn(name: str, *more: object) -> tuple[float, float, float]:
        """The share of offices, and half of the width of the private rate in points: expected, and as it came."""
        table = sample(run, tmp_path / f"{name}.csv", "--n", 200, "--for", "private", "--replace", *more)
        expected = _expected_points(capsys.readouterr().out)
        labels = write(tmp_path / f"{name}-labels.csv", filled(tmp_path / f"{name}.csv", {"private": truth()}))
        assert privsieve("audit", "apply", run, labels, *([] if more else sizes), "--format", "json") == 0
        audit = json.loads(capsys.readouterr().out)
        assert audit["population"] == "scored images in the source"
        rate = audit["subjects"][0]["corrected"]
        share = table["category"].to_pylist().count("office") / table.num_rows
        return share, expected, 50 * (rate["high"] - rate["low"])

    evenly, by_size = drawn("even"), drawn("sized", *sizes)
    assert evenly[0] < 0.5 < 0.8 < by_size[0]
    assert by_size[2] < 0.85 * evenly[2]
    assert privsieve("audit", "sample", make_run(tmp_path, "plain"), "--out", tmp_path / "x.csv", *sizes) == 2
    assert "--category-sizes is for a run of scan --sample N --per-category" in capsys.readouterr().err


@pytest.mark.slow
def test_one_set_of_labels_corrects_every_run_of_a_corpus(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, later = (make_run(tmp_path, f"run-{seed}", engine_seed=seed) for seed in (3, 4))
    asked = ("--n", 400, "--for", "private", "--also", other)
    table = sample(run, tmp_path / "list.csv", *asked)
    said = capsys.readouterr().out
    assert f"{table.num_rows} of them have a score in {other}, too, and correct its rates\n" in said
    assert f"  or: privsieve audit apply {other} {tmp_path}/list.csv" in said
    labels = write(tmp_path / "labels.csv", filled(tmp_path / "list.csv", {"private": truth()}))
    sample(run, tmp_path / "again.csv", *asked, "--also", later)  # a run that came after the labels
    is_scored = np.arange(NUM_IMAGES) % 50 != 7
    rate = float(truth()[is_scored].mean())
    for each in (run, other, later):
        of_each = read_sample(place(str(each))).table
        assert of_each.select(["sha256", "inclusion_probability"]) == table.select(["sha256", "inclusion_probability"])
        capsys.readouterr()
        assert privsieve("audit", "apply", each, labels, "--format", "json") == 0
        corrected = json.loads(capsys.readouterr().out)["subjects"][0]["corrected"]
        assert corrected["low"] < rate < corrected["high"]
    fewer = make_run(tmp_path, "fewer", num_images=1_000)
    assert privsieve("audit", "sample", fewer, "--out", tmp_path / "x.csv", "--also", run, "--replace") == 2
    assert f"{run} has 980 scored images that {fewer} has not scored" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()
    assert not (fewer / "audit").exists()
    assert privsieve("audit", "sample", run, "--out", tmp_path / "x.csv", "--n", 50, "--replace", "--also", fewer) == 0
    assert read_sample(place(str(fewer))).design.num_scored == 980
