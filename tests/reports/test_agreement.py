"""Agreement of annotators: golden values of textbooks, by hand, and what is done with missing answers."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from reports.labels.agreement import agreement
from scoring.taxonomy import KEYS
from tests.jobs.made import privsieve
from tests.labels.made import labels_by
from tests.making import Capture

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
    answers = np.array([list(itertools.chain(*([k] * n for k, n in enumerate(row)))) for row in FLEISS], float).T
    assert agreement("x", answers).fleiss == pytest.approx(0.210, abs=0.0005)


def test_a_kappa_by_hand_with_answers_missing() -> None:
    # Items 1–4 have two answers: same, same, different, same. Shares of 1: first 2/4, second 3/4.
    first = np.array([1, 0, 0, 1, 1, _])
    second = np.array([1, 0, 1, 1, _, 0])
    found = agreement("x", np.stack([first, second]))
    assert found.cohen == pytest.approx((3 / 4 - (2 / 4 * 3 / 4 + 2 / 4 * 1 / 4)) / (1 - 1 / 2))
    assert found.num_items == 4
    assert found.fleiss == pytest.approx((3 / 4 - (25 + 9) / 64) / (1 - (25 + 9) / 64))


def test_what_chance_explains_is_not_defined() -> None:
    same = agreement("x", np.ones((3, 5)))
    assert same.percent == 1
    assert (same.cohen, same.fleiss, same.alpha_nominal, same.alpha_ordinal) == (None, None, None, None)
    nothing = agreement("x", np.full((2, 5), np.nan))
    assert (nothing.num_items, nothing.percent, nothing.fleiss) == (0, None, None)


def test_scikit_learn_gives_the_same_cohen() -> None:
    draw = np.random.default_rng(2)
    first, second = draw.integers(0, 3, (2, 400)).astype(float)
    found = agreement("x", np.stack([first, second]))
    assert found.cohen == pytest.approx(cohen_kappa_score(first, second))


def test_the_command_compares_attributes_levels_private_and_class(tmp_path: Path, capsys: Capture) -> None:
    keys = ["1", "2", "3", "4"]
    first = labels_by(
        tmp_path / "a.parquet", "ann", key=keys, gov_ids=[1, 0, 0, 1], private=[1, 0, 0, 1], class_=["a", "b", "b", "c"]
    )
    second = labels_by(
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
    assert privsieve("labels", "agreement", first, second) == 0
    shown = capsys.readouterr().out
    assert "2 annotators: ann, bob" in shown


def test_levels_are_compared_from_harmless_to_severe(tmp_path: Path, capsys: Capture) -> None:
    keys = ["1", "2", "3", "4", "5"]
    none = {key: [0] * 5 for key in KEYS}
    # Level 4 and no level at all are neighbours, level 4 and level 1 are not.
    near = labels_by(
        tmp_path / "near.parquet", "near", key=keys, **none | {"gov_ids": [1, 1, 0, 0, 0], "metadata": [0, 0, 1, 1, 0]}
    )
    truth = labels_by(
        tmp_path / "truth.parquet",
        "truth",
        key=keys,
        **none | {"gov_ids": [1, 1, 0, 0, 0], "metadata": [0, 0, 0, 1, 0]},
    )
    far = labels_by(
        tmp_path / "far.parquet", "far", key=keys, **none | {"gov_ids": [1, 1, 1, 0, 0], "metadata": [0, 0, 0, 1, 0]}
    )
    alphas = []
    for other in (near, far):
        assert privsieve("labels", "agreement", truth, other, "--format", "json") == 0
        rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
        alphas.append(rows["level"]["alpha_ordinal"])
    assert alphas[0] > alphas[1]


def test_intervals_and_judgements_of_pairs_say_how_much_a_kappa_is_worth(tmp_path: Path, capsys: Capture) -> None:
    keys = [f"{n}" for n in range(12)]
    files = [
        labels_by(tmp_path / "a.csv", "ann", key=keys, private=[1, 0] * 6),
        labels_by(tmp_path / "b.csv", "bob", key=keys, private=[1, 0] * 5 + [0, 1]),
        labels_by(tmp_path / "c.csv", "cy", key=keys[:3], private=[1, 0, 1]),
    ]
    assert privsieve("labels", "agreement", *files, "--format", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["fewest_judged_by_pair"], row["most_judged_by_pair"]) == (3, 12)
    assert set(row["intervals"]) == {"cohen", "fleiss", "alpha_nominal", "alpha_ordinal"}
    for name, interval in row["intervals"].items():
        assert interval["low"] < row[name] < interval["high"]
        assert interval["is_few"]
    assert privsieve("labels", "agreement", *files) == 0
    shown = capsys.readouterr().out
    assert "3–12" in shown
    assert "few: fewer than 50 pictures are behind the figure" in shown


def test_a_kappa_of_0_beside_nearly_full_agreement_is_explained(tmp_path: Path, capsys: Capture) -> None:
    keys = [f"{n}" for n in range(40)]
    first = labels_by(tmp_path / "a.csv", "ann", key=keys, private=[1, *[0] * 39])
    second = labels_by(tmp_path / "b.csv", "bob", key=keys, private=[0, 1, *[0] * 38])
    assert privsieve("labels", "agreement", first, second) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "nearly all answers are the same one: private (97.5 %)" in shown
    assert "so kappa and alpha are low or not defined although most pairs agree" in shown
    even = labels_by(tmp_path / "c.csv", "cy", key=keys, private=[1, 0] * 20)
    other = labels_by(tmp_path / "d.csv", "dan", key=keys, private=[1, 1, 0, 0] * 10)
    assert privsieve("labels", "agreement", even, other) == 0
    assert "nearly all answers" not in capsys.readouterr().out


def test_an_interval_of_many_pictures_is_that_of_large_samples() -> None:
    """Of kappa with two answers of equal share, the standard error is near that of 2 x the share of same pairs - 1."""
    draw = np.random.default_rng(4)
    first = draw.integers(0, 2, 2000).astype(float)
    second = np.where(draw.random(2000) < 0.2, 1 - first, first)
    found = agreement("x", np.stack([first, second]))
    half = 1.96 * 2 * (0.2 * 0.8 / 2000) ** 0.5
    for name in ("cohen", "fleiss", "alpha_nominal", "alpha_ordinal"):
        interval = found.intervals[name]
        assert interval.high - interval.low == pytest.approx(2 * half, rel=0.1)
        assert not interval.is_few


def test_attributes_of_one_picture_are_weighted_together() -> None:
    draw = np.random.default_rng(4)
    of_pictures = draw.integers(0, 2, (2, 60)).astype(float)
    as_one = agreement("x", np.repeat(of_pictures, 10, axis=1), num_per_picture=10)
    apart = agreement("x", np.repeat(of_pictures, 10, axis=1))
    alone = agreement("x", of_pictures)
    widths = [one.intervals["cohen"].high - one.intervals["cohen"].low for one in (as_one, apart, alone)]
    assert widths[1] < widths[0] / 2
    assert widths[0] == pytest.approx(widths[2], rel=0.15)


def test_one_annotator_cannot_agree(tmp_path: Path, capsys: Capture) -> None:
    assert privsieve("labels", "agreement", labels_by(tmp_path / "a.csv", "ann", key=["1"], private=[1])) == 2
    assert "the inputs have 1 annotator; agreement needs at least two" in capsys.readouterr().err
