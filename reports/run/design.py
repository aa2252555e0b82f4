"""How the images of a run were chosen from its source, and what they can say about the source."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from ingest.errors import number_of
from reports.run import drawn_shards
from reports.run.figures import Figure, Rate
from reports.statistics.shares import CONFIDENCE, SMALL_GROUP, clopper_pearson, post_stratified, sampled, standings
from scoring.runs.coverage import Coverage
from scoring.runs.record import RunRecord
from scoring.runs.rows import NO_DAMAGE, Damage, scope_of

Kind = Literal["whole", "random", "shards", "per category", "first", "unfinished", "damaged"]

SAMPLES: tuple[Kind, ...] = ("random", "shards", "per category")
"""Kinds whose figures are estimates for the source."""


@dataclass(frozen=True)
class SourceSizes:
    """What the user knows of the source; a run does not record it."""

    num_images: int | None = None
    by_category: Mapping[str, int] = field(default_factory=dict)
    """Images of each category; empty if that is not known."""


@dataclass(frozen=True)
class RunDesign:
    """How the images were chosen."""

    kind: Kind
    scope: str
    """Says to people which part of the source this is."""

    num_in_source: int | None = None
    """Images of the source; None if that is not known."""

    is_certain: bool = True
    """False if the source cannot be listed now, so that it may hold more than the run."""

    is_damaged: bool = False
    """Whether shards are damaged, so that figures are of the images that could be read."""

    @property
    def is_random(self) -> bool:
        return self.kind in SAMPLES

    @property
    def is_exhaustive(self) -> bool:
        """Return whether every image that can be read was scanned."""
        return self.kind in ("whole", "damaged")

    @property
    def has_claim(self) -> bool:
        """Return whether intervals and ranks say something beyond the images that were scanned."""
        return self.is_exhaustive or self.is_random


def design_of(record: RunRecord, coverage: Coverage, sizes: SourceSizes, damage: Damage = NO_DAMAGE) -> RunDesign:
    """Return how the images of a run were chosen."""
    kind, known = _kind(record, coverage), sizes.num_images or (sum(sizes.by_category.values()) or None)
    if kind == "whole":
        known = coverage.num_rows if coverage.is_complete else None
    elif kind == "shards":
        known = None
    is_damaged = damage.num_parts > 0
    scope = scope_of(record, coverage.has_all, damage)
    if not coverage.is_complete:
        scope = f"those scanned so far of: {scope}" if coverage.is_complete is False else f"perhaps not all of: {scope}"
    return RunDesign(
        "damaged" if kind == "whole" and is_damaged else kind,
        scope,
        None if kind == "whole" and is_damaged else known,
        kind != "whole" or bool(coverage.is_complete),
        is_damaged,
    )


def _kind(record: RunRecord, coverage: Coverage) -> Kind:
    if record.sample is None and (record.limit is None or coverage.has_all):
        return "unfinished" if coverage.is_complete is False else "whole"
    if record.limit is not None:
        return "first"
    if not coverage.is_complete:
        return "unfinished"
    if record.per_category:
        return "per category"
    return "random" if record.shard_draw is None else "shards"


def in_source(rates: tuple[Rate, ...], design: RunDesign, sizes: SourceSizes, num_images: int) -> tuple[Rate, ...]:
    """Return the rates with their intervals for the source and their ranks, highest lower end first.

    num_images: of the run.
    """
    fractions = {rate.group: fraction_of(rate, design, sizes, num_images) for rate in rates if rate.num_judged}
    ends = {rate.group: _interval(rate, design, fractions.get(rate.group, 0.0)) for rate in rates}

    def order(rate: Rate) -> tuple[bool, float, float, str]:
        low = ends[rate.group][0] if design.is_random else rate.rate_low
        return low is None, -(low or 0.0), -(rate.privacy_rate or 0.0), rate.group

    ordered = sorted(rates, key=order)
    judged = [rate for rate in ordered if rate.num_judged]
    ranks = dict[str, tuple[int, int]]()
    if design.has_claim and len(judged) > 1:
        counted = [
            (rate.num_private, rate.num_judged, _for_ranks(rate, fractions[rate.group], design, len(judged)))
            for rate in judged
        ]
        ranks = dict(zip([rate.group for rate in judged], standings(counted), strict=True))
    placed = []
    for rank, rate in enumerate(ordered, 1):
        low, high = ends[rate.group]
        rank_low, rank_high = ranks.get(rate.group, (None, None))
        placed.append(
            replace(
                rate,
                source_low=low,
                source_high=high,
                is_small=rate.num_judged < SMALL_GROUP,
                rank=rank if rank_low else None,
                rank_low=rank_low,
                rank_high=rank_high,
            )
        )
    return tuple(placed)


def overall(total: Rate, rates: tuple[Rate, ...], by: str, design: RunDesign, sizes: SourceSizes) -> Figure:
    """Return the rate over all images, as the engine answers.

    rates: all groups by `by`; they are the strata of a sample of each category.
    """
    figure = _overall(total, rates, by, design, sizes)
    if not total.is_never_denied:
        return figure
    caveat = "; ".join(filter(None, ("at least, since the engine rules it out in none", figure.caveat)))
    rate = None if figure.rate is None else total.share_found
    population = figure.population.replace("judged images", "scored images")
    return replace(figure, rate=rate, low=None, high=None, population=population, caveat=caveat)


def _overall(total: Rate, rates: tuple[Rate, ...], by: str, design: RunDesign, sizes: SourceSizes) -> Figure:
    figure = Figure(None, None, None, _population(total, design), counts_of(total), is_of_source=design.is_random)
    rate = total.privacy_rate
    if total.num_screened:
        return _with_screened(total, design, figure)
    if rate is None:
        return replace(figure, caveat="no image was judged, so there is no rate")
    if design.kind == "whole":
        caveat = "" if design.is_certain else "whether these are all images of the source is not known now"
        return replace(figure, rate=rate, low=rate, high=rate, caveat=caveat)
    if design.kind == "random":
        fraction = total.num_images / design.num_in_source if design.num_in_source else 0.0
        low, high = sampled(total.num_private, total.num_judged, fraction)
        return replace(figure, rate=rate, low=low, high=high, basis=f"a random sample, {figure.basis}")
    if design.kind == "shards":
        none = "" if total.rate_low is not None else "no interval, since a single shard was drawn"
        basis = f"images of {number_of(total.num_shards or 0, 'random shard')}, {figure.basis}"
        return replace(figure, rate=rate, low=total.rate_low, high=total.rate_high, basis=basis, caveat=none)
    if design.kind == "per category":
        return _weighted(rates, by, sizes, figure)
    return replace(figure, caveat=_rest(design))


def _rest(design: RunDesign) -> str:
    if design.kind == "damaged":
        return "an unknown number of images could not be read, so the rest of the source can differ"
    return "the rest of the source can differ"


def counts_of(total: Rate) -> str:
    if total.is_never_denied:
        return f"{total.num_private:,} of {total.num_scored:,} scored images"
    return f"{total.num_private:,} of {total.num_judged:,} images that could be judged"


def _population(total: Rate, design: RunDesign) -> str:
    """Say which images the rate is of; images that are left out are in no rate."""
    if total.num_screened:
        return "images that were judged or screened out" if total.num_guarded else "judged images"
    kind = "judged images" if total.num_unknown else "scored images" if total.num_quarantined else ""
    if design.kind in ("first", "unfinished") or not design.is_certain:
        return kind or "scanned images"
    return f"{kind or 'images'} in the source{' that could be read' if design.is_damaged else ''}"


def _with_screened(total: Rate, design: RunDesign, figure: Figure) -> Figure:
    """Return the rate over all images of a run with a screen.

    The private share of the images that the screen left out is taken from the guarded ones.
    """
    if not total.num_guarded:
        why = f"a screen left out {total.num_screened:,} more, none of which the engine has seen"
        return replace(figure, caveat=f"{why}, so there is no rate over all")

    def over_all(share: float) -> float:
        return (total.num_private + share * total.num_screened) / (total.num_judged + total.num_screened)

    basis = (
        f"{figure.basis}; the share of the {total.num_screened:,} that a screen left out is estimated by "
        f"{number_of(total.num_guarded, 'guarded image')}, {total.num_missed:,} of them found private"
    )
    if design.kind == "per category":
        return replace(figure, caveat="that is no rate of the whole source")
    of_source = design.kind == "whole" or design.is_random
    rate = over_all(total.num_missed / total.num_guarded)
    figure = replace(figure, rate=rate, basis=basis, is_of_source=of_source)
    if design.kind != "whole":
        why = "the images are a sample" if design.is_random else _rest(design)
        return replace(figure, caveat=f"no interval, since {why}")
    low, high = (over_all(float(end)) for end in clopper_pearson(total.num_missed, total.num_guarded))
    return replace(figure, low=low, high=high)


def _weighted(rates: tuple[Rate, ...], by: str, sizes: SourceSizes, figure: Figure) -> Figure:
    def none(why: str) -> Figure:
        caveat = f"that is no rate of the whole source, since each category has the same weight in this sample{why}"
        return replace(figure, caveat=f"{caveat} (--category-sizes)")

    if not sizes.by_category:
        return none("")
    by_group = {rate.group: rate for rate in rates}
    missing = [name for name in sizes.by_category if name not in by_group or not by_group[name].num_judged]
    unnamed = sorted(by_group.keys() - sizes.by_category.keys())
    if unnamed:
        return none(f"; {len(unnamed):,} of its categories have no size there, such as {unnamed[0]:.60}")
    drawn = {name: by_group[name].num_images for name in sizes.by_category if name in by_group}
    larger = next((name for name, num in drawn.items() if num > sizes.by_category[name]), None)
    if larger is not None:
        return none(
            f"; of {larger:.60} the run has {drawn[larger]:,} images, and {sizes.by_category[larger]:,} are given"
        )
    if missing:
        have = "has" if len(missing) == 1 else "have"
        return none(f"; {len(missing):,} of its categories {have} no judged image")
    if by != "category":
        return none("; group by category for it")
    counts = [(size, by_group[name]) for name, size in sizes.by_category.items()]
    rows = [(size, rate.num_images, rate.num_judged, rate.num_private) for size, rate in counts]
    weighted = post_stratified(*np.array(rows, dtype=np.float64).T)
    assert weighted is not None
    rate, low, high = weighted
    basis = f"weighted with the sizes of {len(counts):,} categories, {figure.basis}"
    return replace(figure, rate=rate, low=low, high=high, basis=basis)


def fraction_of(rate: Rate, design: RunDesign, sizes: SourceSizes, num_images: int) -> float:
    """Return the drawn share of the group in the source; 0 if it is unknown (`drawn_shards.fraction_of`)."""
    if design.kind == "shards":
        return drawn_shards.fraction_of(rate.num_judged, rate.effective_size, rate.degrees)
    if design.kind == "per category":
        size = sizes.by_category.get(rate.group)
        return min(1.0, rate.num_images / size) if size else 0.0
    if design.kind == "random" and design.num_in_source:
        return min(1.0, num_images / design.num_in_source)
    return 0.0


def _for_ranks(rate: Rate, fraction: float, design: RunDesign, num_groups: int) -> float:
    """Return the drawn share to use for ranks.

    A whole source counts as a draw from many more such images: otherwise any two counts would differ.
    """
    if design.kind == "shards":  # the factor of the t distribution depends on the confidence
        confidence = CONFIDENCE ** (1 / num_groups)
        return drawn_shards.fraction_of(rate.num_judged, rate.effective_size, rate.degrees, confidence)
    return 0.0 if design.is_exhaustive else fraction


def _interval(rate: Rate, design: RunDesign, fraction: float) -> tuple[float | None, float | None]:
    if not rate.num_judged:
        return None, None
    if design.kind == "whole":
        return rate.privacy_rate, rate.privacy_rate
    if design.kind == "shards":
        return rate.rate_low, rate.rate_high
    return sampled(rate.num_private, rate.num_judged, fraction) if design.is_random else (None, None)
