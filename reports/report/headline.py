"""The main figure of a report: the share of private images, corrected by labels of people if there is an audit."""

from dataclasses import dataclass

from reports.report.results import Report
from reports.run.figures import CorrectedRate
from scoring.runs.audit_files import PRIVATE


@dataclass(frozen=True)
class Headline:
    """The main figure of a report. Shares are 0–1, None where they are not defined."""

    rate: float | None
    """Corrected where labels of this state of the run allow it, else as the engine answers."""

    low: float | None
    """95 % interval; equal to the rate if it is a count of all images."""

    high: float | None

    of: str
    """Which images it describes."""

    is_of_source: bool
    """The rate is an estimate for the source, of which the run is a sample."""

    is_corrected: bool

    num_labels: int | None
    """Number of labels that the correction is based on."""

    method: str | None
    """How it was corrected, as in `CorrectedRate`; None if it was not. `rogan-gladen`: by labels of another run."""

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
        return Headline(*raw, _counted(report), is_sample, False, None, None, *raw)
    corrected = (whole.corrected_rate, whole.low, whole.high)
    if is_weighted(report) and overall.rate is None:  # grouped in another way: no raw rate here is of the source
        raw, is_sample = (whole.raw_rate, None, None), True
    noun = f"scored images in the source{_readable(report)}" if is_sample else "scored images"
    return Headline(*corrected, noun, is_sample, True, whole.num_labels, whole.method, *raw)


def is_weighted(report: Report) -> bool:
    """Return whether corrected rates of the whole run are weighted by the sizes of its categories in the source."""
    return bool(report.audited.category_sizes)


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
