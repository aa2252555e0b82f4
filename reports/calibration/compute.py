"""Calibrates a run by its labels: how far its probabilities can be trusted, maps that correct them, and thresholds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError
from reports.calibration.results import SubjectCalibration
from reports.evaluation.answers import answers_of, near_duplicates, truth_of
from reports.labels.joining import LabelledRows
from reports.statistics.binary import Flags, Numbers
from reports.statistics.calibration import (
    MIN_TO_FIT,
    Method,
    Platt,
    Points,
    ProbabilityMap,
    calibration,
    cross_fitted,
    fitted,
    joined,
    method_of,
)
from reports.statistics.shares import kish_size
from scoring.privacy import probabilities_of_rows, protocol_name
from scoring.runs.record import RunRecord
from scoring.table import Col
from scoring.taxonomy import ATTRIBUTES, KEYS

PRIVATE = "private"
NEVER = 1.0
"""The highest threshold: only a probability of 1 reaches it."""

_TOO_FEW = f"fewer than {MIN_TO_FIT} pictures that show it, or that do not: no map, no threshold"
_TOO_FEW_PRIVATE = f"fewer than {MIN_TO_FIT} private pictures, or others: no map, no threshold"
_LEVELS = {attribute.key: attribute.level for attribute in ATTRIBUTES}


@dataclass(frozen=True)
class _Subject:
    """The labelled pictures of one subject that have a probability."""

    key: str
    probability: str
    points: Points
    answers: Numbers
    """Shape (n,): 1, 0 or NaN: what the run says."""


def calibrated(
    rows: LabelledRows, record: RunRecord, present_from: float, seed: int
) -> tuple[tuple[SubjectCalibration, ...], tuple[str, ...]]:
    """Calibrate each subject; also return the attributes that have no labelled picture with a probability.

    present_from: calibrated probability from which an attribute is present. LabelsError if nothing has a probability.
    """
    subjects = _subjects(rows, record)
    if not subjects:
        raise LabelsError(_without_probabilities(record))
    found_of = {
        result.subject: result
        for pool in _pools(subjects)
        for result in _of_pool([subjects[key] for key in pool], present_from, seed)
    }
    return tuple(found_of[key] for key in subjects), tuple(key for key in KEYS if key not in subjects)


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


def _subjects(labelled: LabelledRows, record: RunRecord) -> dict[str, _Subject]:
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
    return {known.key: known for known in subjects if known is not None}


def _pools(subjects: Mapping[str, _Subject]) -> list[tuple[str, ...]]:
    """Return the subjects that share a map: each subject has its own, but rare attributes share one per level."""
    rare = [key for key, subject in subjects.items() if key != PRIVATE and method_of(subject.points) is None]
    alone = [(key,) for key in subjects if key not in rare]
    levels = sorted({_LEVELS[key] for key in rare})
    return alone + [tuple(key for key in rare if _LEVELS[key] == level) for level in levels]


def _of_pool(members: Sequence[_Subject], present_from: float, seed: int) -> Iterator[SubjectCalibration]:
    """Yield the result of each member of a pool, in their order."""
    points = joined([member.points for member in members])
    method = method_of(points)
    if method is None:
        yield from (_result(member, members, None, None, present_from) for member in members)
        return
    shared = fitted(points, method)
    held_out = cross_fitted(points, method, present_from, seed)
    start = 0
    for member in members:
        part = slice(start, start + len(member.points))
        start = part.stop
        yield _result(
            member, members, (method, shared), held_out and (held_out[0][part], held_out[1][part]), present_from
        )


def _result(
    subject: _Subject,
    members: Sequence[_Subject],
    fit: tuple[Method, ProbabilityMap] | None,
    held_out: tuple[Numbers, Flags] | None,
    present_from: float,
) -> SubjectCalibration:
    points = subject.points
    before = calibration(points.truth, points.probabilities, points.weights)
    assert before is not None  # a subject has at least one picture
    is_answered = ~np.isnan(subject.answers)
    threshold, note = (
        _threshold(fit[1], present_from) if fit else (None, _TOO_FEW_PRIVATE if subject.key == PRIVATE else _TOO_FEW)
    )
    return SubjectCalibration(
        subject=subject.key,
        level=_LEVELS.get(subject.key),
        probability=subject.probability,
        num_pictures=len(points),
        num_present=int(points.truth.sum()),
        num_effective=kish_size(points.weights[points.truth]),
        method=fit[0] if fit else None,
        pooled_with=tuple(other.key for other in members if other is not subject) if fit else (),
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


def _threshold(map_: ProbabilityMap, present_from: float) -> tuple[float, str | None]:
    """Return the threshold and a note. It is rounded up to single precision, in which probabilities are stored and
    compared."""
    note = "its probabilities do not rise with the truth" if isinstance(map_, Platt) and map_.slope == 0 else None
    start = map_.reaching(present_from)
    if start is None:
        why = f": {note}" if note else ""
        return NEVER, f"no probability given means {100 * present_from:g} % or more{why}; only 1 counts as present"
    nearest = np.float32(start)
    above = nearest if nearest >= start else np.nextafter(nearest, np.float32(2))
    return float(np.format_float_positional(above)), note
