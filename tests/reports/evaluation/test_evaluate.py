"""What an evaluation counts, joins and refuses."""

import numpy as np
import pyarrow as pa
import pytest

from ingest.errors import LabelsError
from reports.evaluation.answers import near_duplicates
from reports.evaluation.compute import Groups, evaluation_of, judged
from reports.evaluation.results import Evaluation
from reports.evaluation.words import notes
from scoring import severity
from scoring.labels.table import to_labels
from scoring.taxonomy import KEYS
from tests.reports.evaluation.conftest import (
    BINARY,
    REJECTED,
    SEVERITY,
    MakeRun,
    answered,
    by_hash,
    by_key,
    found,
    scored,
)


def evaluate_run(run: str, labels: pa.Table, groups: Groups | None = None) -> Evaluation:
    return evaluation_of(judged(run, labels), groups)


def test_a_run_of_nothing_but_rejections_has_figures(make_run: MakeRun) -> None:
    run = make_run([("a", REJECTED), ("b", REJECTED)], BINARY)
    private = evaluate_run(str(run), by_hash("ab", private=[1, 0])).private
    assert private is not None
    assert (private.num_rejected, private.mcc, private.recall) == (2, -1.0, 0.0)
    assert (private.answered.num_pictures, private.answered.mcc) == (0, None)


def test_an_attribute_of_level_1_or_2_makes_a_picture_private_in_labels_and_in_answers(make_run: MakeRun) -> None:
    rows = [("a", found(biometrics=1)), ("b", found(biometrics=0.5, age=1)), ("c", found(nudity=1)), ("d", found())]
    labels = by_hash("abcd", **{key: [0.0] * 4 for key in KEYS} | {"beliefs": [1.0, 1.0, 0.5, 0.0]})
    private = evaluate_run(str(make_run(rows)), labels).private
    assert private is not None
    assert (private.num_true_positive, private.num_false_negative) == (1, 1)  # a; b
    assert (private.num_false_positive, private.num_true_negative) == (1, 1)  # c; d


def test_a_labelled_private_goes_before_labelled_attributes(make_run: MakeRun) -> None:
    run = make_run([("a", found(biometrics=1))])
    private = evaluate_run(str(run), by_hash("a", private=[0], biometrics=[1.0])).private
    assert private is not None
    assert private.num_false_positive == 1


def test_pictures_that_nobody_judged_are_in_no_figure(make_run: MakeRun) -> None:
    run = make_run([("a", found(biometrics=1)), ("b", found()), ("c", found())])
    labels = by_hash("ab", age=[0.0, None], biometrics=[1.0, None], private=[None, None])
    result = evaluate_run(str(run), labels)
    assert result.private is not None
    assert (result.private.num_pictures, result.private.num_unlabelled) == (1, 1)
    assert set(result.attributes) == {"age", "biometrics"}
    assert result.attributes["age"].num_pictures == 1
    assert (result.join.num_rows, result.join.num_joined_rows, result.join.num_rows_without_label) == (3, 2, 1)


def test_a_label_that_leaves_open_whether_a_picture_is_private_counts_in_no_figure(make_run: MakeRun) -> None:
    result = evaluate_run(str(make_run([("a", found())])), by_hash("a", biometrics=[0.0]))
    assert result.private is None
    assert any("are not labelled: 1 picture;" in note for note in result.notes)


def test_a_run_without_an_error_is_not_called_perfect(make_run: MakeRun) -> None:
    run = make_run([("a", found(biometrics=1)), ("b", found())])
    result = evaluate_run(str(run), by_hash("ab", private=[1, 0]))
    assert result.private is not None
    accuracy, mcc = (result.private.intervals[name] for name in ("accuracy", "mcc"))
    assert (result.private.mcc, accuracy.high) == (1, 1)
    assert accuracy.low == pytest.approx(0.025**0.5)
    assert mcc.low < 0.1
    assert accuracy.is_few
    assert any(note.startswith("few: fewer than 50 pictures are behind the figure") for note in notes(result))


def test_a_run_whose_answers_are_all_wrong_or_all_yes_is_not_said_to_hold_no_error(make_run: MakeRun) -> None:
    run = make_run([(f"{n}", answered(True)) for n in range(60)], BINARY)
    result = evaluate_run(str(run), by_hash([f"{n}" for n in range(60)], private=[1, 0] * 30))
    assert result.private is not None
    assert (result.private.mcc, result.private.specificity) == (0, 0)
    assert all(one.low < one.high for one in result.private.intervals.values())
    assert not any("no such error" in note for note in notes(result))


def test_the_severity_protocol_is_judged_by_its_own_score(make_run: MakeRun) -> None:
    run = make_run([("a", scored(0.9)), ("b", scored(0.5)), ("c", REJECTED), ("d", scored(0.1))], SEVERITY)
    labels = by_hash("abcd", score=[0.8, 0.6, 0.9, None])
    result = evaluate_run(str(run), labels)
    assert result.private is None  # the labels say nothing of that
    of_private = evaluate_run(str(run), by_hash("abcd", private=[1, 1, 1, 0]))
    assert of_private.private is not None
    assert (of_private.private.num_true_positive, of_private.private.num_rejected) == (1, 1)  # 0.5 lies below 0.514
    assert result.score is not None
    assert result.score.column == "holistic_score"
    assert (result.score.num_pictures, result.score.num_not_scored, result.score.num_unlabelled) == (2, 1, 1)
    assert result.score.mae == pytest.approx(0.1)
    assert result.score.bias == pytest.approx(0.0, abs=1e-6)
    assert result.score.level_accuracy == 0.5  # 0.5 lies below the band of 0.6
    assert result.attributes == {}


def test_a_run_without_any_answer_says_how_many_are_missing(make_run: MakeRun) -> None:
    labels = by_hash("ab", score=[0.8, 0.1], age=[1.0, 0.0])
    of_score = evaluate_run(str(make_run([("a", REJECTED), ("b", REJECTED)], SEVERITY)), labels)
    assert of_score.score is not None
    assert (of_score.score.num_pictures, of_score.score.num_not_scored, of_score.score.mae) == (0, 2, None)
    assert of_score.score.intervals == {}
    assert of_score.attributes == {}
    of_attributes = evaluate_run(str(make_run([("a", REJECTED), ("b", REJECTED)], name="other")), labels)
    assert (of_attributes.attributes["age"].num_not_answered, of_attributes.attributes["age"].coverage) == (2, 0.0)
    assert of_attributes.attribute_summary is not None
    assert of_attributes.attribute_summary.macro_f1 is None


def test_the_formula_score_of_right_attributes_is_right(make_run: MakeRun) -> None:
    rows = [("a", found(biometrics=1, age=1)), ("b", found(nudity=1)), ("c", found(age=1)), ("d", found(documents=1))]
    columns: dict[str, list[float]] = {key: [0.0] * 4 for key in KEYS}
    columns |= {"biometrics": [1, 0, 0, 0], "nudity": [0, 1, 0, 0.5], "age": [1, 0, 1, 0], "documents": [0, 0, 0, 1]}
    score = evaluate_run(str(make_run(rows)), by_hash("abcd", **columns)).score
    assert score is not None
    assert (score.column, score.num_pictures, score.level_accuracy) == ("score", 4, 1.0)
    assert score.mae == pytest.approx(0, abs=1e-6)
    assert score.spearman == pytest.approx(1.0)
    assert score.pairwise_inter.accuracy == 1.0


def test_labels_are_joined_by_hash_by_name_and_by_shard_and_name(make_run: MakeRun) -> None:
    run = make_run([("a", answered(True)), ("b", answered(False)), ("c", answered(True))], BINARY, shard="face")
    labels = pa.concat_tables(
        [by_hash("a", private=[1]), by_key(["b.jpg"], private=[0]), by_key(["face/c.jpg"], private=[1])]
    )
    result = evaluate_run(str(run), labels)
    assert result.join.num_joined_rows == 3
    assert result.private is not None
    assert result.private.mcc == 1.0


def test_one_label_is_of_every_copy_of_a_picture(make_run: MakeRun) -> None:
    run = make_run([("a", answered(True)), ("a", answered(True)), ("b", answered(False))], BINARY)
    result = evaluate_run(str(run), by_hash("abz", private=[1, 0, 1]))
    assert (result.join.num_joined_rows, result.join.num_joined_labels) == (3, 2)
    assert result.join.num_labels_without_row == 1
    assert result.private is not None
    assert result.private.num_true_positive == 2
    assert any("of which each counts: 1 row." in note for note in result.notes)


def test_a_name_that_several_pictures_share_is_joined_to_none_of_them(make_run: MakeRun) -> None:
    run = make_run(
        [("a", answered(True)), ("b#1", answered(False)), ("b#2", answered(False)), ("c", answered(True))], BINARY
    )
    result = evaluate_run(str(run), by_key(["a.jpg", "b.jpg"], private=[1, 0]))
    assert (result.join.num_joined_rows, result.join.num_ambiguous_rows) == (1, 2)
    assert (result.join.num_rows_without_label, result.join.num_labels_without_row) == (3, 1)
    assert any("share the name: 2 rows;" in note for note in result.notes)


def test_no_labels_and_no_rows_are_refused(make_run: MakeRun) -> None:
    run = make_run([("a", answered(True))], BINARY)
    with pytest.raises(LabelsError, match="the labels table has no rows"):
        evaluate_run(str(run), to_labels({}, 0))
    empty = make_run([], BINARY, name="empty")
    with pytest.raises(LabelsError, match="the run has no rows yet"):
        evaluate_run(str(empty), by_hash("a", private=[1]))


def test_labels_of_what_is_there_alone_give_recall_and_nothing_that_needs_the_others(make_run: MakeRun) -> None:
    """Only biometrics is labelled: where it is absent, nobody knows whether the picture is private."""
    rows = [(f"p{n}", found(biometrics=float(n < 12))) for n in range(40)]
    labels = by_hash([f"p{n}" for n in range(40)], biometrics=[float(n < 10) for n in range(40)])
    private = (evaluation := evaluate_run(str(make_run(rows)), labels)).private
    assert private is not None
    assert (private.num_pictures, private.recall) == (10, 1.0)
    assert (private.precision, private.f1, private.accuracy, private.mcc) == (None, None, None, None)
    assert (private.answered.precision, private.classwise, private.per_class) == (None, None, ())
    assert private.intervals.keys() == {"recall"}
    assert evaluation.notes[1] == (
        "No MCC, F1, precision and accuracy, which need private and public pictures as they are in the source: 10 are "
        "labelled private, 0 public, and 30 are left open."
    )
    assert evaluation.attributes["biometrics"].f1 == pytest.approx(20 / 22)


def test_the_paper_s_four_ties_do_not_lower_the_level_accuracy(make_run: MakeRun) -> None:
    all_of_level_4 = {"property_assets": 1.0, "documents": 1.0, "metadata": 1.0, "background_people": 1.0}
    run = make_run([("a", found(**all_of_level_4)), ("b", found(location=1))])
    columns = {key: [all_of_level_4.get(key, 0.0), float(key == "location")] for key in KEYS}
    score = evaluate_run(str(run), by_hash("ab", **columns)).score
    assert score is not None
    assert score.level_accuracy == 1.0
    assert score.spearman is None  # both scores are 0.292
    assert severity.score_of(np.array([4, 5])).tolist() == [0.292, 0.292]


def test_near_duplicates_are_drawn_together_and_rows_without_a_hash_by_their_bytes() -> None:
    near, far = "00ff00ff00ff00ff", "ff00ff00ff00ff00"
    rows = pa.table(
        {
            "sha256": ["a", "b", "c", "d", "d", None, None],
            "phash": pa.array([near, near[:-1] + "e", far, None, None, None, None], pa.string()),
        }
    )
    groups = near_duplicates(rows).tolist()
    assert groups[0] == groups[1]
    assert groups[3] == groups[4]
    assert len(set(groups)) == 5
