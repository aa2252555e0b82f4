"""`privsieve audit apply` as a user calls it: corrected rates from labels."""

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import RunError
from ingest.storage.place import place
from reports.report.compute import summarise
from reports.report.words import audit_cautions
from reports.run.warehouse import open_warehouse, setup_statements
from scoring.assessment import Assessment
from scoring.labels.reviews import ReviewAnswers
from scoring.runs.audit_files import SUBJECTS
from scoring.table import Facts, Verdict, to_table
from scoring.taxonomy import KEYS
from tests.auditing.made import (
    AGE,
    CATEGORIES,
    NUM_IMAGES,
    answer,
    as_per_category,
    filled,
    read_corrected_rates,
    sample,
    truth,
    write,
)
from tests.jobs.made import privsieve
from tests.records import run_record, write_result


@pytest.mark.slow
def test_labels_correct_the_rates_of_the_run_and_of_categories(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_there = truth()
    drawn = sample(run, tmp_path / "list.csv", "--n", 600)
    rows = filled(tmp_path / "list.csv", {"private": is_there, "biometrics": is_there})
    for row in rows[::3]:
        row["documents"] = row["biometrics"].replace("0", "")
    labels = write(tmp_path / "labels.csv", rows)
    capsys.readouterr()
    assert privsieve("audit", "apply", run, labels, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    scored = np.arange(NUM_IMAGES) % 50 != 7
    true_rate = float(is_there[scored].mean())
    subjects = {one["subject"]: one for one in found["subjects"]}
    for subject in ("private", "biometrics"):
        one = subjects[subject]
        assert one["raw_rate"] != pytest.approx(true_rate, abs=0.005)
        assert one["corrected"]["low"] <= true_rate <= one["corrected"]["high"]
        assert one["corrected"]["high"] - one["corrected"]["low"] < 0.05
        assert one["num_labels"] == drawn.num_rows
        assert one["sensitivity"]["low"] <= 0.8 <= one["sensitivity"]["high"]
        assert one["specificity"]["low"] <= 0.95 <= one["specificity"]["high"]
    # Nothing that was not labelled has a rate.
    assert subjects["gov_ids"]["corrected"] == {"value": None, "low": None, "high": None}
    assert subjects["gov_ids"]["note"] == "no labels"
    # Nor has what the labels name only where it is present: its rate would be 100 %.
    assert subjects["documents"]["corrected"]["value"] is None
    assert subjects["documents"]["note"] == "labels say only where it is present"
    by_category = {one["category"]: one for one in found["categories"] if one["subject"] == "private"}
    for place_, category in enumerate(CATEGORIES):
        here = float(is_there[scored & (np.arange(NUM_IMAGES) % 3 == place_)].mean())
        assert by_category[category]["corrected"]["low"] <= here <= by_category[category]["corrected"]["high"]
        assert by_category[category]["method"] == "difference"  # each has labels enough

    assert privsieve("audit", "apply", run, labels) == 0
    text = capsys.readouterr().out
    assert "Fay and Herriot" not in text
    assert "since most cannot be shown: 40 quarantined images; report says what they change." in text
    assert "\nNo corrected rate, since no drawn picture is labelled for it (review --for attributes " in text
    assert "asks for attributes): gov_ids, " in text
    assert "since the labels say only where it is present, and leave other pictures open: documents.\n" in text
    assert f"labels   {drawn.num_rows} of {drawn.num_rows} pictures have a label\n" in text
    assert text.count("%") == text.count(" %") > 10  # written in one way


@pytest.mark.slow
def test_a_list_that_was_filled_in_with_1_only_corrects_nothing_until_somebody_says_0(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample(run, tmp_path / "list.csv", "--n", 100)
    rows = filled(tmp_path / "list.csv", {"private": truth()})
    only_1 = [row | {"private": row["private"].replace("0", "")} for row in rows]
    assert privsieve("audit", "apply", run, write(tmp_path / "labels.csv", only_1)) == 0
    assert "leave other pictures open: private.\n" in capsys.readouterr().out
    assert privsieve("report", run) == 0
    assert "corrected by" not in capsys.readouterr().out
    # A person who judged all attributes of a picture has said what is absent from it.
    judged = [row | dict.fromkeys(KEYS, "0") | {"age": "1"} for row in rows[:40]]
    assert privsieve("audit", "apply", run, write(tmp_path / "more.csv", judged), "--format", "json") == 0
    rates = {rates["subject"]: rates for rates in json.loads(capsys.readouterr().out)["subjects"]}
    assert rates["age"]["num_positive"] == rates["age"]["num_labels"] == 40
    assert rates["age"]["corrected"]["value"] == pytest.approx(1)


@pytest.mark.slow
def test_corrected_rates_stand_in_the_run_and_in_sql(run: Path, tmp_path: Path) -> None:
    empty = open_warehouse(str(run)).table("FROM corrected_rates")
    assert read_corrected_rates(open_warehouse(str(run))) is None
    sample(run, tmp_path / "list.csv", "--n", 100)
    labels = write(tmp_path / "labels.csv", filled(tmp_path / "list.csv", {"biometrics": truth()}))
    assert privsieve("audit", "apply", run, labels) == 0
    stored = read_corrected_rates(open_warehouse(str(run)))
    assert stored is not None
    assert stored["subject"].to_pylist()[:23] == list(SUBJECTS)
    asked = open_warehouse(str(run)).table("FROM corrected_rates")
    assert asked.to_pylist() == stored.to_pylist()
    assert empty.num_rows == 0
    assert empty.schema == asked.schema
    with duckdb.connect() as fresh:
        fresh.execute(setup_statements(str(run)))
        assert fresh.execute("FROM corrected_rates").fetchall() == [tuple(row.values()) for row in stored.to_pylist()]
    # An attribute that the engine never judges has a rate by the labels alone.
    whole = {row["subject"]: row for row in stored.to_pylist() if row["category"] is None}
    assert whole["age"]["raw_rate"] is None
    assert whole["age"]["corrected_rate"] is None
    assert whole["biometrics"]["corrected_rate"] is not None


@pytest.mark.slow
def test_a_shard_that_was_replaced_by_another_with_as_many_rows_makes_the_audit_stale(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(original, tmp_path / "run"))
    sample(run, tmp_path / "list.csv", "--n", 100)
    labels = write(tmp_path / "labels.csv", filled(tmp_path / "list.csv", {"private": truth()}))
    assert privsieve("audit", "apply", run, labels) == 0
    before = {file: file.read_bytes() for file in (run / "audit").iterdir()}
    result = next((run / "scores").glob("1.tar-*"))
    rows = pq.read_table(result)
    column = rows.schema.get_field_index("biometrics")
    values = pa.array([1 if value == 0 else value for value in rows["biometrics"].to_pylist()], pa.float32())
    write_result(run, "1.tar", 0, True, rows.set_column(column, rows.schema.field(column), values))
    capsys.readouterr()
    with pytest.raises(RunError, match="other rows than the run has now"):
        read_corrected_rates(open_warehouse(str(run)))
    report = summarise(open_warehouse(str(run)))
    assert (report.corrected, report.audited.is_stale) == ((), True)
    for command, message in (
        (("sql", run, "FROM corrected_rates"), "the audit is of other rows than the run has now"),
        (("audit", "apply", run, labels), "other rows"),
        (("calibrate", run, "--labels", labels), "another state"),
        (("audit", "sample", run, "--out", tmp_path / "new.csv", "--n", 100), "--replace draws a new one"),
    ):
        assert privsieve(*command) == 2
        assert message in capsys.readouterr().err
    assert privsieve("sql", run, "SELECT count(*) FROM images") == 0  # all else goes on
    # The same rows once more, in a file that was written anew: the audit is of them.
    write_result(run, "1.tar", 0, True, rows)
    assert read_corrected_rates(open_warehouse(str(run))) is not None
    assert {file: file.read_bytes() for file in (run / "audit").iterdir()} == before


@pytest.mark.slow
def test_half_of_the_labels_and_labels_of_other_pictures_are_counted(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_there = truth()
    drawn = sample(run, tmp_path / "list.csv", "--n", 600)
    rows = filled(tmp_path / "list.csv", {"private": is_there}, slice(0, 200))
    shared = next(
        key for key, name in zip(*(drawn[c].to_pylist() for c in ("key", "name")), strict=True) if key != name
    )
    blank = dict.fromkeys(rows[0], "")
    strangers = [blank | {"key": shared, "private": "1"}, blank | {"sha256": "f" * 64, "private": "1"}]
    labels = write(tmp_path / "labels.csv", [*rows[:400], *strangers])
    capsys.readouterr()
    assert privsieve("audit", "apply", run, labels, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    counts = found["labels"]
    assert (counts["num_labelled"], counts["num_empty"]) == (200, 200)
    assert counts["num_without_row"] == drawn.num_rows - 400
    assert counts["num_outside"] == 2  # a name that several pictures have, and a picture that was not drawn
    private = found["subjects"][0]
    assert private["num_labels"] == 200
    assert private["corrected"]["low"] <= is_there.mean() <= private["corrected"]["high"]
    assert "Not used, since chance did not choose their pictures from this run: 2 labels." in found["notes"]


@pytest.mark.slow
def test_pictures_on_which_people_differ_widen_the_interval_to_all_and_none_of_them(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two people answer in review. They differ on some private pictures, and on every twentieth nobody can say."""
    drawn, is_there = sample(run, tmp_path / "list.csv", "--n", 64), truth()
    ana, ben = ReviewAnswers(place(str(run / "reviews"))), ReviewAnswers(place(str(run / "reviews")))
    differ, unclear, hashes = list[str](), list[str](), list[str](drawn["sha256"].to_pylist())
    for number, sha256 in enumerate(hashes):
        is_private = bool(is_there[int(sha256, 16)])
        says = "private" if is_private else "public"
        if number % 20 == 3:
            unclear.append(sha256)
            answer(ana, sha256, "ana", "unclear")
            continue
        answer(ana, sha256, "ana", says)
        if is_private and number % 2 == 0:
            differ.append(sha256)
            answer(ben, sha256, "ben", "public")
        elif number % 7 == 0:
            answer(ben, sha256, "ben", says)
    assert len(differ) >= 2
    undecided = {*differ, *unclear}

    def applied(labels: Path) -> dict[str, Any]:
        capsys.readouterr()
        assert privsieve("audit", "apply", run, labels, "--format", "json") == 0
        return dict(json.loads(capsys.readouterr().out))

    def private_of(taken: str) -> dict[str, Any]:
        """What a list gives in which the undecided pictures are public ("0"), private ("1"), or left out ("")."""
        rows = filled(tmp_path / "list.csv", {"private": is_there})
        for row in rows:
            row["private"] = taken if row["sha256"] in undecided else row["private"]
        rows = [row for row in rows if row["private"]]
        return dict(applied(write(tmp_path / f"as-{taken}.csv", rows))["subjects"][0])

    none, all_, left_out = private_of("0"), private_of("1"), private_of("")
    found = applied(run / "reviews")
    private = found["subjects"][0]
    assert private["num_undecided"] == len(undecided)
    assert private["num_labels"] == len(hashes) - len(undecided)
    assert found["labels"]["num_undecided"] == len(undecided)
    assert (found["labels"]["num_labelled"], found["labels"]["num_empty"]) == (len(hashes) - len(undecided), 0)
    for what in ("corrected", "sensitivity", "specificity"):
        assert private[what]["value"] == left_out[what]["value"]
        assert private[what]["low"] == min(one[what]["low"] for one in (none, all_, left_out))
        assert private[what]["high"] == max(one[what]["high"] for one in (none, all_, left_out))
    assert private["corrected"]["low"] == none["corrected"]["low"] < left_out["corrected"]["low"]
    assert private["corrected"]["high"] == all_["corrected"]["high"] > left_out["corrected"]["high"]
    stored = read_corrected_rates(open_warehouse(str(run)))
    assert stored is not None
    assert stored["note"][0].as_py() == "the interval covers undecided labels"
    assert privsieve("audit", "apply", run, run / "reviews") == 0
    text = capsys.readouterr().out
    assert (
        f"Undecided, since people differ, cannot say, or skipped them: private {len(undecided)}. The intervals cover"
        in text
    )
    assert f"privsieve review {run} --queue audit --as NAME, then apply {run}/reviews" in text
    assert "drawn pictures have no label" not in text
    for sha256 in undecided:  # a third person, and a second one for what nobody could say
        answer(ana, sha256, "cyd", "private" if is_there[int(sha256, 16)] else "public")
    decided = applied(run / "reviews")["subjects"][0]
    assert (decided["num_undecided"], decided["num_labels"]) == (0, len(hashes))
    assert decided["corrected"]["high"] < private["corrected"]["high"]


@pytest.mark.slow
def test_a_report_names_what_its_labels_leave_open(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = sample(run, tmp_path / "list.csv", "--n", 60)
    rows = filled(tmp_path / "list.csv", {"private": truth()}, slice(0, 20))
    others = [
        row | {"annotator": name, "private": vote} for row in rows[20:23] for name, vote in (("a", "0"), ("b", "1"))
    ]
    labels = write(tmp_path / "labels.csv", [row | {"annotator": "a"} for row in rows[:20]] + others)
    assert privsieve("audit", "apply", run, labels) == 0
    capsys.readouterr()
    page = tmp_path / "report.html"
    assert privsieve("report", run, "--html", page) == 0
    text = capsys.readouterr().out
    assert privsieve("report", run, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["audit_cautions"] == [
        "Fewer than 30 labels: label more before you rely on the corrected rate of private.",
        f"{drawn.num_rows - 23} of {drawn.num_rows} drawn pictures have no label. The corrected rates hold only if "
        "chance decided which: label in the order of the list, and leave out no hard ones.",
        "Undecided, since people differ, cannot say, or skipped them: private 3. The intervals cover all of them being "
        "so, and none.",
        "The labels count as the truth: 5 % wrong ones can turn a rate of 10 % into 14 %. How often they are wrong "
        "shows if two people judge at least 20 of the pictures (so far 3); those for it come first in a review.",
    ]
    for caution in found["audit_cautions"]:
        assert f"{caution}\n" in text
        assert f"<strong>{caution}</strong>" in page.read_text()
    assert found["audited"]["gaps"]["num_undecided"] == {"private": 3}
    assert privsieve("report", run, "--format", "csv") == 0
    assert set(found["audit_cautions"]) <= set(capsys.readouterr().err.splitlines())
    whole = write(tmp_path / "whole.csv", filled(tmp_path / "list.csv", {"private": truth()}))
    assert privsieve("audit", "apply", run, whole) == 0
    (caution,) = audit_cautions(summarise(open_warehouse(str(run))))
    assert caution.startswith("The labels count as the truth")


@pytest.mark.slow
def test_a_raw_rate_that_is_only_a_lower_bound_is_marked_like_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine sees some of the children, and never says of a picture that it shows none."""
    run, num = tmp_path / "run", 40
    (run / "scores").mkdir(parents=True)
    (run / "run.json").write_text(
        run_record({"name": "canned", "protocol": "canned", "assessed": list(KEYS)}).model_dump_json()
    )
    verdicts: list[Verdict] = []
    for number in range(num):
        values = np.zeros(len(KEYS), dtype=np.float32)
        values[AGE] = 1 if number < 10 else np.nan
        verdicts.append(Assessment(values))
    facts = [Facts("0.tar", n, f"{n:06d}", "beach", 1, f"{n:064x}") for n in range(num)]
    write_result(run, "0.tar", 0, True, to_table(facts, verdicts))
    sample(run, tmp_path / "list.csv", "--n", 20)
    is_child = np.arange(num) < 20
    labels = write(tmp_path / "labels.csv", filled(tmp_path / "list.csv", {"age": is_child, "nudity": is_child}))
    capsys.readouterr()
    assert privsieve("audit", "apply", run, labels) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines if line.split()[:1] == ["age"]] == [["age", "≥", "25.0", "%"]]
    assert [line.split()[:3] for line in lines if line.split()[:1] == ["nudity"]] == [["nudity", "0.0", "%"]]
    assert any("≥: never ruled out, so at least" in line for line in lines)
    assert privsieve("report", run, "--full") == 0
    table = capsys.readouterr().out.partition("Rates of the scored images, corrected by")[2]
    assert ["age", "≥", "25.0", "%"] in [line.split()[:4] for line in table.splitlines()]


@pytest.mark.slow
def test_a_run_with_as_many_images_of_each_category_is_weighted_with_their_sizes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source has 100 offices for each other picture; they are private most often."""
    is_there = truth()
    as_per_category(run)
    sample(run, tmp_path / "list.csv", "--n", 600, "--for", "private")
    labels = write(tmp_path / "labels.csv", filled(tmp_path / "list.csv", {"private": is_there}))
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("category,images\nbar,1000\nbeach,1000\noffice,200000\n")
    capsys.readouterr()
    assert privsieve("audit", "apply", run, labels) == 0
    pooled = capsys.readouterr().out
    assert "Share of the scored images, as the run answers" in pooled
    assert privsieve("report", run, "--category-sizes", sizes, "--format", "json") == 0
    unweighted = json.loads(capsys.readouterr().out)
    assert not unweighted["headline"]["is_corrected"]
    assert privsieve("report", run, "--category-sizes", sizes) == 0
    assert "Labels correct the rates of categories. A rate of the whole source needs their sizes: run audit apply" in (
        capsys.readouterr().out
    )
    assert privsieve("audit", "apply", run, labels, "--category-sizes", sizes) == 0
    assert "Share of the scored images in the source, as the run answers" in capsys.readouterr().out
    assert privsieve("report", run, "--format", "json") == 0
    report = json.loads(capsys.readouterr().out)
    headline = report["headline"]
    assert headline["is_corrected"]
    assert headline["population"] == "scored images in the source"
    scored = np.arange(NUM_IMAGES) % 50 != 7
    offices = float(is_there[scored & (np.arange(NUM_IMAGES) % 3 == 2)].mean())
    assert headline["low"] < offices < headline["high"]
    assert report["overall"]["rate"] == pytest.approx(unweighted["overall"]["rate"])
    statement = "SELECT low, high, population FROM corrected_rates WHERE subject = 'private'"
    assert privsieve("sql", run, f"{statement} AND category IS NULL", "--format", "json") == 0
    (in_sql,) = json.loads(capsys.readouterr().out)
    assert list(in_sql.values()) == [headline["low"], headline["high"], "scored images in the source"]
    assert privsieve("sql", run, f"{statement} AND category = 'office'", "--format", "json") == 0
    (in_sql,) = json.loads(capsys.readouterr().out)
    office = next(row for row in report["corrected"] if (row["subject"], row["category"]) == ("private", "office"))
    assert list(in_sql.values()) == [office["low"], office["high"], "scored images in the source"]
    (private,) = (row for row in report["corrected"] if row["subject"] == "private" and row["category"] is None)
    assert (private["sensitivity"], private["specificity"]) == (None, None)  # their error of the draw is not known
    assert privsieve("report", run, "--by", "length(key)", "--format", "json") == 0
    by_length = json.loads(capsys.readouterr().out)["headline"]
    assert by_length == headline
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("category,images\nbar,1000\nbeach,1000\noffice,200001\n")
    assert privsieve("report", run, "--category-sizes", wrong) == 2
    assert "corrected rates of this run are weighted with other sizes; run audit apply --category-sizes with these" in (
        capsys.readouterr().err
    )
    for text, why in (
        ("category,images\nbar,1000\nbeach,1000\n", '1 category has (such as "office") no size there'),
        ("category,images\nbar,1\nbeach,1000\noffice,200000\n", 'of "bar" the run has 667 images, and 1 are given'),
    ):
        wrong.write_text(text)
        assert privsieve("audit", "apply", run, labels, "--category-sizes", wrong) == 2
        assert why in capsys.readouterr().err


def test_before_any_review_the_command_that_asks_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = run / "reviews"
    assert privsieve("audit", "apply", run, answers) == 2
    assert capsys.readouterr().err == (
        f"privsieve: {answers}: there are no answers yet; give some with privsieve review {run} --queue audit\n"
    )
