"""How the quality grows with the number of pictures, as in Samson et al., "Privacy-Aware Visual Language Models"."""

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.errors import LabelsError
from jobs.runtime.feedback import Feedback
from jobs.study.points import PointResult, begin, draw_set, tuned, untuned
from jobs.study.request import StudyRequest
from scoring.tuning.drawing import Draw


@dataclass(frozen=True)
class CurveResult:
    """The points of the curve, by number of pictures and seed."""

    points: tuple[PointResult, ...]


def run_curve(request: StudyRequest, sizes: Sequence[int], feedback: Feedback) -> CurveResult:
    """One point per size and seed; a smaller draw is contained in a larger one of the same seed. Size 0: untuned.

    LabelsError or EngineError in one line; what was measured before stays and is not measured again.
    """
    if not sizes or any(size < 0 or size == 1 for size in sizes):
        raise LabelsError("--sizes takes 0 (untuned) and numbers of pictures from 2 on, such as 0,10,50,100")
    folder = begin(request, "curve")
    base = untuned(request, folder, feedback)
    points = [base] if 0 in sizes else []
    draws = {
        f"n{size}-seed{seed}": Draw(seed=seed, num_pictures=size, validation_share=0.0)
        for size in sorted(set(sizes) - {0})
        for seed in request.seeds
    }
    for name, draw in draws.items():
        draw_set(request, folder, name, draw, feedback)
    points += [tuned(request, folder, name, draw, feedback) for name, draw in draws.items()]
    return CurveResult(tuple(points))
