"""Whether a model knows a class that it was not tuned on, as in Samson et al., Table 4.

Three figures per class: the MCC over all pictures, and the MCC and F1 of the class against exclusive batches of public
pictures. The paper's table mixes the first with the third.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.errors import LabelsError, did_you_mean
from jobs.runtime.feedback import Feedback
from jobs.study.points import PointResult, begin, draw_set, tuned, untuned
from jobs.study.request import StudyRequest
from jobs.tune_set.joining import labels_by_picture
from scoring.tuning.drawing import Draw
from scoring.tuning.targets import is_private


@dataclass(frozen=True)
class LeaveOneOutResult:
    """The untuned model, the model tuned on all classes, and one model per class that was left out."""

    points: tuple[PointResult, ...]


def run_leave_one_out(request: StudyRequest, classes: Sequence[str], feedback: Feedback) -> LeaveOneOutResult:
    """One point per class and seed. classes: those to leave out, one at a time; empty: every private class.

    LabelsError or EngineError in one line; what was measured before stays and is not measured again.
    """
    labels = labels_by_picture(request.labels, None)
    private = sorted({one.class_name for one in labels.every() if one.class_name and is_private(one) is not False})
    if len(private) < 2:
        raise LabelsError(f"{request.labels}: names {len(private)} private classes; leaving one out takes at least two")
    for name in classes:
        if name not in private:
            raise LabelsError(
                f'{request.labels}: no private class "{name}"{did_you_mean(name, private)}; there are: '
                f"{', '.join(private)}"
            )
    folder = begin(request, "leave-one-class-out")
    draws: dict[str, Draw] = {}
    for seed in request.seeds:
        draws[f"all-seed{seed}"] = Draw(seed=seed, validation_share=0.0)
        for name in classes or private:
            point = f"without-{private.index(name)}-{re.sub('[^A-Za-z0-9_]', '_', name)[:40]}-seed{seed}"
            draws[point] = Draw(seed=seed, leave_out=(name,), validation_share=0.0)
    points = [untuned(request, folder, feedback)]
    for name, draw in draws.items():
        draw_set(request, folder, name, draw, feedback)
    points += [tuned(request, folder, name, draw, feedback) for name, draw in draws.items()]
    return LeaveOneOutResult(tuple(points))
