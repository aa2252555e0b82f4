"""Agreement of annotators: golden values of textbooks, by hand, and what is done with missing answers."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from reports.agreement import agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha, pairwise_agreement
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from scoring.taxonomy import KEYS
from tests.jobs.made import privsieve

_ = np.nan
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
)
"""Four observers and twelve units: Krippendorff, "Computing Krippendorff's Alpha-Reliability", section C."""

FLEISS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]
"""Ten subjects, fourteen raters, five answers: a common textbook example with kappa .210."""


def test_krippendorffs_own_example() -> None:
    found = agreement("units", KRIPPENDORFF)
    assert found.num_items == 11  # unit 12 has one answer
    assert found.num_answers == 40
    assert found.alpha_nominal == pytest.approx(0.743, abs=0.0005)
    assert found.alpha_ordinal == pytest.approx(0.815, abs=0.0005)
    assert agreement("units", KRIPPENDORFF, has_order=False).alpha_ordinal is None


def test_fleiss_of_ten_subjects_and_fourteen_raters() -> None:
    assert fleiss_kappa(np.array(FLEISS, float)) == pytest.approx(0.210, abs=0.0005)
    answers = np.array([list(itertools.chain(*([k] * n for k, n in enumerate(row)))) for row in FLEISS], float).T
    assert agreement("x", answers).fleiss == pytest.approx(0.210, abs=0.0005)


def test_cohen_of_fifty_proposals() -> None:
    # 20 both yes, 15 both no, 5 and 10 split: observed .7, expected .5 * .6 + .5 * .4 = .5, kappa .4.
    first = np.repeat([1.0, 1.0, 0.0, 0.0], [20, 5, 10, 15])
    second = np.repeat([1.0, 0.0, 1.0, 0.0], [20, 5, 10, 15])
    assert cohen_kappa(first, second) == pytest.approx(0.4)
    found = agreement("proposals", np.stack([first, second]))
    assert found.cohen == pytest.approx(0.4)
    assert found.percent == found.identical == pytest.approx(0.7)


def test_a_kappa_by_hand_with_answers_missing() -> None:
    # Items 1–4 have two answers: same, same, different, same. Shares of 1: first 2/4, second 3/4.
    first = np.array([1, 0, 0, 1, 1, _])
    second = np.array([1, 0, 1, 1, _, 0])
    assert cohen_kappa(first, second) == pytest.approx((3 / 4 - (2 / 4 * 3 / 4 + 2 / 4 * 1 / 4)) / (1 - 1 / 2))
    found = agreement("x", np.stack([first, second]))
    assert found.num_items == 4
    assert found.fleiss == pytest.approx((3 / 4 - (25 + 9) / 64) / (1 - (25 + 9) / 64))


def test_what_chance_explains_is_not_defined() -> None:
    same = agreement("x", np.ones((3, 5)))
    assert same.percent == 1
    assert (same.cohen, same.fleiss, same.alpha_nominal, same.alpha_ordinal) == (None, None, None, None)
    nothing = agreement("x", np.full((2, 5), np.nan))
    assert (nothing.num_items, nothing.percent, nothing.fleiss) == (0, None, None)


def test_alpha_without_gaps_is_near_fleiss_and_shuffled_answers_agree_by_chance() -> None:
    draw = np.random.default_rng(5)
    answers = draw.integers(0, 3, (4, 5000)).astype(float)
    found = agreement("x", answers)
    for value in (found.cohen, found.fleiss, found.alpha_nominal, found.alpha_ordinal):
        assert value == pytest.approx(0, abs=0.02)
    answers[:, :2500] = answers[0, :2500]
    found = agreement("x", answers)
    assert found.alpha_nominal == pytest.approx(found.fleiss, abs=1e-3)
    assert found.identical == pytest.approx(0.5 + 0.5 / 27, abs=0.02)


def test_the_order_of_answers_matters_to_ordinal_alpha_only() -> None:
    near = np.array([[4, 0, 0, 0], [2, 2, 0, 0], [0, 0, 2, 2], [0, 0, 0, 4.0]])
    far = near[:, [0, 3, 2, 1]]
    assert krippendorff_alpha(near, False) == pytest.approx(krippendorff_alpha(far, False))
    assert (krippendorff_alpha(near, True) or 0) > (krippendorff_alpha(far, True) or 0) + 0.1


def _plainly(scores: npt.NDArray[np.float64]) -> list[float]:
    means = []
    for column in scores.T:
        known = column[~np.isnan(column)]
        if len(known) > 1:
            means.append(float(np.mean([1 - abs(a - b) for a, b in itertools.combinations(known, 2)])))
    return means


def test_pairwise_agreement_by_hand() -> None:
    # 0, .25, .75: differences .25, .75, .5, so PA is 1 - .5. One against its opposite is 0, one alone does not count.
    found = pairwise_agreement(np.array([[0, 0, 1], [0.25, 1, _], [0.75, _, _]]))
    assert found.num_items == 2
    assert found.mean == pytest.approx(0.25)
    assert found.bands == {"none": 1, "poor": 1, "moderate": 0, "high": 0}
    draw = np.random.default_rng(1)
    scores = draw.choice([0, 0.25, 0.75, 1, np.nan], (5, 300))
    plain = _plainly(scores)
    found = pairwise_agreement(scores)
    assert found.mean == pytest.approx(np.mean(plain))
    assert found.bands["high"] == sum(mean > 0.75 + 1e-9 for mean in plain)
    assert sum(found.bands.values()) == found.num_items == len(plain)
    assert pairwise_agreement(np.full((2, 3), np.nan)).mean is None


def test_scikit_learn_gives_the_same_cohen() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(2)
    first, second = draw.integers(0, 3, (2, 400)).astype(float)
    assert cohen_kappa(first, second) == pytest.approx(metrics.cohen_kappa_score(first, second))


def _file(path: Path, annotator: str, **columns: Sequence[object]) -> Path:
    num_rows = len(next(iter(columns.values())))
    named = {name.rstrip("_"): cells for name, cells in columns.items()}
    write_labels(to_labels({"annotator": [annotator] * num_rows, **named}, num_rows), str(path), LabelsOrigin("test"))
    return path


def test_the_command_compares_attributes_levels_private_and_class(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["1", "2", "3", "4"]
    first = _file(
        tmp_path / "a.parquet", "ann", key=keys, gov_ids=[1, 0, 0, 1], private=[1, 0, 0, 1], class_=["a", "b", "b", "c"]
    )
    second = _file(
        tmp_path / "b.parquet",
        "bob",
        key=keys,
        gov_ids=[1, 0, 1, None],
        private=[1, 0, 0, 0],
        class_=["a", "b", "c", "c"],
    )
    assert privsieve("labels", "agreement", first, second, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in found["rows"]}
    assert found["annotators"] == ["ann", "bob"]
    assert set(rows) == {
        "gov_ids",
        "attributes of level 1 (unique identifiers)",
        "all attributes",
        "level",
        "private",
        "class",
    }
    assert rows["gov_ids"]["num_items"] == 3
    # Where it is 0 the level is open, since the other attributes were not judged.
    assert rows["level"]["num_items"] == 1
    assert rows["gov_ids"]["percent"] == pytest.approx(2 / 3)
    assert rows["private"]["percent"] == pytest.approx(3 / 4)
    assert rows["private"]["cohen"] == pytest.approx(0.5)
    assert rows["class"]["percent"] == pytest.approx(3 / 4)
    assert rows["class"]["alpha_ordinal"] is None
    assert found["pairwise"] == {
        "of": "private",
        "num_items": 4,
        "mean": 0.75,
        "bands": {"none": 1, "poor": 0, "moderate": 0, "high": 3},
    }
    assert privsieve("labels", "agreement", first, second) == 0
    shown = capsys.readouterr().out
    assert "2 annotators: ann, bob" in shown
    assert "pairwise agreement of private: 0.750" in shown


def test_levels_are_compared_from_harmless_to_severe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["1", "2", "3", "4", "5"]
    none = {key: [0] * 5 for key in KEYS}
    # Level 4 and no level at all are neighbours, level 4 and level 1 are not.
    near = _file(
        tmp_path / "near.parquet", "near", key=keys, **none | {"gov_ids": [1, 1, 0, 0, 0], "metadata": [0, 0, 1, 1, 0]}
    )
    truth = _file(
        tmp_path / "truth.parquet",
        "truth",
        key=keys,
        **none | {"gov_ids": [1, 1, 0, 0, 0], "metadata": [0, 0, 0, 1, 0]},
    )
    far = _file(
        tmp_path / "far.parquet", "far", key=keys, **none | {"gov_ids": [1, 1, 1, 0, 0], "metadata": [0, 0, 0, 1, 0]}
    )
    alphas = []
    for other in (near, far):
        assert privsieve("labels", "agreement", truth, other, "--format", "json") == 0
        rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
        alphas.append(rows["level"]["alpha_ordinal"])
    assert alphas[0] > alphas[1]


def test_inattentive_annotators_are_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["1", "2", "3", "check private", "check public"]
    files = [
        _file(tmp_path / "a.csv", "ann", key=keys, private=[1, 0, 1, 1, 0]),
        _file(tmp_path / "b.csv", "bob", key=keys, score=[1, 0.25, 0.75, 0.75, 0.25]),
        _file(tmp_path / "c.csv", "cy", key=keys, private=[0, 1, 0, 1, 1]),
        _file(tmp_path / "d.csv", "new", key=keys[:3], private=[1, 0, 1]),
    ]
    checks = _file(tmp_path / "checks.csv", "known", key=keys[3:], private=[1, 0])
    command = ("labels", "agreement", *files, "--attention-checks", checks)
    assert privsieve(*command, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["checks"]["num_right"] == {"ann": 2, "bob": 2, "cy": 1, "new": 0}
    assert found["checks"]["num_asked"] == {"ann": 2, "bob": 2, "cy": 2, "new": 0}
    assert found["checks"]["dropped"] == ["cy"]
    assert found["annotators"] == ["ann", "bob", "new"]
    assert found["num_pictures"] == 3  # without the checks
    assert {row["name"]: row["percent"] for row in found["rows"]} == {"private": 1}
    assert privsieve(*command) == 0
    assert "attention checks: cy 1 of 2 right: dropped" in capsys.readouterr().out
    assert privsieve(*command, "--min-attention", 0.5, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["checks"]["dropped"] == []
    elsewhere = _file(tmp_path / "else.csv", "known", key=["9"], private=[1])
    assert privsieve("labels", "agreement", *files, "--attention-checks", elsewhere) == 2
    assert "no annotator answered any attention check" in capsys.readouterr().err


def test_one_annotator_cannot_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert privsieve("labels", "agreement", _file(tmp_path / "a.csv", "ann", key=["1"], private=[1])) == 2
    assert "there is 1 annotator to compare; agreement needs at least two" in capsys.readouterr().err
