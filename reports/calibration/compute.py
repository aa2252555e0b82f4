"""Calibrates a run by its labels: how far its probabilities can be trusted, maps that correct them, and thresholds."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError
from reports.calibration.results import SubjectCalibration
from reports.evaluation.answers import answers_of, near_duplicates, truth_of
from reports.labels.joining import LabelledRows
from reports.statistics.binary import Flags, Numbers
from reports.statistics.calibration import MIN_TO_FIT, Platt, Points, calibration, cross_fitted, is_enough, platt
from reports.statistics.shares import kish_size
from scoring.privacy import probabilities_of_rows, protocol_name
from scoring.runs.record import RunRecord
from scoring.table import Col
from scoring.taxonomy import KEYS

PRIVATE = "private"
NEVER = 1.0
"""The highest threshold: only a probability of 1 reaches it."""

HALF = 0.5
"""Calibrated probability from which an attribute is present."""


@dataclass(frozen=True)
class _Subject:
    """The labelled pictures of one subject that have a probability."""

    key: str
    probability: str
    points: Points
    answers: Numbers
    """Shape (n,): 1, 0 or NaN: what the run says."""


def calibrated(rows: LabelledRows, record: RunRecord) -> tuple[tuple[SubjectCalibration, ...], tuple[str, ...]]:
    """Calibrate each subject; also return the attributes that have no labelled picture with a probability.

    LabelsError if nothing has a probability.
    """
    subjects = _subjects(rows, record)
    if not subjects:
        raise LabelsError(_without_probabilities(record))
    keys = {subject.key for subject in subjects}
    return tuple(map(_result, subjects)), tuple(key for key in KEYS if key not in keys)


def _without_probabilities(record: RunRecord) -> str:
    if protocol_name(record.engine) == "severity":
        return (
            "the protocol severity gives a score and no probability, so there is nothing to calibrate; a "
            "policy with a guarantee chooses a threshold on that score"
        )
    return (
        "no labelled picture of this run has a probability: the engine detectors and protocols such as two-pass give "
        "none; evaluate judges answers, and audit corrects rates (privsieve help calibration)"
    )


def _subjects(labelled: LabelledRows, record: RunRecord) -> list[_Subject]:
    places = labelled.one_per_picture
    rows, labels = labelled.joined.rows.take(pa.array(places)), labelled.joined.labels.take(pa.array(places))
    truth, answers = truth_of(labels), answers_of(rows, record.engine)
    truths = np.where(labelled.undecided[places], np.nan, np.column_stack([truth.private, truth.values]))
    weights, groups = labelled.weights[places], near_duplicates(rows)

    def subject(key: str, name: str, is_so: Numbers, probabilities: Numbers, said: Numbers) -> _Subject | None:
        known = ~np.isnan(is_so) & ~np.isnan(probabilities)
        points = Points(is_so[known] == 1, probabilities[known], weights[known], groups[known])
        return _Subject(key, name, points, said[known]) if known.any() else None

    name, private = Col.PROB_PRIVATE, answers.prob_private
    if np.isnan(private).all():
        name, private = "largest P(present) of level 1 and 2", probabilities_of_rows(rows, record.engine)
    of_values = np.where(np.isnan(answers.values), np.nan, answers.values == 1)
    is_private = np.full(len(places), np.nan) if truth.is_one_sided else truths[:, 0]
    subjects = [subject(PRIVATE, name, is_private, private, answers.private)]
    subjects += [
        subject(key, Col.prob(key), truths[:, 1 + index], answers.probabilities[:, index], of_values[:, index])
        for index, key in enumerate(KEYS)
    ]
    return [known for known in subjects if known is not None]


def _result(subject: _Subject) -> SubjectCalibration:
    points = subject.points
    before = calibration(points.truth, points.probabilities, points.weights)
    assert before is not None  # a subject has at least one picture
    is_answered = ~np.isnan(subject.answers)
    threshold: float | None = None
    kinds = "private pictures, or others" if subject.key == PRIVATE else "pictures that show it, or that do not"
    note: str | None = f"fewer than {MIN_TO_FIT} {kinds}: no map, no threshold"
    held_out = None
    if is_enough(points):
        threshold, note = _threshold(platt(points.truth, points.probabilities, points.weights))
        held_out = cross_fitted(points, HALF)
    return SubjectCalibration(
        subject=subject.key,
        probability=subject.probability,
        num_pictures=len(points),
        num_present=int(points.truth.sum()),
        num_effective=kish_size(points.weights[points.truth]),
        before=before,
        after=calibration(points.truth, held_out[0], points.weights) if held_out else None,
        wrong_before=_share(subject.answers == 1, points, is_answered),
        wrong_after=_share(held_out[1], points, is_answered) if held_out else None,
        threshold=threshold,
        note=note,
    )


def _share(said: Flags, points: Points, members: Flags) -> float | None:
    """Return the weighted share of the members that are answered wrongly, 0–1. None without members."""
    if not members.any():
        return None
    weights = points.weights[members]
    return float(weights[said[members] != points.truth[members]].sum() / weights.sum())


def _threshold(curve: Platt) -> tuple[float, str | None]:
    """Return the threshold and a note. It is rounded up to single precision, in which probabilities are stored and
    compared."""
    note = "its probabilities do not rise with the truth" if curve.slope == 0 else None
    start = curve.reaching(HALF)
    if start is None:
        why = f": {note}" if note else ""
        return NEVER, f"no probability given means 50 % or more{why}; only 1 counts as present"
    nearest = np.float32(start)
    above = nearest if nearest >= start else np.nextafter(nearest, np.float32(2))
    return float(np.format_float_positional(above)), note
