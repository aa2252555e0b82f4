"""Cautions about corrected rates: what the labels that corrected them leave open."""

from ingest.errors import number_of
from reports.audit.results import ALL_LABELLED
from reports.audit.words import label_errors
from reports.labels.agreed import in_words
from reports.report.headline import corrected_whole
from reports.report.results import Report
from scoring.runs.corrected_rates import MIN_LABELS


def audit_cautions(report: Report) -> tuple[str, ...]:
    """What a reader must know of the labels of an audit, one sentence each; empty without corrected rates."""
    if not report.corrected:
        return ()
    gaps, cautions = report.label_gaps, list[str]()
    few = [
        row.subject
        for row in report.corrected
        if row.category is None and row.num_labels < MIN_LABELS and row.note != ALL_LABELLED
    ]
    if few:
        number = f"{few[0]} and {number_of(len(few) - 1, 'attribute')}" if len(few) > 3 else ", ".join(few)
        cautions.append(
            f"Fewer than {MIN_LABELS} labels: label more before you rely on the corrected rate of {number}."
        )
    if gaps.num_without_label:
        cautions.append(
            f"{gaps.num_without_label:,} of {gaps.num_drawn or 0:,} drawn pictures have no label. The corrected rates "
            "hold only if chance decided which."
        )
    if gaps.num_undecided:
        whole = corrected_whole(report)
        is_left_out = whole is not None and whole.is_of_other_run
        end = (
            "They are left out, and the engine seems better than it is."
            if is_left_out
            else "The intervals cover all of them being so, and none."
        )
        cautions.append(
            f"Undecided, since people differ, cannot say, or skipped them: {in_words(dict(gaps.num_undecided))}. {end}"
        )
    cautions.append(label_errors(gaps.num_judged_twice, gaps.share_differing, gaps.kappa, gaps.allows_for_errors))
    return tuple(cautions)
