"""The file of thresholds that `scan --thresholds` takes."""

import numpy as np

from reports.calibration.results import CalibrationReport

_HEAD = """\
# P(present) from which an attribute is 1, made by privsieve calibrate from {num} labelled pictures: from there on it is
# present with a probability of {at:g} or more. For scans with the same engine, model and protocol:
# {engine}
"""


def thresholds_file(report: CalibrationReport) -> str | None:
    """YAML; None if no attribute has a threshold."""
    lines = [
        _line(subject.subject, subject.threshold, subject.note)
        for subject in report.subjects
        if subject.level is not None and subject.threshold is not None
    ]
    if not lines:
        return None
    return _HEAD.format(at=report.at, num=report.num_labelled, engine=report.engine) + "".join(lines)


def _line(key: str, threshold: float, note: str | None) -> str:
    return f"{key}: {np.format_float_positional(threshold)}{f'  # {note}' if note else ''}\n"
