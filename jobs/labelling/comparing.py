"""`labels agreement`: how far annotators of labels files and runs agree."""

from typing import Annotated

import pyarrow as pa
from pydantic import Field
from pydantic.dataclasses import dataclass

from jobs.labelling.inputs import tables_of, warn_of_contradictions
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.requests import STRICT, Name
from reports.agreement import AgreementTable, agreement_table
from scoring.labels.attention import CHECKS, without_inattentive
from scoring.labels.judgements import judgements
from scoring.labels.table import read_labels


@dataclass(frozen=True, config=STRICT)
class AgreementRequest:
    inputs: tuple[Name, ...]
    """Run folders and labels files."""

    attention_checks: Name | None = None
    """Labels file of pictures whose answer is known. They are left out of the agreement."""

    min_attention: Annotated[float, Field(ge=0, le=1)] = 0.75
    """Share of right answers to the checks below which an annotator is dropped."""


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
    found, checks = without_inattentive(judgements([*tables, (request.attention_checks, known)]), request.min_attention)
    return agreement_table(found, checks)
