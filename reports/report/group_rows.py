"""The groups of a report as rows of a table to save: the same in the page and in `--format csv`."""

from collections.abc import Iterator
from dataclasses import fields

from reports.report.results import Report
from reports.run.figures import CorrectedRate, Rate
from scoring.runs.audit_sample import PRIVATE

_RATE = tuple(field.name for field in fields(Rate))
_LEVELS = (1, 2, 3, 4, 0)

CORRECTED = {
    "corrected_rate": "corrected_rate",
    "corrected_low": "low",
    "corrected_high": "high",
    "corrected_method": "method",
    "corrected_num_labels": "num_labels",
    "corrected_note": "note",
}
"""Column -> field of `CorrectedRate`. Raw rates and their intervals are `privacy_rate`, `rate_low` and `rate_high`."""

HEADS = (*_RATE, *CORRECTED, *(f"num_level_{level}" for level in _LEVELS))


def group_rows(report: Report, most: int | None = None) -> Iterator[list[object]]:
    """One row per group with the columns `HEADS`, in the order of the report. most: None for all."""
    levels = {row.group: row.nums for row in report.levels_by_group}
    corrected = {row.category: row for row in report.corrected if row.subject == PRIVATE and row.category is not None}
    for rate in report.rates[:most]:
        of_group = corrected.get(rate.group)
        yield [
            *(getattr(rate, name) for name in _RATE),
            *(_value(of_group, name) for name in CORRECTED.values()),
            *levels.get(rate.group, [0] * len(_LEVELS)),
        ]


def _value(row: CorrectedRate | None, name: str) -> object:
    return None if row is None else getattr(row, name)
