"""The main figure of a report: the share of private images, corrected by labels of people if there is an audit.

Also says how often the answers of the run are right, if the audit has measured it.
"""

from ingest.errors import number_of
from ingest.sample import printable
from reports.audit.results import ALL_LABELLED, IN_SOURCE, of_shards
from reports.audit.words import label_errors
from reports.labels.agreed import in_words
from reports.report.results import Report
from reports.run.figures import CorrectedRate, Figure
from reports.statistics.category_rates import MIN_LABELS
from reports.words import percent_within, shortened, spread
from scoring.runs.audit_files import PRIVATE


def headline_of(report: Report) -> Figure:
    """Return the corrected rate where labels of this state of the run allow it, else the rate as the engine answers."""
    whole = corrected_whole(report)
    if whole is None or whole.corrected_rate is None:
        return report.overall
    is_of_source = whole.population.endswith(IN_SOURCE)
    shards = f", and {of_shards(report.total.num_shards or 0)}" if report.design.kind == "shards" else ""
    return Figure(
        whole.corrected_rate,
        whole.low,
        whole.high,
        population=f"{whole.population}{' that could be read' if is_of_source and report.design.is_damaged else ''}",
        basis=f"corrected by {number_of(whole.num_labels, 'label')} of people",
        caveat="" if is_of_source or report.design.kind == "whole" else "the others can differ",
        is_of_source=is_of_source,
        is_corrected=True,
        assumption=f"if labels are right and chance alone decided which pictures have one{shards}",
    )


def corrected_whole(report: Report) -> CorrectedRate | None:
    """Return the corrected rate of the private decision in the whole run; None without an audit."""
    rows = (row for row in report.corrected if row.subject == PRIVATE and row.category is None)
    return next(rows, None)


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
    if report.audited.other_condition is not None:
        condition = shortened(printable(report.audited.other_condition), 80)
        return f'The audit of this run is of another meaning of "private"; it is shown with --private "{condition}".'
    if report.audited.is_stale:
        return (
            "There is an audit, but of other rows than the run has now, so its rates are left out. Draw and label a "
            "new sample: privsieve audit sample."
        )
    return (
        "Not measured on this run: the rates are what the engine answered, right or wrong. A few hundred labels "
        "measure and correct them: run privsieve audit sample."
    )


def _measured(whole: CorrectedRate) -> str:
    """Say what labels found of the private decision."""
    labels = f"{number_of(whole.num_labels, 'label')} of people"
    if whole.corrected_rate is None:
        if whole.low is not None and whole.high is not None and whole.num_labels:
            bounds = f"only show that {spread(whole.low, whole.high)} of the {whole.population} are private"
            return f"There are {labels}, but they {bounds}: label more of the sample."
        why = f" ({whole.note})" if whole.note else ""
        return f"There are {labels}, but they give no corrected rate{why}."
    finds = _share(whole.sensitivity, whole.sensitivity_low, whole.sensitivity_high)
    right = whole.specificity
    accuses = _share(None if right is None else 1 - right, _rest(whole.specificity_high), _rest(whole.specificity_low))
    parts = [f"finds {finds} of the private images"] if finds else []
    parts += [f"calls {accuses} of the others private"] if accuses else []
    return f"Measured by {labels}{': the engine ' if parts else ''}{', and '.join(parts)}."


def _share(value: float | None, low: float | None, high: float | None) -> str:
    """Return a share with its interval, its bounds if nothing else is known, or nothing."""
    if value is None:
        return "" if low is None else f"between {spread(low, high)}"
    return f"{percent_within(value, low, high)} ({spread(low, high)})"


def _rest(share: float | None) -> float | None:
    return None if share is None else 1 - share


def audit_cautions(report: Report) -> tuple[str, ...]:
    """Return the cautions about the labels of an audit, one sentence each; empty without corrected rates."""
    if not report.corrected:
        return ()
    gaps, cautions = report.audited.gaps, list[str]()
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
        cautions.append(
            f"Undecided, since people differ, cannot say, or skipped them: {in_words(dict(gaps.num_undecided))}. The "
            "intervals cover all of them being so, and none."
        )
    cautions.append(label_errors(gaps.num_judged_twice, gaps.share_differing, gaps.kappa, gaps.allows_for_errors))
    return tuple(cautions)
