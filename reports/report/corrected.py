"""Reads the rates corrected by labels of people, if `audit apply` has stored some in the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from ingest.sample import printable
from reports.audit.population import Fractions, drawn_fractions, of_source
from reports.audit.results import CONTRADICTED
from reports.run.design import RunDesign
from reports.run.figures import CorrectedRate, Rate
from reports.run.warehouse import Run
from reports.statistics.estimates import Estimate
from scoring.runs.audit_files import PRIVATE, LabelGaps, read_stored


@dataclass(frozen=True)
class Corrected:
    """Results that an audit has stored in the run."""

    rates: tuple[CorrectedRate, ...] = ()
    """Rates of the report's condition and groups only; empty if there are none."""

    gaps: LabelGaps = field(default_factory=LabelGaps)
    """What the labels leave open."""

    category_sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of categories by which the rates of the whole run are weighted; empty if they are not."""

    other_condition: str | None = None
    """What the audit took as private, if that is not what the report does."""

    fractions: Fractions = field(default_factory=dict)
    """Sampled fractions of a sample of shards."""

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
            _without_contradicted(rate)
            for rate in rates
            if (rate.subject != PRIVATE or state.private == private) and (rate.category is None or by == "category")
        ),
        gaps=state.gaps,
        category_sizes=state.category_sizes,
        other_condition=None if state.private == private else state.private,
        fractions=drawn_fractions(run, state.private),
    )


def _without_contradicted(rate: CorrectedRate) -> CorrectedRate:
    """Hide a rate whose assumption the labels contradict, so that it is shown as unknown."""
    if rate.note != CONTRADICTED:
        return rate
    return replace(rate, corrected_rate=None, low=None, high=None)


def of_reported_images(
    corrected: Corrected,
    design: RunDesign,
    rates: tuple[Rate, ...],
    num_scored: int,
    fraction: float,
    fractions: Mapping[str, float],
) -> tuple[CorrectedRate, ...]:
    """Return the rates of the images that the report is of: those of the source, if the run is a sample of it.

    If the run has the same number of images of each category, rates of the whole run are left out unless they are
    weighted.
    rates: of the groups. fraction, fractions: the drawn part of the source, and of each group of it; 0 if unknown.
    """
    if not design.is_random:
        return corrected.rates
    scored = {rate.group: rate.num_scored for rate in rates}
    is_pooled = design.kind == "per category" and not corrected.category_sizes
    reported = []
    for row in corrected.rates:
        if design.kind == "shards":
            num_images = num_scored if row.category is None else scored.get(printable(row.category), 0)
            reported.append(_of_source(row, num_images, corrected.fractions.get((row.subject, row.category), 0.0)))
        elif row.category is not None:
            group = printable(row.category)
            reported.append(_of_source(row, scored.get(group, 0), fractions.get(group, 0.0)))
        elif design.kind == "random":
            reported.append(_of_source(row, num_scored, fraction))
        elif not is_pooled:
            reported.append(row)
    return tuple(reported)


def _of_source(row: CorrectedRate, num_images: int, fraction: float) -> CorrectedRate:
    rate = of_source(Estimate(row.corrected_rate, row.low, row.high), num_images, fraction)
    share = row.corrected_rate or 0.0
    estimate = of_source(
        Estimate(row.sensitivity, row.sensitivity_low, row.sensitivity_high), share * num_images, fraction
    )
    right = of_source(
        Estimate(row.specificity, row.specificity_low, row.specificity_high), (1 - share) * num_images, fraction
    )
    return replace(
        row,
        low=rate.low,
        high=rate.high,
        sensitivity_low=estimate.low,
        sensitivity_high=estimate.high,
        specificity_low=right.low,
        specificity_high=right.high,
    )
