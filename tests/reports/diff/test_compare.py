"""Two runs compared: every count can be made by hand here, every test by SciPy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, spearmanr, ttest_1samp, ttest_rel
from sklearn.metrics import cohen_kappa_score

from ingest.errors import QueryError
from reports.diff.compute import compare_runs
from reports.diff.results import PRIVATE_STATES, RunDifference
from reports.diff.words import findings, notes, tables
from reports.statistics.paired import holm
from reports.words import percent
from scoring.table import Verdict
from tests.reports.diff.made import PictureRow, level, make, rows_of
from tests.reports.evaluation.conftest import ATTRIBUTES, BINARY, REJECTED, SEVERITY, answered, found, scored


def private(result: RunDifference, of_a: str, of_b: str) -> int:
    return result.private_states[PRIVATE_STATES.index(of_a)][PRIVATE_STATES.index(of_b)]


def test_levels_attributes_and_the_private_decision_are_compared_picture_by_picture(tmp_path: Path) -> None:
    a: list[Verdict] = [
        *(found(gov_ids=1), found(gov_ids=1), found(age=1), found(), found(age=0.5), REJECTED, found(nudity=None))
    ]
    b: list[Verdict] = [found(gov_ids=1), found(), found(gov_ids=1), REJECTED, found(), found(age=1), found(nudity=1)]
    result = compare_runs(make(tmp_path, "a", rows_of(a)), make(tmp_path, "b", list(reversed(rows_of(b)))))
    assert result.num_pairs == 7
    assert (level(result, "1", "1"), level(result, "1", "0"), level(result, "3", "1")) == (1, 1, 1)
    assert (level(result, "0", "quarantined"), level(result, "quarantined", "3"), level(result, "0", "0")) == (1, 1, 1)
    assert (private(result, "private", "public"), private(result, "public", "private")) == (1, 1)
    assert (private(result, "unknown", "private"), private(result, "quarantined", "public")) == (1, 1)
    assert sum(map(sum, result.private_states)) == sum(map(sum, result.levels)) == 7
    ids, age, nudity = (result.attributes[key] for key in ("gov_ids", "age", "nudity"))
    assert (ids.num_assessed, ids.num_appeared, ids.num_vanished, ids.num_only_a, ids.num_only_b) == (5, 1, 1, 1, 1)
    assert (ids.num_present_a, ids.num_present_b) == (2, 2)
    assert ids.kappa == pytest.approx(cohen_kappa_score([1, 1, 0, 0, 0], [1, 0, 1, 0, 0]))
    assert (age.num_vanished, age.num_doubt_changed, age.kappa) == (1, 1, 0.0)
    assert (nudity.num_assessed, nudity.num_only_b, nudity.kappa) == (4, 2, None)
    assert result.private.num_pictures == 4
    first = result.pictures[0]
    assert (first.key, first.level_a, first.level_b) == ("k1", 1, 0)


def test_an_attribute_that_one_engine_does_not_judge_is_null_not_0(tmp_path: Path) -> None:
    faces_only = ATTRIBUTES | {"assessed": ["biometrics"]}
    blank = {key: None for key in ATTRIBUTES["assessed"] if key != "biometrics"}
    a = make(tmp_path, "a", rows_of([found(biometrics=1, **blank), found(**blank)]), faces_only)
    b = make(tmp_path, "b", rows_of([found(biometrics=1), found()]))
    result = compare_runs(a, b)
    assert result.attributes["biometrics"].num_assessed == 2
    assert result.attributes["biometrics"].kappa == 1.0
    age = result.attributes["age"]
    assert (age.num_assessed, age.num_only_b, age.kappa, age.p_value, age.p_holm) == (0, 2, None, None, None)
    assert any("engine assessed" in setting for setting in result.settings)


@pytest.mark.parametrize("affirming", ["a", "b"])
def test_an_attribute_that_a_run_never_denies_is_not_tested(tmp_path: Path, affirming: str) -> None:
    """Of 40 pictures the run finds age in 15, as the other does in 5 of them."""
    only_affirmed = ATTRIBUTES | {"only_affirmed": ["age", "medical_data"]}
    finds = [*[found(age=1, medical_data=None)] * 15, *[found(age=None, medical_data=None)] * 25]
    both_answers = [*[found(age=1)] * 5, *[found()] * 35]
    answers = {affirming: rows_of(finds), "ab".replace(affirming, ""): rows_of(both_answers)}
    a, b = (make(tmp_path, n, answers[n], only_affirmed if n == affirming else ATTRIBUTES) for n in "ab")
    result = compare_runs(a, b)
    age = result.attributes["age"]
    assert (age.num_assessed, age.num_appeared + age.num_vanished) == (15, 10)
    assert (age.seldom_denied_in, age.kappa, age.p_value, age.p_holm) == ((affirming,), None, None, None)
    assert result.attributes["medical_data"].seldom_denied_in == ()
    of_ids = result.attributes["gov_ids"]
    assert (of_ids.seldom_denied_in, of_ids.p_value, of_ids.p_holm) == ((), None, None)  # nothing changed
    (table,) = (one for one in tables(result) if one.title.startswith("Attributes"))
    heads = ["κ", "p", "p (Holm)", "in A, open in B", "in B, open in A", "no test since"]
    assert table.heads[-6:] == heads
    assert [row[-6:] for row in table.rows] == [["–", "–", "–", "0", "0", f"{affirming.upper()} seldom says no"]]
    assert any(note.startswith("No test and no κ for age: a run has no answer") for note in notes(result))


def _beliefs(num: int, only_b: int, denied: int) -> tuple[Sequence[Verdict], Sequence[Verdict]]:
    """A finds beliefs in a third of the pictures and leaves them open in all others but `denied`; B finds more."""
    first = [found(beliefs=1 if n < num // 3 else 0 if n >= num - denied else None) for n in range(num)]
    second = [found(beliefs=1) if num // 3 <= n < num // 3 + only_b else answer for n, answer in enumerate(first)]
    return first, second


@pytest.mark.parametrize("denied", [0, 3])
def test_pictures_that_one_run_leaves_unknown_are_counted_and_not_tested(tmp_path: Path, denied: int) -> None:
    """64 of 300 pictures became private. Both runs agree in all pictures that both know."""
    a, b = _beliefs(300, 64, denied)
    result = compare_runs(make(tmp_path, "a", rows_of(a)), make(tmp_path, "b", rows_of(b)))
    private = result.private
    assert (private.rate_a, private.rate_b) == (100 / (100 + denied), 100 / (100 + denied))
    assert (private.num_only_a, private.num_only_b, private.p_value, result.private_kappa) == (0, 0, None, None)
    assert (private.num_private_b_open_a, private.num_private_a_open_b) == (64, 0)
    assert private.seldom_denied_in == ("a", "b")
    line = next(one for one in findings(result) if one.startswith("Private"))
    assert "No test and no κ, since A and B leave more pictures unknown than they call public" in line
    assert line.endswith("Read instead: private in B and unknown in A 64, private in A and unknown in B 0.")
    (of_groups,) = (one for one in tables(result) if one.title.startswith("Share of private"))
    assert of_groups.rows[0][-5:] == ["–", "–", "0", "64", "A and B seldom say no"]
    assert "Rate by category: no group has a test, since the same is true of each." in findings(result)
    assert result.attributes["beliefs"].num_present_b_open_a == 64
    assert result.attributes["beliefs"].p_value is None
    assert "McNemar" not in " ".join(findings(result))


def test_each_group_is_tested_by_its_own_answers(tmp_path: Path) -> None:
    """Of portraits A knows only the private ones, of streets all."""
    portraits = rows_of([found(nudity=1)] * 20 + [found(nudity=None)] * 60, "portrait")
    streets = [(f"s{n}", f"s{n}", "street", found(nudity=int(n < 20))) for n in range(80)]
    changed = [(key, content, group, found(nudity=int(n >= 12))) for n, (key, content, group, _) in enumerate(streets)]
    a, b = make(tmp_path, "a", [*portraits, *streets]), make(tmp_path, "b", [*portraits, *changed])
    by_name = {one.group: one for one in compare_runs(a, b).groups}
    assert (by_name["portrait"].seldom_denied_in, by_name["portrait"].p_value) == (("a", "b"), None)
    assert by_name["street"].seldom_denied_in == ()
    assert by_name["street"].p_value == pytest.approx(binomtest(12, 72, 0.5).pvalue)


def test_scores_of_two_runs_are_compared_by_their_means_and_ranks(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    one = np.round(generator.random(120), 2)
    other = np.round(np.clip(one + generator.normal(0.05, 0.2, 120), 0, 1), 1)
    a = [(f"k{n}", f"c{n}", f"cat{n % 2}", scored(float(score))) for n, score in enumerate(one)]
    b = [(f"k{n}", f"c{n}", "x", scored(float(score)) if n < 100 else REJECTED) for n, score in enumerate(other)]
    result = compare_runs(make(tmp_path, "a", a, SEVERITY), make(tmp_path, "b", b, SEVERITY))
    (score,) = result.scores
    assert score.interval is not None
    one, other = one[:100].astype(np.float32).astype(float), other[:100].astype(np.float32).astype(float)
    assert (score.column, score.num_pictures) == ("holistic_score", 100)
    assert (score.mean_a, score.mean_b) == pytest.approx((one.mean(), other.mean()))
    low = ttest_rel([*other, 0], [*one, 1]).confidence_interval(0.95).low
    high = ttest_rel([*other, 1], [*one, 0]).confidence_interval(0.95).high
    assert (score.interval.low, score.interval.high) == pytest.approx((low, high))
    assert score.spearman == pytest.approx(spearmanr(one, other).statistic)
    assert score.change == pytest.approx((other - one).mean())
    line = next(one for one in findings(result) if one.startswith("Severity"))
    assert "Severity (the model's own score): mean 0.549 in A, 0.577 in B, " in line
    assert "over 100 pictures that both scored; B − A +0.0" in line


@pytest.mark.slow
def test_an_interval_has_width_though_no_score_or_every_score_changed_alike(tmp_path: Path) -> None:
    """The t-test of SciPy with one more picture at each end."""
    for after, num in ((0.7, 3), (0.5, 100), (0.7, 1)):
        a = make(tmp_path, f"a{after}{num}", rows_of([scored(0.5)] * num), SEVERITY)
        b = make(tmp_path, f"b{after}{num}", rows_of([scored(after)] * num), SEVERITY)
        result = compare_runs(a, b)
        (score,) = result.scores
        assert score.interval is not None
        change = float(np.float32(after)) - 0.5
        low = ttest_1samp([change] * num + [-1.0], 0).confidence_interval(0.95).low
        high = ttest_1samp([change] * num + [1.0], 0).confidence_interval(0.95).high
        assert score.change == pytest.approx(change)
        assert (score.interval.low, score.interval.high) == pytest.approx((max(-1, low), min(1, high)))
        assert (score.interval.is_few, score.spearman) == (True, None)
        assert any(line.startswith("few: fewer than 50 pictures have another score in B") for line in notes(result))


def test_a_share_that_is_not_0_or_1_is_not_shown_as_such() -> None:
    shares = (None, 0.0, 0.0004, 0.5, 0.99951, 1.0)
    assert [percent(share) for share in shares] == ["–", "0.0 %", "0.040 %", "50.0 %", "99.951 %", "100.0 %"]


def test_a_run_that_judged_every_picture_is_tested_though_it_never_answers_0(tmp_path: Path) -> None:
    result = compare_runs(
        make(tmp_path, "a", rows_of([found(age=1)] * 9)), make(tmp_path, "b", rows_of([found(age=1), *[found()] * 8]))
    )
    assert result.attributes["age"].p_value == pytest.approx(2 * 0.5**8)


def test_engines_that_answer_in_other_ways_are_compared_on_what_is_private(tmp_path: Path) -> None:
    a = make(tmp_path, "a", rows_of([answered(True), answered(False), answered(True)]), BINARY)
    others: dict[str, Any] = {"max_frames": 16, "max_pixels": 7, "privsieve": "0.2.0", "source": "/other", "seed": 3}
    b = make(tmp_path, "b", rows_of([found(gov_ids=1), found(gov_ids=1), found()]), **others)
    result = compare_runs(a, b)
    assert (result.private.num_only_a, result.private.num_only_b, result.private.num_pictures) == (1, 1, 3)
    assert (result.a.private_from, result.b.private_from) == (
        "the model answered yes when asked whether the picture is private",
        "an attribute of level 1 or 2 is present",
    )
    assert level(result, "unknown", "1") == 2
    assert {"max_frames was 1, now 16", 'source was "/data/corpus", now "/other"'} < set(result.settings)
    assert len([one for one in result.settings if not one.startswith("engine")]) == len(others)


def test_rates_of_categories_are_tested_exactly_and_corrected_for_their_number(tmp_path: Path) -> None:
    """Ten categories; in two of them much changed."""
    generator = np.random.default_rng(0)
    flips = [15, 6, 2, 1, 1, 0, 0, 0, 0, 0]
    rows_a, rows_b = list[PictureRow](), list[PictureRow]()
    for group, num in enumerate(flips):
        for n in range(40):
            was = bool(generator.random() < 0.3) and n >= num
            now = was or n < num
            name = f"{group}-{n}"
            rows_a.append((name, name, f"cat{group}", found(gov_ids=int(was))))
            rows_b.append((name, name, f"cat{group}", found(gov_ids=int(now))))
    result = compare_runs(make(tmp_path, "a", rows_a), make(tmp_path, "b", rows_b))
    by_name = {one.group: one for one in result.groups}
    expected = [binomtest(0, num, 0.5).pvalue for num in flips if num]
    for group, num in enumerate(flips):
        one = by_name[f"cat{group}"]
        assert (one.num_only_a, one.num_only_b, one.num_pictures) == (0, num, 40)
        assert one.p_value == (pytest.approx(expected[group]) if num else None)
        assert one.change == pytest.approx(num / 40)
    assert [by_name[f"cat{group}"].p_holm for group in range(5)] == pytest.approx(holm(expected))
    assert [by_name[f"cat{group}"].p_holm for group in range(5, 10)] == [None] * 5
    assert [one.group for one in result.groups if one.p_holm is not None and one.p_holm < 0.05] == ["cat0"]
    assert by_name["cat1"].p_value < 0.05 < by_name["cat1"].p_holm  # type: ignore[operator]


def test_holm_steps_down_and_never_lets_a_larger_p_be_smaller() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []
    assert holm([np.nan, 0.02, 0.03]) == pytest.approx([np.nan, 0.04, 0.04], nan_ok=True)


def test_pictures_can_be_grouped_by_an_expression(tmp_path: Path) -> None:
    a, b = make(tmp_path, "a", rows_of([found()] * 6)), make(tmp_path, "b", rows_of([found()] * 6))
    result = compare_runs(a, b, "shard || num_bytes")
    assert {(one.group, one.num_pairs) for one in result.groups} == {("one9", 3), ("two9", 3)}
    with pytest.raises(QueryError, match='did you mean "shard"'):
        compare_runs(a, b, "shar")
    with pytest.raises(QueryError, match="--by cannot be computed"):
        compare_runs(a, b, "CAST(key AS INTEGER)")


def test_runs_of_drawn_shards_are_compared_without_tests_and_this_is_said(tmp_path: Path) -> None:
    drawn: dict[str, Any] = {"sample": 40, "seed": 0, "shards": 2, "num_source_shards": 9, "num_in_shards": 400}
    a = make(tmp_path, "a", rows_of([found(gov_ids=1)] * 20 + [found()] * 20), **drawn)
    b = make(tmp_path, "b", rows_of([found()] * 40))
    result = compare_runs(a, b)
    assert (result.shards_drawn_in, result.private.rate_a, result.private.rate_b) == (("a",), 0.5, 0.0)
    assert (result.private.p_value, result.groups[0].p_value, result.attributes["gov_ids"].p_value) == (None,) * 3
    assert [score.interval for score in result.scores] == [None]
    said = list(findings(result))
    assert any(line.startswith("No tests and no intervals: A is of random shards (--shards)") for line in said)
    assert "only in A 20, only in B 0; not tested, κ" in said[1]
    assert not any("take pictures as independent" in note for note in notes(result))
