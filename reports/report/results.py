"""Everything that a report says, as frozen data. Text, JSON, CSV and HTML are only ways to show it.

The groups are also rows of a table to save: the same in the page and in `--format csv`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from reports.report.corrected import Corrected, of_reported_images
from reports.run.design import Overall, RunDesign, SourceSizes, design_of, fraction_of, in_source, overall
from reports.run.figures import (
    Copies,
    CorrectedRate,
    EvidenceCount,
    Fact,
    GroupLevels,
    LawCount,
    LevelCount,
    Pair,
    Prevalence,
    Rate,
    ReasonCount,
    SevereImage,
    UnseenContent,
)
from scoring.runs.audit_files import PRIVATE
from scoring.runs.coverage import Coverage
from scoring.runs.record import READABLE, WHOLE, RunRecord
from scoring.runs.rows import NO_DAMAGE, Damage, scope_of
from scoring.taxonomy import KEYS


@dataclass(frozen=True)
class Report:
    """A run in figures. Names that come from a corpus are made printable."""

    run: str
    source: str

    scope: str
    """Which images of the source the run is of."""

    is_whole: bool
    """Whether these are all of them; not if shards are damaged."""

    engine: str

    made_up: str | None
    """A warning where the answers are not of the pictures."""

    screened: str | None
    """What the screen of the scan may have left out; None without one."""

    assessed: tuple[str, ...]
    """Keys that the engine can judge."""

    num_images: int
    num_scored: int
    num_quarantined: int

    by: str
    """As the user wrote it; so is `private`."""

    private: str

    private_meaning: str
    """One sentence."""

    private_caution: str | None
    """Why the condition may not be what was meant; None if there is no reason to think so."""

    min_count: int

    top: int
    """How many of the highest and of the lowest groups to show where space is short."""

    levels: tuple[LevelCount, ...]
    prevalence: tuple[Prevalence, ...]

    total: Rate
    """Over all images."""

    rates: tuple[Rate, ...]
    """Groups with at least `min_count` scored images, the highest lower end of the interval first."""

    num_groups: int
    """All groups, also those that `min_count` leaves out."""

    quarantined: tuple[ReasonCount, ...]
    unseen: UnseenContent
    levels_by_group: tuple[GroupLevels, ...]
    cooccurrence: tuple[Pair, ...]

    damage: Damage = NO_DAMAGE
    """Shards of the source of which an unknown number of images was not seen."""

    coverage: Coverage | None = None
    """None where it was not looked up."""

    rejections: tuple[ReasonCount, ...] = ()
    """The quarantined images of this reason by their kind."""

    by_label: str = "category"
    """What a group is called in headings."""

    design: RunDesign = field(default_factory=lambda: RunDesign("unfinished", "", None))
    overall: Overall = field(default_factory=lambda: Overall(None, None, None, ""))
    severest: tuple[SevereImage, ...] = ()
    severest_note: str | None = None
    """How many of them an operator's hash list leaves out; None if none."""

    evidence: tuple[EvidenceCount, ...] = ()
    """Evidence of the highest groups; empty where the rationales may hold a model's own words."""

    laws: tuple[LawCount, ...] = ()
    copies: Copies | None = None
    """None where copies were not looked for."""

    making: tuple[Fact, ...] = ()
    corrected: tuple[CorrectedRate, ...] = ()
    """Rates that labels of people have corrected; empty if there are none."""

    audited: Corrected = field(default_factory=Corrected)
    """Results that an audit has stored: rates of the scored images, whatever the report is of."""

    def covering(self, coverage: Coverage, record: RunRecord, sizes: SourceSizes) -> "Report":
        """Return this report with what is known of the source, which decides what the report may claim."""
        scope = scope_of(record, coverage.has_all, self.damage)
        design = design_of(record, self.num_images, coverage.is_complete, coverage.has_all, sizes, self.damage)
        if not sizes.by_category and self.by == "category":
            sizes = replace(sizes, by_category=self.audited.category_sizes)
        rates = in_source(self.rates, design, sizes, self.num_images)
        fractions = {rate.group: fraction_of(rate, design, sizes, self.num_images) for rate in rates}
        fraction = self.num_images / design.num_in_source if design.num_in_source else 0.0
        corrected = of_reported_images(self.audited, design, rates, self.num_scored, min(1.0, fraction), fractions)
        return replace(
            self,
            coverage=coverage,
            is_whole=scope == WHOLE,
            scope=scope,
            design=design,
            rates=rates,
            corrected=corrected,
            overall=overall(self.total, rates, self.by, design, sizes),
        )

    @property
    def not_assessed(self) -> tuple[str, ...]:
        """Return the attributes of the taxonomy that the engine does not judge."""
        return tuple(key for key in KEYS if key not in self.assessed)

    @property
    def num_not_assessed(self) -> int:
        return len(self.not_assessed)

    @property
    def warning(self) -> str | None:
        """Return a warning if the figures are of a part of the source only."""
        return self.coverage.warning if self.coverage else None

    @property
    def cautions(self) -> tuple[str, ...]:
        """Return why figures do not describe the whole source, or any picture at all; one line each."""
        part = None if self.scope in (WHOLE, READABLE) else self.scope
        cautions_ = (part, self.damage.caution, self.warning, self.made_up, self.screened, self.private_caution)
        return tuple(caution for caution in cautions_ if caution)

    @property
    def has_claim(self) -> bool:
        """Return whether intervals and ranks say something beyond the images that were scanned."""
        return self.design.is_exhaustive or self.design.is_random

    @property
    def highest(self) -> tuple[Rate, ...]:
        """Return the `top` groups whose intervals begin highest."""
        return tuple(rate for rate in self.rates if rate.privacy_rate is not None)[: self.top]

    @property
    def lowest(self) -> tuple[Rate, ...]:
        """Return the `top` groups whose intervals end lowest, without those of `highest`."""
        known = [rate for rate in self.rates if rate.privacy_rate is not None][self.top :]
        order = sorted(known, key=lambda rate: (rate.rate_high or 0.0, rate.privacy_rate or 0.0, rate.group))
        return tuple(order[: self.top])


_RATE = tuple(field.name for field in fields(Rate))
_LEVELS = (1, 2, 3, 4, 0)

CORRECTED = {
    "corrected_rate": "corrected_rate",
    "corrected_low": "low",
    "corrected_high": "high",
    "corrected_method": "method",
    "corrected_num_labels": "num_labels",
    "corrected_note": "note",
}
"""Column -> field of `CorrectedRate`. Raw rates and their intervals are `privacy_rate`, `rate_low` and `rate_high`."""

HEADS = (*_RATE, *CORRECTED, *(f"num_level_{level}" for level in _LEVELS))


def group_rows(report: Report, most: int | None = None) -> Iterator[list[object]]:
    """Yield one row per group with the columns `HEADS`, in the order of the report. most: None for all."""
    levels = {row.group: row.nums for row in report.levels_by_group}
    corrected = {row.category: row for row in report.corrected if row.subject == PRIVATE and row.category is not None}
    for rate in report.rates[:most]:
        of_group = corrected.get(rate.group)
        yield [
            *(getattr(rate, name) for name in _RATE),
            *(_value(of_group, name) for name in CORRECTED.values()),
            *levels.get(rate.group, [0] * len(_LEVELS)),
        ]


def _value(row: CorrectedRate | None, name: str) -> object:
    return None if row is None else getattr(row, name)
