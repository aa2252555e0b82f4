"""Progress of a review: how much each person answered, how far people agree, and whether there are enough labels."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from reports.audit.cells import audit_sql, cell_counts
from reports.audit.compute import private_rate
from reports.labels.agreement import Agreement, agreement
from reports.run.warehouse import Run
from scoring.labels.judgements import judgements
from scoring.labels.table import as_judged
from scoring.runs.audit_files import PRIVATE, AuditSample

Estimate = Callable[[pa.Table], tuple[float, float] | None]
"""Labels -> 95 % interval of the corrected share of private pictures, None if they do not give one."""

_NUMBERS = (pa.int8(), pa.float32())


@dataclass(frozen=True)
class Enough:
    """How much of an audit sample is labelled."""

    num_answered: int
    """Drawn pictures that at least one person judged: skipped and unclear ones do not count."""

    num_drawn: int

    num_for_second_look: int
    """Drawn pictures that a second person is asked for."""

    num_judged_twice: int
    """Drawn pictures that at least two people judged."""

    interval: tuple[float, float] | None
    """95 % interval of the corrected share of private pictures with these labels, None if it is not computed."""


def estimate_of(run: Run, sample: AuditSample) -> Estimate:
    """Read what the correction needs of the run, and return a quick function that needs no open run."""
    num_images = cell_counts(run, audit_sql(run, sample.design.private)).of_run[PRIVATE]

    def estimate(labels: pa.Table) -> tuple[float, float] | None:
        rate = private_rate(sample, num_images, as_judged(labels))
        return None if rate.low is None or rate.high is None else (rate.low, rate.high)

    return estimate


def enough_labels(sample: AuditSample, labels: pa.Table, estimate: Estimate) -> Enough:
    """Count how much of an audit sample is labelled, and estimate the private rate.

    labels: of `LABELS_SCHEMA`. estimate: of `estimate_of`.
    """
    columns = ["sha256", *(name for name in labels.column_names if labels.schema.field(name).type in _NUMBERS)]
    num_people = Counter(
        sha256
        for sha256, *values in zip(*(labels[name].to_pylist() for name in columns), strict=True)
        if any(value is not None for value in values)
    )
    drawn = sample.table["sha256"].to_pylist()
    return Enough(
        num_answered=sum(num_people[sha256] > 0 for sha256 in drawn),
        num_drawn=len(drawn),
        num_for_second_look=sum(sample.is_for_second_look),
        num_judged_twice=sum(num_people[sha256] > 1 for sha256 in drawn),
        interval=estimate(labels),
    )


def agreement_of(labels: pa.Table) -> tuple[Agreement, ...]:
    """Measure how far people agree on `private` and on all attributes; empty with fewer than two people.

    labels: of `LABELS_SCHEMA`, one row per person and picture.
    """
    if len(set(labels["annotator"].to_pylist())) < 2:
        return ()
    judged = judgements([("reviews", labels)])
    rows = (
        agreement("private", judged.private.astype(np.float64)),
        agreement("all attributes", judged.values.reshape(len(judged.annotators), -1).astype(np.float64)),
    )
    return tuple(row for row in rows if row.num_items)


def answers_by_person(labels: pa.Table) -> dict[str, int]:
    """Count the pictures of each person: name -> pictures, most first."""
    return dict(Counter(labels["annotator"].to_pylist()).most_common())
