"""The population of a corrected rate: the scored images, or the source that the run is a sample of.

Labels correct the rate of the scored images. If these are a random sample, their rate differs by chance from that of
the source, and an interval for the source has both errors; the source counts as large. If the run has the same number
of images of each category, its pooled rate describes no real population. Then each image is weighted by the size of its
category in the source, divided by that in the run (two-phase sampling for stratification). If shards were drawn, the
interval is the wider of two: one takes the truth to be as alike in a shard as the answers of the run, if these differ;
the other is the jackknife of the corrected figure itself over shards (ultimate clusters), for which labels can be few.

Sources: Särndal, Swensson and Wretman, "Model Assisted Survey Sampling", 1992, chapter 9; Korn and Graubard, "Analysis
of Health Surveys", 1999, section 2.5; `reports.run.drawn_shards` for the jackknife.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ingest.errors import QueryError
from reports.run.drawn_shards import size_of_ratio
from reports.run.warehouse import Run
from reports.statistics.estimates import IS_YES, Estimate, Evidence, Flags, Labels, Numbers, Rates
from reports.statistics.shares import CONFIDENCE, post_stratified, sampled, wilson, with_both_errors, z_of
from scoring.runs.record import ShardDraw


def of_source(estimate: Estimate, num_images: float, fraction: float = 0.0) -> Estimate:
    """Return a share of the images of a random sample as a share of its source.

    num_images: images of the sample that it is a share of. fraction: as in `shares.sampled`. 0 if unknown, which never
    makes the interval too narrow; minus infinity if a single shard was drawn, which gives no interval.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if low is None or high is None or num_images <= 0:
        return estimate
    if value is None:  # bounds of the sample say nothing certain of its source
        return Estimate()
    if fraction == -math.inf:
        return Estimate(value)
    by_draw = sampled(value * num_images, num_images, fraction)
    return Estimate(value, *with_both_errors(value, (low, high), by_draw))


def rates_of_source(rates: Rates, num_images: float) -> Rates:
    """Return rates of the images of a random sample as those of its source. num_images: of the sample."""
    positive = (rates.prevalence.value or 0.0) * num_images
    return replace(
        rates,
        prevalence=of_source(rates.prevalence, num_images),
        sensitivity=of_source(rates.sensitivity, positive),
        specificity=of_source(rates.specificity, num_images - positive),
    )


@dataclass(frozen=True)
class DrawnShards:
    """The m shards that were drawn."""

    draw: ShardDraw
    names: tuple[str, ...]

    of_answers: Mapping[str, Numbers]
    """Subject -> images of each shard by answer and cell, shape (m, 4, NUM_CELLS)."""

    def of_source(self, subject: str, known: Evidence, labels: Labels, shards: Sequence[str], rates: Rates) -> Rates:
        """Return the rates of the drawn shards as those of the source. shards: of each labelled picture."""
        of_shard = {name: number for number, name in enumerate(self.names)}
        places, counts = np.array([of_shard[name] for name in shards]), self.of_answers[subject].sum(axis=1)
        residuals = labels.masses / labels.probabilities * (labels.is_there - known.rates[labels.cells])

        def corrected(chosen: Flags) -> Numbers:
            errors = np.bincount(places, residuals * chosen[labels.cells], len(self.names))
            return np.asarray(counts[:, chosen] @ known.rates[chosen] + errors, dtype=np.float64)

        yes, no, num = corrected(IS_YES), corrected(~IS_YES), counts.sum(axis=1)
        answers = counts[:, IS_YES].sum(axis=1)
        of_answers = size_of_ratio(self.draw, answers, num)
        says_something = 0 < answers.sum() < num.sum()

        def of_ratio(rate: Estimate, top: Numbers, bottom: Numbers) -> Estimate:
            if rate.value is None or rate.low is None or rate.high is None or not bottom.sum():
                return Estimate()
            if of_answers is None:
                return Estimate(rate.value)
            deviation = (rate.high - rate.low) / (2 * z_of(CONFIDENCE))
            size = size_of_ratio(self.draw, top, bottom, deviation**2) or 1.0
            low, high = wilson(rate.value * size, size)
            if says_something:
                other = of_source(rate, float(bottom.sum()), 1 - float(num.sum()) / of_answers)
                low, high = min(low, other.low or 0.0), max(high, other.high or 0.0)
            return Estimate(rate.value, low, high)

        return Rates(
            of_ratio(rates.prevalence, yes + no, num),
            of_ratio(rates.sensitivity, yes, yes + no),
            of_ratio(rates.specificity, num - answers - no, num - yes - no),
        )


@dataclass(frozen=True)
class CategoryWeights:
    """The weight of an image of each of K categories."""

    names: tuple[str, ...]

    sizes: Numbers
    """Images of the source, shape (K,)."""

    num_images: Numbers
    """Images of the run, quarantined ones included, shape (K,)."""

    @property
    def weights(self) -> Numbers:
        """Return the weights, shape (K,); their mean over the images of the run is 1."""
        return np.asarray(self.sizes / self.num_images * self.num_images.sum() / self.sizes.sum(), dtype=np.float64)

    def of(self, names: Sequence[str]) -> Numbers:
        """Return the weight of an image of each of these categories."""
        by_name = dict(zip(self.names, self.weights.tolist(), strict=True))
        return np.array([by_name[name] for name in names], dtype=np.float64)

    def with_error_of_draw(
        self, estimate: Estimate, names: Sequence[str], rates: Numbers, num_scored: Numbers
    ) -> Estimate:
        """Add the error of the run's draw to an estimate. names: categories with a scored image. rates: the corrected
        rate of each. num_scored: its images with a score."""
        value, low, high = estimate.value, estimate.low, estimate.high
        if value is None or low is None or high is None:
            return estimate
        places = [self.names.index(name) for name in names]
        by_draw = post_stratified(self.sizes[places], self.num_images[places], num_scored, rates * num_scored)
        assert by_draw is not None  # each stratum has a scored image
        weighted, draw_low, draw_high = by_draw
        ends = (value - (weighted - draw_low), value + (draw_high - weighted))
        return Estimate(value, *with_both_errors(value, (low, high), ends))


def category_weights(run: Run, sizes: Mapping[str, int]) -> CategoryWeights:
    """Return the weight of an image of each category.

    sizes: images of each category in the source. QueryError in one line if the categories are not those of the run, or
    if the run has more images of one.
    """
    drawn = {row["category"]: int(row["num_images"]) for row in run.ask("category_counts")}
    wrong = "--category-sizes: {}; give the images of each category of the run in the source"
    unlike = ((drawn.keys() - sizes.keys(), "size there"), (sizes.keys() - drawn.keys(), "image in the run"))
    for others, lacks in unlike:
        if others:
            has = "category has" if len(others) == 1 else "categories have"
            raise QueryError(wrong.format(f'{len(others):,} {has} (such as "{min(others):.60}") no {lacks}'))
    for name in sorted(name for name, num in drawn.items() if num > sizes[name]):
        number = f'of "{name:.60}" the run has {drawn[name]:,} images, and {sizes[name]:,} are given'
        raise QueryError(wrong.format(number))
    names = tuple(sorted(drawn))
    in_source, in_run = (np.array([numbers[name] for name in names], dtype=np.float64) for numbers in (sizes, drawn))
    return CategoryWeights(names, in_source, in_run)
