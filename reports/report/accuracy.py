"""Says how often the answers of a run are right, if an audit has measured it."""

from ingest.errors import number_of
from ingest.sample import printable
from reports.audit.results import ALL_LABELLED
from reports.audit.words import label_errors
from reports.labels.agreed import in_words
from reports.report.headline import corrected_whole
from reports.report.results import Report
from reports.run.figures import CorrectedRate
from reports.words import percent_within, shortened, spread
from scoring.runs.audit_files import MIN_LABELS


def quality_note(report: Report) -> str:
    """Say how often the answers are right, or why this is not known."""
    whole = corrected_whole(report)
    if whole is not None:
        return _measured(whole)
    if report.audited.rates and report.design.kind == "per category":
        return (
            "Labels correct the rates of categories. A rate of the whole source needs their sizes: run audit apply "
            "--category-sizes FILE."
        )
    if report.audited_condition is not None:
        condition = shortened(printable(report.audited_condition), 80)
        return f'The audit of this run is of another meaning of "private"; it is shown with --private "{condition}".'
    if report.has_stale_audit:
        return (
            "There is an audit, but of other rows than the run has now, so its rates are left out. Draw and label a "
            "new sample: privsieve audit sample."
        )
    return (
        "Not measured on this run: the rates are what the engine answered, right or wrong. A few hundred labels "
        "measure and correct them: run privsieve audit sample."
    )


def _measured(whole: CorrectedRate) -> str:
    """Say what an audit of the private decision found."""
    if whole.is_of_other_run:
        return _measured_elsewhere(whole)
    labels = f"{whole.num_labels:,} labels of people"
    if whole.corrected_rate is None:
        why = f" ({whole.note})" if whole.note else ""
        return f"There are {labels}, but they give no corrected rate{why}."
    if whole.sensitivity is None or whole.specificity is None:
        return f"Measured by {labels}."
    return f"Measured by {labels}: the engine {_quality(whole)}."


def _measured_elsewhere(whole: CorrectedRate) -> str:
    """Say what labels of another run found."""
    labels = f"{whole.num_labels:,} labels of another run"
    if whole.corrected_rate is None:
        why = f" ({whole.note})" if whole.note else ""
        return f"Not measured on this run. There are {labels}, but they give no corrected rate{why}."
    return (
        f"Not measured on this run. By {labels}, the engine there {_quality(whole)}. The corrected rates assume that "
        "it errs as often here, which nothing in the two runs can show: labels of this run are better."
    )


def _quality(whole: CorrectedRate) -> str:
    """Say how often the engine is right, in words that follow "the engine"."""
    of_private = (whole.sensitivity_low, whole.sensitivity_high)
    of_others = (whole.specificity_low, whole.specificity_high)
    quality = f"{percent_within(whole.sensitivity, *of_private)} ({spread(*of_private)})"
    left = f"{percent_within(whole.specificity, *of_others)} ({spread(*of_others)})"
    return f"finds {quality} of the private images, and is right about {left} of the others"


def audit_cautions(report: Report) -> tuple[str, ...]:
    """Return the cautions about the labels of an audit, one sentence each; empty without corrected rates."""
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
