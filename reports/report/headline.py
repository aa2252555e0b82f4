"""The main figure of a report: the share of private images, corrected by labels of people if there is an audit.

Also says how often the answers of the run are right, if the audit has measured it.
"""

from dataclasses import dataclass

from ingest.errors import number_of
from ingest.sample import printable
from reports.audit.results import ALL_LABELLED
from reports.audit.words import label_errors
from reports.labels.agreed import in_words
from reports.report.results import Report
from reports.run.figures import CorrectedRate
from reports.words import percent_within, shortened, spread
from scoring.runs.audit_files import MIN_LABELS, PRIVATE


@dataclass(frozen=True)
class Headline:
    """The main figure of a report. Shares are 0–1, None where they are not defined."""

    rate: float | None
    """Corrected where labels of this state of the run allow it, else as the engine answers."""

    low: float | None
    """95 % interval; equal to the rate if it is a count of all images."""

    high: float | None

    of: str
    is_of_source: bool
    """The rate is an estimate for the source, of which the run is a sample."""

    is_corrected: bool

    num_labels: int | None
    raw_rate: float | None
    """As the engine answers, of the images that it judged: of the source where these were chosen at random."""

    raw_low: float | None
    """95 % interval for the choice of the images; None where these were not chosen at random."""

    raw_high: float | None


def headline_of(report: Report) -> Headline:
    overall, whole = report.overall, corrected_whole(report)
    rate = report.total.privacy_rate if overall.rate is None else overall.rate
    raw = (rate, overall.low, overall.high)
    is_sample = report.design.is_random and overall.rate is not None
    if whole is None or whole.corrected_rate is None:
        return Headline(*raw, _counted(report), is_sample, False, None, *raw)
    corrected = (whole.corrected_rate, whole.low, whole.high)
    if report.audited.category_sizes and overall.rate is None:
        # Grouped in another way: no raw rate here is of the source.
        raw, is_sample = (whole.raw_rate, None, None), True
    noun = f"scored images in the source{_readable(report)}" if is_sample else "scored images"
    return Headline(*corrected, noun, is_sample, True, whole.num_labels, *raw)


def _readable(report: Report) -> str:
    return " that could be read" if report.design.is_damaged else ""


def _counted(report: Report) -> str:
    """Say which images the raw rate describes; images that are left out are in no rate."""
    is_of_source = report.overall.rate is not None and report.design.is_certain
    total = report.total
    if total.num_screened:
        return "judged images" if report.overall.rate is None else "images that were judged or screened out"
    if not total.num_quarantined and not total.num_unknown:
        return f"images in the source{_readable(report)}" if is_of_source else "scanned images"
    noun = "judged images" if total.num_unknown else "scored images"
    return f"{noun} in the source{_readable(report)}" if is_of_source else noun


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
        why = f" ({whole.note})" if whole.note else ""
        return f"There are {labels}, but they give no corrected rate{why}."
    if whole.sensitivity is None or whole.specificity is None:
        return f"Measured by {labels}."
    finds = _share(whole.sensitivity, whole.sensitivity_low, whole.sensitivity_high)
    accuses = _share(1 - whole.specificity, _rest(whole.specificity_high), _rest(whole.specificity_low))
    return (
        f"Measured by {labels}: the engine finds {finds} of the private images, and calls {accuses} of the others "
        "private."
    )


def _share(value: float, low: float | None, high: float | None) -> str:
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
