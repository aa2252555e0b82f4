"""The rows of protocols that judge the image as a whole: an attribute that nobody asked about is null, never 0."""

from pathlib import Path

import numpy as np
import pytest

from ingest.errors import Fault
from reports.report.compute import summarise
from reports.run.warehouse import open_warehouse
from scoring.assessment import Assessment, Unscored, not_assessed, worst
from scoring.protocols import protocol
from scoring.protocols.interface import SlotAnswer, TextAnswer
from scoring.table import SCORE_COLUMNS, Facts, Verdict, to_table
from scoring.taxonomy import KEYS
from tests.records import run_record, write_result


def verdicts(name: str, *texts: str) -> list[Verdict]:
    asked = protocol(name)
    outcomes = [asked.parse([TextAnswer(text)]) for text in texts]
    return [Fault(o.reason, o.message) if isinstance(o, Unscored) else o for o in outcomes]  # type: ignore[misc]


def facts(number: int) -> list[Facts]:
    return [Facts("s", i, f"k{i}", "ward" if i % 2 else "sky", 9, f"{i:064x}") for i in range(number)]


def test_a_severity_row_has_its_score_and_no_level() -> None:
    row, refused = to_table(facts(2), verdicts("severity", "0.82", "I cannot judge that")).to_pylist()
    assert row["holistic_score"] == pytest.approx(0.82)
    assert (row["status"], row["num_assessed"], row["private_answer"]) == ("scored", 0, None)
    assert all(row[name] is None for name in KEYS)
    assert all(row[c.name] is None for c in SCORE_COLUMNS if c.name != "num_assessed")
    assert (refused["status"], refused["reason"], refused["holistic_score"]) == ("quarantined", "unparsable", None)
    assert refused["num_assessed"] is None


def test_a_binary_row_is_private_or_not_and_a_rejection_is_counted() -> None:
    rows = to_table(facts(3), verdicts("binary", "Yes", "No", "Maybe")).to_pylist()
    assert [row["private_answer"] for row in rows] == [1, 0, None]
    assert [row["reason"] for row in rows] == [None, None, "rejection"]
    assert [row["rationale"] for row in rows] == ["private", "", None]
    assert all(row["level"] is None and row["score"] is None for row in rows)


def test_the_slots_row_has_its_probabilities_and_no_judgement_of_the_whole() -> None:
    answer = SlotAnswer(np.tile(np.array([0.1, 0.2, 0.7], dtype=np.float32), (22, 1)))
    outcome = protocol("slots").parse([answer])
    assert isinstance(outcome, Assessment)
    (row,) = to_table(facts(1), [outcome]).to_pylist()
    assert (row["level"], row["score"], row["num_assessed"]) == (1, 1.0, 22)
    assert (row["prob_gov_ids"], row["prob_ambiguous_gov_ids"]) == (pytest.approx(0.7), pytest.approx(0.2))
    assert (row["holistic_score"], row["private_answer"], row["prob_private"]) == (None, None, None)


def test_of_several_views_the_worst_judgement_counts() -> None:
    def view(private: bool, probability: float | None, score: float) -> Assessment:
        return Assessment(not_assessed(), holistic_score=score, private=private, prob_private=probability)

    joined = worst([view(False, 0.2, 0.3), view(True, 0.8, 0.1)])
    assert isinstance(joined, Assessment)
    assert (joined.private, joined.prob_private, joined.holistic_score) == (True, 0.8, 0.3)
    assert np.isnan(joined.values).all()
    for views, private, probability in (
        ([(True, None), (False, 0.2)], True, None),
        ([(True, 0.6), (False, None)], True, 0.6),
        ([(True, 0.6), (True, None), (True, 0.7)], True, 0.7),
        ([(False, 0.2), (False, None)], False, 0.2),
        ([(False, None), (False, None)], False, None),
    ):
        one = worst([view(*answer, 0.1) for answer in views])
        assert isinstance(one, Assessment)
        assert (one.private, one.prob_private) == (private, probability)


NO_CHANCES = (float("nan"),) * 3


def of_frames(*frames: tuple[float, tuple[float, float, float]]) -> list[float]:
    """(value, probabilities) of gov_ids in each frame -> the value and the probabilities of the image."""
    first = KEYS.index("gov_ids")
    views = []
    for value, chances in frames:
        values = np.zeros(len(KEYS), dtype=np.float32)
        values[first] = value
        probabilities = np.tile(np.array([0.9, 0.06, 0.04], dtype=np.float32), (len(KEYS), 1))
        probabilities[first] = chances
        views.append(Assessment(values, probabilities=probabilities))
    joined = worst(views)
    assert isinstance(joined, Assessment)
    assert joined.probabilities is not None
    return [float(joined.values[first]), *joined.probabilities[first].tolist()]


@pytest.mark.parametrize(
    ("frames", "image"),
    [
        ([(1, NO_CHANCES), (0, (0.98, 0.01, 0.01))], (1, *NO_CHANCES)),
        ([(0.5, (0.1, 0.5, 0.4)), (0, (0.53, 0.01, 0.46))], (0.5, 0.1, 0.5, 0.4)),
        ([(0, (0.9, 0.05, 0.05)), (1, (0.2, 0.1, 0.7)), (0.5, (0.1, 0.5, 0.4))], (1, 0.2, 0.1, 0.7)),
        ([(1, (0.2, 0.1, 0.7)), (1, (0.05, 0.05, 0.9)), (1, NO_CHANCES)], (1, 0.05, 0.05, 0.9)),
        ([(0, NO_CHANCES), (0, (0.98, 0.01, 0.01))], (0, 0.98, 0.01, 0.01)),
        ([(0, (0.9, 0.05, 0.05)), (float("nan"), (0.2, 0.1, 0.7))], (float("nan"), *NO_CHANCES)),
    ],
    ids=["it has none", "ambiguous", "present", "the surest", "the only one", "not assessed"],
)
def test_the_probabilities_of_an_animation_are_those_of_the_frame_whose_value_counts(
    frames: list[tuple[float, tuple[float, float, float]]], image: tuple[float, ...]
) -> None:
    assert of_frames(*frames) == pytest.approx(image, nan_ok=True)
    assert of_frames(*reversed(frames)) == pytest.approx(image, nan_ok=True)


def test_an_animation_with_a_frame_without_any_probabilities_keeps_those_of_the_others() -> None:
    answer = SlotAnswer(np.tile(np.array([0.1, 0.2, 0.7], dtype=np.float32), (22, 1)))
    known = protocol("slots").parse([answer])
    assert isinstance(known, Assessment)
    for other, probability in ((known, 0.7), (Assessment(known.values), None)):
        joined = worst([Assessment(np.zeros(len(KEYS), dtype=np.float32)), other])
        assert isinstance(joined, Assessment)
        (row,) = to_table(facts(1), [joined]).to_pylist()
        assert (row["gov_ids"], row["prob_gov_ids"]) == (1, probability and pytest.approx(probability))


def test_a_report_of_a_binary_run_counts_what_was_asked_and_no_level(tmp_path: Path) -> None:
    (tmp_path / "scores").mkdir()
    record = run_record({"name": "vllm", "protocol": "binary:ours-1-1 0", "assessed": []})
    (tmp_path / "run.json").write_text(record.model_dump_json())
    write_result(tmp_path, "s", 0, True, to_table(facts(4), verdicts("binary", "Yes", "No", "Yes", "?")))
    report = summarise(open_warehouse(str(tmp_path)), private="private = 1")
    assert (report.total.num_scored, report.total.num_private, report.total.num_unknown) == (3, 2, 0)
    assert report.left_out.quarantined == {"rejection": 1}
    assert sum(report.total.nums_by_level) == 0
    assert summarise(open_warehouse(str(tmp_path))).total == report.total
    by_level = summarise(open_warehouse(str(tmp_path)), private="level IN (1, 2)")
    assert (by_level.total.privacy_rate, by_level.total.num_unknown) == (None, 3)
    assert not any(line.num_present for line in by_level.prevalence)
