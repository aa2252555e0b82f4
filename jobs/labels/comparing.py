"""`labels agreement`: how far annotators of labels files and runs agree."""

from typing import Annotated

import pyarrow as pa
from pydantic import Field
from pydantic.dataclasses import dataclass

from ingest.errors import LabelsError
from jobs.labels.inputs import tables_of, warn_of_contradictions
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.requests import STRICT, Name
from reports.agreement import AgreementTable, agreement_table
from scoring.labels.attention import CHECKS, without_inattentive
from scoring.labels.judgements import judgements
from scoring.labels.table import read_labels

MIN_ATTENTION = 0.75
"""Our choice: the papers give none."""


@dataclass(frozen=True, config=STRICT)
class AgreementRequest:
    inputs: tuple[Name, ...]
    """Run folders and labels files."""

    attention_checks: Name | None = None
    """Labels file of pictures whose answer is known. They are left out of the agreement."""

    min_attention: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of right answers to the checks below which an annotator is dropped; None for `MIN_ATTENTION`."""

    def __post_init__(self) -> None:
        if self.min_attention is not None and self.attention_checks is None:
            raise LabelsError("--min-attention is of --attention-checks; leave it out, or give both")


def run_agreement(request: AgreementRequest, feedback: Feedback = SILENT) -> AgreementTable:
    """LabelsError or RunError in one line."""
    tables = tables_of(request.inputs)
    warn_of_contradictions(tables, feedback)
    if request.attention_checks is None:
        return agreement_table(judgements(tables))
    known = read_labels(request.attention_checks)
    warn_of_contradictions([(request.attention_checks, known)], feedback)
    place = known.column_names.index("annotator")
    known = known.set_column(place, known.schema.field(place), pa.array([CHECKS] * known.num_rows, pa.string()))
    least = MIN_ATTENTION if request.min_attention is None else request.min_attention
    found, checks = without_inattentive(judgements([*tables, (request.attention_checks, known)]), least)
    return agreement_table(found, checks)
