"""Everything that a report says, as frozen data. Text, JSON, CSV and HTML are only ways to show it.

The groups are also rows of a table to save: the same in the page and in `--format csv`. Rates corrected by labels of
people (`Corrected`) are read from the run if `audit apply` has stored some.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from reports.run.design import RunDesign, SourceSizes, design_of, in_source, overall
from reports.run.figures import (
    Copies,
    CorrectedRate,
    EvidenceCount,
    Fact,
    Figure,
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
from reports.run.warehouse import Run
from scoring.runs.audit_files import PRIVATE, LabelGaps, read_stored
from scoring.runs.coverage import Coverage
from scoring.runs.record import READABLE, WHOLE, RunRecord
from scoring.runs.rows import NO_DAMAGE, Damage, scope_of
from scoring.taxonomy import KEYS


@dataclass(frozen=True)
class Corrected:
    """Results that an audit has stored in the run."""

    rates: tuple[CorrectedRate, ...] = ()
    """Rates of the report's condition and groups only; empty if there are none."""

    gaps: LabelGaps = field(default_factory=LabelGaps)
    category_sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of categories by which the rates of the whole run are weighted; empty if they are not."""

    other_condition: str | None = None
    """What the audit took as private, if that is not what the report does."""

    is_stale: bool = False
    """Whether the audit is of other rows than the run has now, so that its rates are left out."""


def corrected_rates(run: Run, by: str, private: str) -> Corrected:
    """Read the corrected rates that fit a report.

    by, private: as in the report; rates of another condition or of other groups are left out.
    RunError in one line if the file is damaged.
    """
    stored = read_stored(run.root)
    if stored is None:
        return Corrected()
    table, state = stored
    if not run.has_rows_of(state):
        return Corrected(is_stale=True)
    rows = table.select([field_.name for field_ in fields(CorrectedRate)]).to_pylist()
    rates = (CorrectedRate(**row) for row in rows if row["num_labels"] or row["corrected_rate"] is not None)
    return Corrected(
        tuple(
            rate
            for rate in rates
            if (rate.subject != PRIVATE or state.private == private) and (rate.category is None or by == "category")
        ),
        gaps=state.gaps,
        category_sizes=state.category_sizes,
        other_condition=None if state.private == private else state.private,
    )


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
    private_caution: str | None
    """Why the condition may not be what was meant; None if there is no reason to think so."""

    min_count: int

    top: int
    """How many of the highest and of the lowest groups to show where space is short."""

    levels: tuple[LevelCount, ...]
    prevalence: tuple[Prevalence, ...]

    total: Rate
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
    overall: Figure = field(default_factory=lambda: Figure(None, None, None, "", ""))
    severest: tuple[SevereImage, ...] = ()
    severest_note: str | None = None
    """How many of them an operator's hash list leaves out; None if none."""

    evidence: tuple[EvidenceCount, ...] = ()
    """Evidence of the highest groups."""

    laws: tuple[LawCount, ...] = ()
    copies: Copies | None = None
    """None where copies were not looked for."""

    making: tuple[Fact, ...] = ()
    corrected: tuple[CorrectedRate, ...] = ()
    """Rates that labels of people have corrected; empty if there are none."""

    audited: Corrected = field(default_factory=Corrected)
    """Results that an audit has stored."""

    def covering(self, coverage: Coverage, record: RunRecord, sizes: SourceSizes) -> "Report":
        """Return this report with what is known of the source, which decides what the report may claim."""
        scope = scope_of(record, coverage.has_all, self.damage)
        design = design_of(record, self.num_images, coverage.is_complete, coverage.has_all, sizes, self.damage)
        if not sizes.by_category and self.by == "category":
            sizes = replace(sizes, by_category=self.audited.category_sizes)
        rates = in_source(self.rates, design, sizes, self.num_images)
        # Without sizes the whole run describes nothing, if it has the same number of images of each category.
        is_pooled = design.kind == "per category" and not self.audited.category_sizes
        corrected = tuple(row for row in self.audited.rates if row.category is not None or not is_pooled)
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
            *(getattr(of_group, name, None) for name in CORRECTED.values()),
            *levels.get(rate.group, [0] * len(_LEVELS)),
        ]
