"""What a study found, in one sentence: it comes before the tables."""

from collections.abc import Sequence

from jobs.study.curve import CurveResult
from jobs.study.leave_one_out import LeaveOneOutResult
from jobs.study.points import PointResult
from jobs.study.prompts import PromptsResult

FIGURES = {"mcc": "MCC", "spearman": "Spearman ρ", "macro_f1": "macro F1"}
"""Metrics of a point; the first that is defined is the one of the study's target."""


def of_curve(result: CurveResult) -> str:
    """Gain from the untuned model, or from the fewest pictures, to the most."""
    name = _figure(result.points)
    values = [(point.num_pictures, value) for point in result.points if (value := _value(point, name)) is not None]
    sizes = sorted({size for size, _ in values})
    if len(sizes) < 2:
        return "There are too few figures for a curve."
    least, most = (_mean([value for size, value in values if size == end]) for end in (sizes[0], sizes[-1]))
    first = "untuned" if sizes[0] == 0 else f"tuned on {sizes[0]:,} pictures"
    way = "rises" if most > least else "falls" if most < least else "stays"
    return f"{FIGURES[name]} {way} from {_shown(least)} ({first}) to {_shown(most)} (tuned on {sizes[-1]:,} pictures)."


def of_leave_one_out(result: LeaveOneOutResult) -> str:
    """The class that is found least by a model that never saw it."""
    recalls = dict[str, list[float]]()
    for point in result.points:
        recall = point.classes.get(point.left_out, {}).get("recall") if point.left_out else None
        if point.left_out and recall is not None:
            recalls.setdefault(point.left_out, []).append(recall)
    if not recalls:
        return "No class that was left out has a figure."
    name, found = min(recalls.items(), key=lambda one: _mean(one[1]))
    return f"Left out of the tuning, {name} is found least: recall {_shown(_mean(found))}."


def of_prompts(result: PromptsResult) -> str:
    """How far apart the best and the worst wording are."""
    figures = {**result.spread.private, **result.spread.score}
    name = next((figure for figure in FIGURES if figure in figures), None)
    if name is None:
        return "No wording has a figure."
    pairs = zip(result.wordings, figures[name].values, strict=True)
    known = sorted((value, wording) for wording, value in pairs if value is not None)
    if not known:
        return "No wording has a figure."
    (low, worst), (high, best) = known[0], known[-1]
    ends = f"{_shown(low)} ({worst}) to {_shown(high)} ({best})"
    what = "wordings" if result.kind == "prompts" else "languages"
    return f"The {what} differ by {high - low:.3f} in {FIGURES[name]}: {ends}."


def _figure(points: Sequence[PointResult]) -> str:
    return next((name for name in FIGURES if any(_value(point, name) is not None for point in points)), "mcc")


def _value(point: PointResult, name: str) -> float | None:
    return {"mcc": point.mcc, "spearman": point.spearman, "macro_f1": point.macro_f1}[name]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _shown(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
