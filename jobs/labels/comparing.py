"""`labels agreement`: how far annotators of labels files and runs agree."""

import pyarrow as pa

from jobs.labels.inputs import tables_of, warn_of_contradictions
from jobs.labels.request import AgreementRequest
from jobs.runtime.feedback import SILENT, Feedback
from reports.labels.agreement import AgreementTable, agreement_table
from scoring.labels.attention import CHECKS, without_inattentive
from scoring.labels.judgements import judgements
from scoring.labels.table import read_labels

MIN_ATTENTION = 0.75
"""Our choice: the papers give none."""


def run_agreement(request: AgreementRequest, feedback: Feedback = SILENT) -> AgreementTable:
    """LabelsError or RunError in one line."""
    tables = tables_of(request.inputs)
    warn_of_contradictions(tables, feedback)
    if request.attention_checks is None:
        return agreement_table(judgements(tables))
    known = read_labels(request.attention_checks)
    warn_of_contradictions([(request.attention_checks, known)], feedback)
    index = known.column_names.index("annotator")
    known = known.set_column(index, known.schema.field(index), pa.array([CHECKS] * known.num_rows, pa.string()))
    least = MIN_ATTENTION if request.min_attention is None else request.min_attention
    judged, checks = without_inattentive(judgements([*tables, (request.attention_checks, known)]), least)
    return agreement_table(judged, checks)
