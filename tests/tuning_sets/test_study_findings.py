"""A study begins with its finding."""

from jobs.studies.asking_again import PromptsResult, prompts_finding
from jobs.studies.points import PointResult
from jobs.studies.studies import StudyPoints, curve_finding, leave_one_out_finding
from reports.evaluation.results import RunsSpread
from reports.statistics.binary import spread


def point(size: int, mcc: float | None, left_out: str | None = None, recall: float | None = None) -> PointResult:
    classes = {left_out: {"recall": recall}} if left_out else {}
    return PointResult("p", size, 0, left_out, mcc=mcc, classes=classes)


def test_a_curve_says_how_far_it_rises() -> None:
    points = (point(0, -0.05), point(10, 0.5), point(100, 0.9), point(100, 1.0))
    assert curve_finding(StudyPoints(points)) == "MCC rises from −0.050 (untuned) to 0.950 (tuned on 100 pictures)."
    assert curve_finding(StudyPoints(points[1:2])) == "There are too few figures for a curve."
    scores = tuple(PointResult("p", size, 0, None, spearman=1 - size / 100) for size in (10, 20))
    assert curve_finding(StudyPoints(scores)) == (
        "Spearman ρ falls from 0.900 (tuned on 10 pictures) to 0.800 (tuned on 20 pictures)."
    )


def test_the_class_that_is_found_least_is_named() -> None:
    points = (point(9, 0.9), point(9, 0.8, "face", 1.0), point(9, 0.7, "plate", 0.2), point(9, 0.7, "plate", 0.0))
    assert leave_one_out_finding(StudyPoints(points)) == ("Left out of the tuning, plate is found least: recall 0.100.")
    assert leave_one_out_finding(StudyPoints(points[:1])) == "No class that was left out has a figure."


def test_the_best_and_the_worst_wording_are_named() -> None:
    runs = RunsSpread(("a", "b", "c"), {"f1": spread([0.1, 0.2, 0.3]), "mcc": spread([0.5, None, 0.8])}, {})
    assert prompts_finding(PromptsResult(("binary:ours-1", "binary:ours-2", "binary:ours-3"), runs)) == (
        "The wordings differ by 0.300 in MCC: 0.500 (binary:ours-1) to 0.800 (binary:ours-3)."
    )
