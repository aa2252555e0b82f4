"""What `labels agreement` says beside kappa: agreement by class and category, and who finds an attribute too often."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.labels.agreement import agreement_table
from scoring.labels.judgements import judgements
from scoring.labels.table import read_labels, to_labels
from tests.jobs.made import privsieve
from tests.making import Capture

CLEARLY, PRIVATE, PUBLIC, OPEN = "clearly private", "private", "public", "clearly public"


def _csv(path: Path, head: str, *lines: str) -> Path:
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def _json(capsys: Capture, *command: object) -> Any:
    assert privsieve("labels", "agreement", *command, "--format", "json") == 0
    return json.loads(capsys.readouterr().out)


def _votes(category: Sequence[str | None], *people: Sequence[str | None]) -> dict[tuple[object, object], Any]:
    keys = [str(number) for number in range(len(category))]
    columns: dict[str, Sequence[object]] = {"key": keys, "class": category}
    tables = [
        (name, to_labels({**columns, "annotator": [name] * len(keys), "vote": list(votes)}, len(keys)))
        for name, votes in zip("abcde", people, strict=False)
    ]
    return {(g.category, g.majority): g for g in agreement_table(judgements(tables)).pairwise.groups}


def test_pairwise_agreement_is_shown_by_class_and_category() -> None:
    found = _votes(
        ["nudity", "nudity", "religion", None],
        [CLEARLY, PRIVATE, OPEN, CLEARLY],
        [CLEARLY, PRIVATE, OPEN, OPEN],
        [PRIVATE, PRIVATE, PUBLIC, None],
    )
    # One against two votes a step apart: pairs 1, .75, .75. The last picture ties, so it has no class.
    assert found["nudity", None].mean == pytest.approx((2.5 / 3 + 1) / 2)
    assert found["nudity", CLEARLY].mean == pytest.approx(2.5 / 3)
    assert (found["nudity", PRIVATE].mean, found["nudity", PRIVATE].band) == (1, "high")
    assert found[None, OPEN].num_items == found["religion", OPEN].num_items == 1
    assert (None, None) not in found
    assert (None, PUBLIC) not in found
    tied = _votes(["x"], [CLEARLY], [OPEN])
    assert {name: (g.num_items, g.mean, g.band) for name, g in tied.items()} == {("x", None): (1, 0, "none")}


def test_the_numbers_of_privacyalert_run_from_private_to_public(tmp_path: Path, capsys: Capture) -> None:
    ann = _csv(tmp_path / "ann.csv", "key,annotator,vote", "a,ann,0", "b,ann,0.25", "c,ann,.75", "d,ann,1.0", "e,ann,")
    bob = _csv(tmp_path / "bob.csv", "key,annotator,vote", "a,bob,clearly private", "b,bob,private", "d,bob,public")
    assert read_labels(str(ann))["vote"].to_pylist() == [CLEARLY, PRIVATE, PUBLIC, OPEN, None]
    known = _csv(tmp_path / "known.csv", "key,vote", "a,0", "d,1")
    checks = _json(capsys, ann, bob, "--attention-checks", known)["checks"]
    assert checks["num_right"] == {"ann": 2, "bob": 2}  # the side counts, not the class
    wrong = _csv(tmp_path / "wrong.csv", "key,vote", "a,2")
    with pytest.raises(Exception, match='row 1: "vote" is none of clearly private'):
        read_labels(str(wrong))


def test_the_papers_rule_drops_whoever_fails_any_check(tmp_path: Path, capsys: Capture) -> None:
    keys = [f"check {number}" for number in range(5)]
    ann = _csv(tmp_path / "a.csv", "key,annotator,private", "x,ann,1", *(f"{key},ann,1" for key in keys))
    bob = _csv(tmp_path / "b.csv", "key,annotator,private", "x,bob,1", *(f"{key},bob,1" for key in keys))
    cy = _csv(tmp_path / "c.csv", "key,annotator,private", "x,cy,0", "check 0,cy,0", *(f"{k},cy,1" for k in keys[1:]))
    known = _csv(tmp_path / "known.csv", "key,private", *(f"{key},1" for key in keys))
    command = ("labels", "agreement", ann, bob, cy, "--attention-checks", known)
    assert privsieve(*command) == 0
    shown = capsys.readouterr().out
    assert "attention checks: cy 4 of 5 right\n" in shown
    assert "PrivacyAlert drops everybody who fails any check (--min-attention 1): also cy\n" in shown
    assert privsieve(*command, "--min-attention", 1) == 0
    shown = capsys.readouterr().out
    assert "attention checks: cy 4 of 5 right: dropped\n" in shown
    assert "PrivacyAlert" not in shown


def _people(tmp_path: Path) -> Path:
    # Race: people say yes in 2 of 4 (d ties, which is no). Gender: in none.
    return _csv(
        tmp_path / "people.csv",
        "key,annotator,race_ethnicity,gender",
        *("a,p1,1,0", "a,p2,1,0", "b,p1,1,0", "b,p2,1,1", "c,p1,0,0", "c,p2,0,0", "d,p1,1,0", "d,p2,0,0"),
    )


def test_over_and_under_prediction_is_against_the_majority_of_people(tmp_path: Path, capsys: Capture) -> None:
    people = _people(tmp_path)
    lines = ("a,m,0,1,1", "b,m,1,0.5,1", "c,m,0,1,1", "d,m,0,,1", "e,m,1,1,1")  # of e people said nothing
    model = _csv(tmp_path / "model.csv", "key,annotator,race_ethnicity,gender,age", *lines)
    found = _json(capsys, model, "--against", people)
    rows = {(row["name"], row["annotator"]): row for row in found["prevalences"]}
    assert set(rows) == {("race_ethnicity", "m"), ("gender", "m")}  # people judged no other attribute
    race, gender = rows["race_ethnicity", "m"], rows["gender", "m"]
    assert (race["num_pictures"], race["share"], race["share_of_people"]) == (4, 0.25, 0.5)
    assert race["difference"] == -0.25
    assert race["low"] < -0.25 < race["high"]
    assert (gender["num_pictures"], gender["share"], gender["share_of_people"]) == (3, pytest.approx(2 / 3), 0)
    assert gender["difference"] == pytest.approx(2 / 3)
    assert _json(capsys, model, people, "--against", people)["prevalences"] == found["prevalences"]
    assert privsieve("labels", "agreement", model, "--against", people) == 0
    assert "−25.0" in capsys.readouterr().out


def test_a_level_is_the_mean_of_its_attributes(tmp_path: Path, capsys: Capture) -> None:
    head = "key,annotator,biometrics,gov_ids,unique_body_markings"
    people = _csv(tmp_path / "people.csv", head, "a,p,1,0,0", "b,p,1,0,0")
    model = _csv(tmp_path / "model.csv", head, "a,m,1,1,0", "b,m,1,1,1")
    found = _json(capsys, model, "--against", people)
    (level,) = (row for row in found["prevalences"] if row["name"] == "mean of level 1")
    assert level["difference"] == pytest.approx((1 / 3 + 2 / 3) / 2)


def test_people_who_judged_nothing_that_others_judged_are_refused(tmp_path: Path, capsys: Capture) -> None:
    people = _people(tmp_path)
    model = _csv(tmp_path / "model.csv", "key,annotator,private", "a,m,1", "b,m,0")
    assert privsieve("labels", "agreement", model, "--against", people) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no other annotator judged an attribute of a picture that these people judged" in error


def test_unclear_cues_are_absent_by_the_papers_rule(tmp_path: Path, capsys: Capture) -> None:
    one = _csv(tmp_path / "1.csv", "key,annotator,gender", "a,ann,0.5", "b,ann,1", "c,ann,0")
    two = _csv(tmp_path / "2.csv", "key,annotator,gender", "a,bob,0", "b,bob,1", "c,bob,0.5")
    for options, identical in (((), 1 / 3), (("--paper-rule",), 1)):
        rows = {row["name"]: row for row in _json(capsys, one, two, *options)["rows"]}
        assert rows["gender"]["identical"] == pytest.approx(identical)
