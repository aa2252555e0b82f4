"""Everything that a report says, as frozen data. Text, JSON, CSV and HTML are only ways to show it.

The groups are also rows of a table to save: the same in the page and in `--format csv`. Rates corrected by labels of
people (`CorrectedRate`) are read from the run if `audit apply` has stored some.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

from ingest.sample import printable
from reports.audit.results import ONLY_PRESENT
from reports.run.design import Kind, RunDesign
from reports.run.figures import (
    CorrectedRate,
    EvidenceCount,
    Figure,
    LawCount,
    LeftOut,
    Prevalence,
    Rate,
    Scores,
    SevereImage,
)
from reports.run.warehouse import LEVEL_COUNTS, Run
from reports.words import shortened
from scoring.runs.audit_files import PRIVATE, LabelGaps, read_stored
from scoring.runs.coverage import Coverage
from scoring.runs.record import WHOLE
from scoring.taxonomy import KEYS


@dataclass(frozen=True)
class Audited:
    """What an audit that is stored in the run says of its labels; nothing by default."""

    gaps: LabelGaps = field(default_factory=LabelGaps)
    category_sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of categories by which the rates of the whole run are weighted; empty if they are not."""

    other_condition: str | None = None
    """What the audit took as private, if that is not what the report does."""

    is_stale: bool = False
    """Whether the audit is of other rows than the run has now, so that its rates are left out."""


def read_audit(run: Run, by: str, private: str, kind: Kind) -> tuple[Audited, tuple[CorrectedRate, ...]]:
    """Read the audit of a run, and the corrected rates that fit a report. RunError in one line if it is damaged.

    by, private: as in the report; rates of another condition or of other groups are left out. kind: how the images were
    chosen. A run with as many images of each category describes no whole without the sizes of categories.
    """
    stored = read_stored(run.root)
    if stored is None:
        return Audited(), ()
    table, state = stored
    if not run.has_rows_of(state):
        return Audited(is_stale=True), ()
    rows = table.select([field_.name for field_ in fields(CorrectedRate)]).to_pylist()
    rates = (
        CorrectedRate(**row)
        for row in rows
        if row["corrected_rate"] is not None or (row["num_labels"] and row["note"] != ONLY_PRESENT)
    )
    is_pooled = kind == "per category" and not state.category_sizes
    fitting = tuple(
        rate
        for rate in rates
        if (rate.subject != PRIVATE or state.private == private)
        and (not is_pooled if rate.category is None else by == "category")
    )
    return Audited(state.gaps, state.category_sizes, None if state.private == private else state.private), fitting


@dataclass(frozen=True)
class Report:
    """A run in figures. Names that come from a corpus are made printable."""

    run: str
    source: str

    scope: str
    """Which images of the source the run is of."""

    cautions: tuple[str, ...]
    """Why figures do not describe the whole source, or any picture at all; one line each."""

    made_up: str | None
    """The one of them that says that the answers are not of the pictures."""

    assessed: tuple[str, ...]
    """Keys that the engine can judge."""

    models: Mapping[str, str]
    """Model, adapter or file of weights -> its SHA-256. A name of the hub ends in the commit."""

    making: Mapping[str, str]
    """How the run and the report were made, in the order in which a reader asks."""

    by: str
    """As the user wrote it; so is `private`."""

    private: str

    top: int
    """How many of the highest and of the lowest groups to show where space is short."""

    design: RunDesign
    coverage: Coverage
    total: Rate

    overall: Figure
    """The share of private images as the engine answers."""

    rates: tuple[Rate, ...]
    """Groups with a scored image, the highest lower end of the interval first."""

    num_groups: int
    """All groups, also those without a scored image."""

    scores: Scores | None
    """None if the model gives no score of its own."""

    prevalence: tuple[Prevalence, ...]
    """Of every attribute of the taxonomy."""

    laws: tuple[LawCount, ...]
    left_out: LeftOut
    severest: tuple[SevereImage, ...]
    evidence: tuple[EvidenceCount, ...]
    """Evidence of the highest groups."""

    corrected: tuple[CorrectedRate, ...]
    """Rates that labels of people have corrected; empty if there are none."""

    audited: Audited = field(default_factory=Audited)
    severest_note: str | None = None
    """How many of the most severe images an operator's hash list leaves out; None if none."""

    @property
    def by_label(self) -> str:
        """Return what a group is called in headings."""
        return shortened(printable(self.by), 40)

    @property
    def num_images(self) -> int:
        """Return the number of images of the run, those without a score included."""
        return self.total.num_images

    @property
    def is_whole(self) -> bool:
        """Return whether it is known that these are all images of the source."""
        return self.scope == WHOLE

    @property
    def not_assessed(self) -> tuple[str, ...]:
        """Return the attributes of the taxonomy that the engine does not judge."""
        return tuple(key for key in KEYS if key not in self.assessed)

    @property
    def judged(self) -> tuple[Prevalence, ...]:
        """Return the attributes that the engine was asked for, or has found."""
        return tuple(row for row in self.prevalence if row.attribute in self.assessed or row.share is not None)

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

    def corrected_of(self, subject: str, category: str | None = None) -> CorrectedRate | None:
        """Return the corrected rate of a subject in the whole run or in a category; None without labels of it."""
        rows = (row for row in self.corrected if (row.subject, row.category) == (subject, category))
        return next(rows, None)

    @property
    def corrected_groups(self) -> tuple[CorrectedRate, ...]:
        """Return the corrected privacy rates of groups, highest lower end first."""
        groups = (row for row in self.corrected if row.subject == PRIVATE and row.category is not None)
        return tuple(sorted(groups, key=lambda row: (-(row.low or 0), -(row.corrected_rate or 0), str(row.category))))


_RATE = tuple(field_.name for field_ in fields(Rate) if field_.name != "nums_by_level")

CORRECTED = {
    "corrected_rate": "corrected_rate",
    "corrected_low": "low",
    "corrected_high": "high",
    "corrected_method": "method",
    "corrected_num_labels": "num_labels",
    "corrected_note": "note",
}
"""Column -> field of `CorrectedRate`. Raw rates and their intervals are `privacy_rate`, `rate_low` and `rate_high`."""

HEADS = (*_RATE, *CORRECTED, *LEVEL_COUNTS.values())


def group_rows(report: Report, most: int | None = None) -> Iterator[list[object]]:
    """Yield one row per group with the columns `HEADS`, in the order of the report. most: None for all."""
    corrected = {row.category: row for row in report.corrected_groups}
    for rate in report.rates[:most]:
        of_labels = [getattr(corrected.get(rate.group), name, None) for name in CORRECTED.values()]
        yield [*(getattr(rate, name) for name in _RATE), *of_labels, *rate.nums_by_level]
