"""Results of `audit apply`: raw and corrected rates."""

from dataclasses import dataclass, field

import pyarrow as pa

from reports.statistics.agreement import NONE, SecondLooks
from reports.statistics.category_rates import MIN_LABELS
from reports.statistics.estimates import Estimate, Method
from reports.statistics.shares import SMALL_GROUP
from scoring.runs.audit_files import CORRECTED_SCHEMA

SCORED, SCREENED, IN_SOURCE = "scored images", "images that were scored or screened out", " in the source"
"""Which images rates are of."""

FEW_SHARDS = 30
"""With fewer drawn shards a sentence warns: a rare kind of shard is easily in none of them."""

NO_LABELS = "no labels"
ONLY_PRESENT = "labels say only where it is present"
UNDECIDED = "the interval covers undecided labels"
FEW_LABELS = f"fewer than {MIN_LABELS} labels"
FEW_IMAGES = f"fewer than {SMALL_GROUP} images"
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
    num_outside: int
    """Labels of pictures that were not drawn from the run; not used, since chance did not choose them."""


@dataclass(frozen=True, kw_only=True)
class SubjectRates:
    """The private decision or an attribute, in the whole run or a category. Shares are 0–1, of the images that `Audit`
    names."""

    subject: str
    """`private`, or the key of an attribute."""

    category: str | None = None
    """None for the whole run."""

    num_scored: int
    num_labels: int
    """Labelled pictures that the correction rests on; of a category, those in it."""

    num_positive: int = 0
    """How many of these are private or show the attribute; not counted in categories, like the next two."""

    num_undecided: int = 0
    """Drawn pictures without an answer that people saw. Intervals cover both: all of them positive, and none."""

    second_looks: SecondLooks = NONE
    """Pictures that at least two people judged, and how far they agree."""

    raw_rate: float | None
    """Rate by the run's answers; a share of the images with an answer."""

    is_raw_lower_bound: bool
    """The engine finds the subject but never rules it out; then the raw rate is a share of all scored images."""

    corrected: Estimate = field(default_factory=Estimate)

    sensitivity: Estimate = field(default_factory=Estimate)
    """Share of the positive images that the run answers with yes; an unknown answer is not a yes. Of a category only
    with enough labels of its own."""

    specificity: Estimate = field(default_factory=Estimate)
    """Share of the other images that the run does not answer with yes; not known of categories."""

    method: Method = "difference"
    note: str | None
    """Why there is no corrected rate, or what a reader must know of it."""


@dataclass(frozen=True)
class Audit:
    """Everything that `audit apply` says."""

    run: str
    private: str
    """SQL condition: what counts as the run's answer "private"."""

    num_images: int
    num_scored: int
    """Images that could be drawn."""

    num_screened: int
    """Images that a screen left out. Those that its guard sent to the engine represent them."""

    population: str
    """Images that the rates of subjects are of, in the plural."""

    category_population: str
    labels: LabelCounts

    subjects: tuple[SubjectRates, ...]
    """The private decision first, then the attributes."""

    categories: tuple[SubjectRates, ...]
    """Rates per category, of subjects for which the labels are enough."""

    cautions: tuple[str, ...]
    """Cautions of the run: why its figures are not those of the whole source."""

    notes: tuple[str, ...]

    @property
    def num_quarantined(self) -> int:
        return self.num_images - self.num_scored - self.num_screened


def of_shards(num_shards: int) -> str:
    """Say what intervals of the source assume if shards were drawn."""
    few = ", which so few cannot show" if num_shards < FEW_SHARDS else ""
    return f"if the other shards are like the {num_shards:,} drawn ones{few}"


def as_table(audit: Audit) -> pa.Table:
    """Return the audit as rows of `CORRECTED_SCHEMA`: the whole run first, then the categories of each subject."""
    rows: list[dict[str, object]] = []
    for rates in (*audit.subjects, *audit.categories):
        row: dict[str, object] = {name: getattr(rates, name) for name in CORRECTED_SCHEMA.names if hasattr(rates, name)}
        row["population"] = audit.population if rates.category is None else audit.category_population
        for name in ("corrected", "sensitivity", "specificity"):
            estimate: Estimate = getattr(rates, name)
            prefix = "" if name == "corrected" else f"{name}_"
            row |= {f"{prefix}low": estimate.low, f"{prefix}high": estimate.high}
            row["corrected_rate" if name == "corrected" else name] = estimate.value
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=CORRECTED_SCHEMA)
