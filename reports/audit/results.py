"""Results of `audit apply`: raw and corrected rates."""

from dataclasses import dataclass, field

import pyarrow as pa

from reports.statistics.agreement import NONE, SecondLooks
from reports.statistics.category_rates import Method
from reports.statistics.estimates import Estimate
from scoring.runs.audit_files import CORRECTED_SCHEMA, MIN_LABELS

MIN_IMAGES = 20
"""With fewer images in a category its rate is marked."""

SCORED, SCORED_OF_SOURCE = "the scored images", "the scored images in the source"
"""Which images the rates of an audit are of."""

NO_LABELS = "no labels"
UNDECIDED = "the interval covers undecided labels"
FEW_LABELS = f"fewer than {MIN_LABELS} labels"
TOO_FEW_FOR_CATEGORIES = "too few labels for categories"
FEW_IMAGES = f"fewer than {MIN_IMAGES} images"
ASSUMED = "by a model of all categories"
ALL_LABELLED = "every image is labelled"


@dataclass(frozen=True)
class LabelCounts:
    """Counts of drawn pictures and of labels; those of each side add up."""

    num_drawn: int
    """Pictures of the sample."""

    num_labelled: int
    """How many of these have a row in the labels that answers at least one question."""

    num_empty: int
    """How many of these have a row that answers none."""

    num_undecided: int
    """How many of these have no answer although people saw them: people differ, cannot say, or skipped them."""

    num_without_row: int
    num_rows: int
    """Rows of the labels."""

    num_outside: int
    """How many of these are of pictures that were not drawn. They are not used: they were not chosen at random."""


@dataclass(frozen=True, kw_only=True)
class SubjectRates:
    """The private decision or an attribute. Shares are 0–1, of the images that `Audit.population` names."""

    subject: str
    """`private`, or the key of an attribute."""

    num_labels: int
    """Labelled pictures that the correction rests on."""

    num_positive: int
    """How many of these are private or show the attribute."""

    num_ambiguous: int
    """How many of these are labelled 0.5; they count as absent."""

    num_undecided: int
    """Drawn pictures without an answer that people saw. Intervals cover both: all of them positive, and none."""

    second_looks: SecondLooks = NONE
    """Pictures that at least two people judged, and how far they agree."""

    raw_rate: float | None
    """Rate by the run's answers; a share of the images with an answer."""

    is_raw_lower_bound: bool
    """The engine finds the subject but never rules it out; then the raw rate is a share of all scored images."""

    corrected: Estimate = field(default_factory=Estimate)

    with_quarantined: tuple[float, float] | None = None
    """The corrected interval if quarantined images count too: low if none of them is positive, high if all are. None if
    shards are damaged, so that the number of images is not known."""

    sensitivity: Estimate = field(default_factory=Estimate)
    """Share of the positive images that the run answers with yes; an unknown answer is not a yes."""

    specificity: Estimate = field(default_factory=Estimate)
    """Share of the other images that it does not answer with yes."""

    note: str | None
    """Why there is no corrected rate, or what a reader must know of it."""


@dataclass(frozen=True)
class CategoryRates:
    """One subject in one category. Fields as in `SubjectRates`."""

    subject: str
    category: str
    num_scored: int
    raw_rate: float | None
    is_raw_lower_bound: bool
    corrected: Estimate
    method: Method

    num_labels: int
    note: str | None


@dataclass(frozen=True)
class Audit:
    """Everything that `audit apply` says."""

    run: str
    private: str
    """SQL condition: what counts as the run's answer "private"."""

    num_images: int
    num_scored: int

    population: str
    labels: LabelCounts

    subjects: tuple[SubjectRates, ...]
    """The private decision first, then the attributes."""

    categories: tuple[CategoryRates, ...]
    """Rates per category, of subjects for which the labels are enough."""

    cautions: tuple[str, ...]
    """Cautions of the run: why its figures are not those of the whole source."""

    notes: tuple[str, ...]
    is_screened: bool = False
    """Whether a screen left images out, which have no score either."""

    @property
    def num_without_score(self) -> int:
        """Return the number of images that cannot be drawn: quarantined ones, and those that a screen left out."""
        return self.num_images - self.num_scored


def as_table(audit: Audit, in_source: Audit | None = None) -> pa.Table:
    """Return the audit as rows of `CORRECTED_SCHEMA`: the whole run first, then the categories of each subject.

    in_source: the same rates for the source; None if the run is not a sample of it.
    """
    rows: list[dict[str, object]] = []
    for rates in audit.subjects:
        quality = _named("sensitivity", rates.sensitivity) | _named("specificity", rates.specificity)
        rows.append(_row(rates, None) | quality)
    rows += [_row(category, category.category) for category in audit.categories]
    if in_source is not None:
        is_of_source = in_source.population == SCORED_OF_SOURCE  # else each category has the same weight
        known = [subject.corrected if is_of_source else Estimate() for subject in in_source.subjects]
        known += [rates.corrected for rates in in_source.categories]
        for row, estimate in zip(rows, known, strict=True):
            row |= {"source_low": estimate.low, "source_high": estimate.high}
    return pa.Table.from_pylist(rows, schema=CORRECTED_SCHEMA)


def _row(rates: SubjectRates | CategoryRates, category: str | None) -> dict[str, object]:
    corrected = {"corrected_rate": rates.corrected.value, "low": rates.corrected.low, "high": rates.corrected.high}
    stored = {name: getattr(rates, name) for name in ("subject", "raw_rate", "num_labels", "note")}
    method = rates.method if isinstance(rates, CategoryRates) else "difference"
    return stored | {"category": category, "method": method} | corrected


def _named(what: str, estimate: Estimate) -> dict[str, object]:
    return {what: estimate.value, f"{what}_low": estimate.low, f"{what}_high": estimate.high}
