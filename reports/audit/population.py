"""The population of a corrected rate: the scored images, or the source that the run is a sample of.

Labels correct the rate of the scored images. If these are a random sample, their rate differs by chance from that of
the source, and an interval for the source has both errors. If the run has the same number of images of each category,
its pooled rate describes no real population. Then each image is weighted by the size of its category in the source,
divided by that in the run (two-phase sampling for stratification).

If the run is of random shards, the truth is assumed to be as alike within a shard as the answers of the run: an audit
has too few labels to measure it shard by shard.

Source: Särndal, Swensson and Wretman, "Model Assisted Survey Sampling", 1992, chapter 9.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ingest.errors import QueryError
from reports.audit.cells import audit_sql
from reports.audit.results import SCORED_OF_SOURCE, Audit, SubjectRates
from reports.run.design import SAMPLES, Kind
from reports.run.drawn_shards import degrees_sql, effective_size_sql, fraction_of, residual_sql
from reports.run.warehouse import Run
from reports.statistics.estimates import Estimate, Numbers
from reports.statistics.shares import Stratum, post_stratified, sampled, with_both_errors
from reports.words import NO_GROUP
from scoring.runs.audit_files import SUBJECTS

Fractions = Mapping[tuple[str, str | None], float]
"""Subject and category, None for the whole run -> the number that represents the drawn share of the source
(`reports.run.drawn_shards.fraction_of`)."""


def audit_of_source(audit: Audit, kind: Kind, fractions: Fractions) -> Audit:
    """Return the rates of the scored images as rates of the source, if the run is a random sample of it.

    kind: of the run. fractions: of a sample of shards.
    The size of the source is not known here, so the intervals are those for a large one.
    """
    if kind not in SAMPLES:
        return audit
    is_pooled = kind == "per category"
    return replace(
        audit,
        population=audit.population if is_pooled else SCORED_OF_SOURCE,
        subjects=audit.subjects
        if is_pooled
        else tuple(_subject_of_source(subject, audit, fractions) for subject in audit.subjects),
        categories=tuple(
            replace(
                category,
                corrected=of_source(
                    category.corrected, category.num_scored, fractions.get((category.subject, category.category), 0.0)
                ),
            )
            for category in audit.categories
        ),
    )


def _subject_of_source(rates: SubjectRates, audit: Audit, fractions: Fractions) -> SubjectRates:
    num_scored, share = audit.num_scored, rates.corrected.value or 0.0
    fraction = fractions.get((rates.subject, None), 0.0)
    corrected = of_source(rates.corrected, num_scored, fraction)
    return replace(
        rates,
        corrected=corrected,
        with_quarantined=rates.with_quarantined and with_unscored(corrected, num_scored, audit.num_images),
        sensitivity=of_source(rates.sensitivity, share * num_scored, fraction),
        specificity=of_source(rates.specificity, (1 - share) * num_scored, fraction),
    )


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


def with_unscored(corrected: Estimate, num_scored: float, num_images: float) -> tuple[float, float] | None:
    """Return the interval of the rate with images that have no score: low if none of them is positive, high if all are.

    None if `corrected` has no interval.
    """
    if corrected.low is None or corrected.high is None or not num_images:
        return None
    num_unscored = num_images - num_scored
    return corrected.low * num_scored / num_images, (corrected.high * num_scored + num_unscored) / num_images


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

    def with_error_of_draw(self, estimate: Estimate, rates: Numbers, num_scored: Numbers) -> Estimate:
        """Add the error of the run's draw to an estimate.

        rates: corrected rate of each category, shape (K,). num_scored: images of the run with a score, shape (K,).
        """
        value, low, high = estimate.value, estimate.low, estimate.high
        if value is None or low is None or high is None:
            return estimate
        columns = (self.sizes, self.num_images, num_scored, rates)
        strata = [
            Stratum(int(size), int(num), int(scored), rate * scored)
            for size, num, scored, rate in zip(*(column.tolist() for column in columns), strict=True)
            if scored
        ]
        by_draw = post_stratified(strata)
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
    if unnamed := sorted(drawn.keys() - sizes.keys()):
        raise _wrong_sizes(f"{_categories(unnamed)} no size there")
    if missing := sorted(sizes.keys() - drawn.keys()):
        raise _wrong_sizes(f"{_categories(missing)} no image in the run")
    if larger := sorted(name for name, num in drawn.items() if num > sizes[name]):
        name = larger[0]
        raise _wrong_sizes(f'of "{name:.60}" the run has {drawn[name]:,} images, and {sizes[name]:,} are given')
    names = tuple(sorted(drawn))
    in_source, in_run = (np.array([of[name] for name in names], dtype=np.float64) for of in (sizes, drawn))
    return CategoryWeights(names, in_source, in_run)


def _categories(names: Sequence[str]) -> str:
    has = "category has" if len(names) == 1 else "categories have"
    return f'{len(names):,} {has} (such as "{names[0]:.60}")'


def _wrong_sizes(why: str) -> QueryError:
    return QueryError(f"--category-sizes: {why}; give the images of each category of the run in the source")


def drawn_fractions(run: Run, private: str) -> Fractions:
    """Return the drawn share of the source for each subject and category; empty if no shards were drawn.

    private: SQL condition of the audit.
    """
    draw = run.record.shard_draw
    if draw is None:
        return {}
    sql = audit_sql(run, private)

    def of_subjects(columns: str) -> str:
        """Return the SQL of these columns for each subject."""
        return ", ".join(columns.format(subject=subject, answer=sql.answers[subject]) for subject in SUBJECTS)

    sizes, degrees = effective_size_sql(draw, "_{subject}"), degrees_sql("_{subject}")
    rows = run.ask(
        "audit_shards",
        category=f"coalesce(category, '{NO_GROUP}')",
        scored=sql.scored,
        counts=of_subjects("count(*) FILTER ({answer} = 1) AS yes_{subject}"),
        again=of_subjects("sum(yes_{subject}) AS yes_{subject}"),
        totals=of_subjects("sum(yes_{subject}) OVER of_group AS all_{subject}"),
        residuals=of_subjects(residual_sql("yes_{subject}", "n", "all_{subject}", "n_all") + " AS e_{subject}"),
        sums=of_subjects(
            "sum(yes_{subject})::DOUBLE AS k_{subject}, sum(pow(e_{subject}, 2)) AS squares_{subject}, "
            "sum(pow(e_{subject}, 4)) AS fourths_{subject}"
        ),
        sizes=of_subjects(f"{sizes} AS size_{{subject}}, {degrees} AS degrees_{{subject}}"),
    )
    return {
        (subject, None if row["is_whole"] else row["category"]): fraction_of(
            row["n"], row[f"size_{subject}"], row[f"degrees_{subject}"]
        )
        for row in rows
        for subject in SUBJECTS
    }
