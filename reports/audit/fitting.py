"""How an audit corrects one subject: the truth by its labels, their weights, and the estimates for the run and for
categories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError
from reports.audit.cells import CellCounts, RawCounts
from reports.audit.population import CategoryWeights, DrawnShards, of_source
from reports.audit.results import LabelCounts
from reports.labels.agreed import agreed, in_words, num_undecided_of
from reports.labels.joining import join
from reports.run.design import SAMPLES, Kind
from reports.statistics.agreement import NONE, SecondLooks, allowing_for, allowing_for_part, second_looks
from reports.statistics.category_rates import CategoryEstimate, LabelsOfCategories, category_estimates
from reports.statistics.estimates import (
    Counts,
    Estimate,
    Evidence,
    Flags,
    Numbers,
    evidence,
    masses_of,
    prevalence,
    sensitivity,
    specificity,
)
from reports.words import NO_GROUP
from scoring.labels.picture_index import are_named, hashes_by_name
from scoring.labels.table import JudgedLabels, attribute_values
from scoring.privacy import private_of_labels
from scoring.runs.audit_files import PRIVATE, SUBJECTS, AuditSample
from scoring.table import Col, numbers_of
from scoring.taxonomy import KEYS


@dataclass(frozen=True)
class LabelledSample:
    places: Counts
    """Their rows in the table that was joined, ascending. Shape (m,)."""

    truth: dict[str, Numbers]
    """Subject -> 1, 0 or NaN (not labelled), shape (m,). An attribute's 0.5 is 0."""

    num_ambiguous: dict[str, int]
    """Subject -> labels of 0.5."""

    undecided: dict[str, Flags]
    """Subject -> whether people differ on it, cannot say, or skipped it, shape (m,); then the truth is NaN."""

    num_yes: dict[str, Counts]
    num_no: dict[str, Counts]
    """Subject -> people who say yes, and who say no, shape (m,)."""
    counts: LabelCounts

    @property
    def undecided_in_words(self) -> str:
        """Return the number of undecided pictures of each subject that has any; empty if none has."""
        return in_words(num_undecided_of(np.stack(list(self.undecided.values()), axis=1)))


def labelled(sample: pa.Table, judged: JudgedLabels, private: str) -> LabelledSample:
    """Join labels with drawn pictures, and return the truth about each subject.

    sample: rows with `shard`, `name`, `sha256`, in the order in which people are asked. judged: labels of one or
    several people. private: SQL condition of what the run calls private. LabelsError if no label is of these pictures.
    """
    # The names are those that no other image of the run has.
    rows = sample.select(["shard", "name", "sha256"]).rename_columns(["shard", "key", "sha256"])
    labels = _with_hashes(rows, judged.labels)
    skipped = judged.is_skipped | _passed_over(rows, labels)
    answers = agreed(replace(judged, labels=labels, is_skipped=skipped), private)
    labels = answers.labels
    hashes, keys = (labels[name].combine_chunks().drop_null() for name in ("sha256", "key"))
    if not pc.any(are_named(rows, hashes, keys)).as_py():
        raise LabelsError(
            "no label is of a picture of the audit sample; label the pictures of the list that audit sample wrote"
        )
    joined = join(rows.append_column("place", pa.array(np.arange(rows.num_rows))), labels)
    of_attributes = attribute_values(joined.labels).astype(np.float64)
    undecided = dict(zip(SUBJECTS, answers.undecided[joined.label_places].T, strict=True))
    truth = {PRIVATE: private_of_labels(numbers_of(joined.labels, "private"), of_attributes, private)}
    ambiguous = {PRIVATE: 0}
    for index, key in enumerate(KEYS):
        values = of_attributes[:, index]
        truth[key] = np.where(values == 0.5, 0.0, values)
        ambiguous[key] = int(((values == 0.5) & ~undecided[key]).sum())
    truth = {subject: np.where(undecided[subject], np.nan, answer) for subject, answer in truth.items()}
    is_undecided: Flags = np.asarray(np.stack(list(undecided.values())).any(axis=0), dtype=np.bool_)
    has_answer: Flags = np.asarray(~np.isnan(np.stack(list(truth.values()))).all(axis=0), dtype=np.bool_)
    counts = LabelCounts(
        num_drawn=rows.num_rows,
        num_labelled=int(has_answer.sum()),
        num_undecided=int((~has_answer & is_undecided).sum()),
        num_empty=int((~has_answer & ~is_undecided).sum()),
        num_without_row=rows.num_rows - len(has_answer),
        num_rows=judged.labels.num_rows,
        num_outside=joined.counts.num_labels_without_row,
    )
    places = joined.rows["place"].to_numpy().astype(np.int64)
    num_yes, num_no = (
        dict(zip(SUBJECTS, votes[joined.label_places].T, strict=True)) for votes in (answers.num_yes, answers.num_no)
    )
    return LabelledSample(places, truth, ambiguous, undecided, num_yes, num_no, counts)


def _with_hashes(rows: pa.Table, labels: pa.Table) -> pa.Table:
    """Add the hash to labels that name a picture by its key alone, so that they count for its copies too."""
    shards, keys, row_hashes = (rows[name].to_pylist() for name in (Col.SHARD, Col.KEY, Col.SHA256))
    full = [None if key is None else f"{shard}/{key}" for shard, key in zip(shards, keys, strict=True)]
    by_name = hashes_by_name(zip([*keys, *full], [*row_hashes, *row_hashes], strict=True))
    given = zip(labels["sha256"].to_pylist(), labels["key"].to_pylist(), strict=True)
    hashes = [by_name.get(key) if sha256 is None else sha256 for sha256, key in given]
    index = labels.schema.get_field_index("sha256")
    return labels.set_column(index, labels.schema.field(index), pa.array(hashes, pa.string()))


def _passed_over(rows: pa.Table, labels: pa.Table) -> Flags:
    """Return which labels have no answer although a later picture has one, so that the person saw the picture. Shape
    (labels,)."""
    position = {sha256: number for number, sha256 in reversed(list(enumerate(rows[Col.SHA256].to_pylist()))) if sha256}
    positions = np.array([position.get(sha256, -1) for sha256 in labels["sha256"].to_pylist()], dtype=np.int64)
    is_blank: Flags = np.asarray(np.isnan(attribute_values(labels)).all(axis=1), dtype=np.bool_)
    is_blank &= labels["private"].is_null().to_numpy()
    last = positions[~is_blank].max(initial=-1)
    return np.asarray(is_blank & (positions >= 0) & (positions < last), dtype=np.bool_)


@dataclass(frozen=True)
class Basis:
    sample: AuditSample
    labels: LabelledSample
    counts: CellCounts
    raw: Mapping[str | None, Mapping[str, RawCounts]] = field(default_factory=dict)
    kind: Kind = "whole"
    """How the images of the run were chosen from its source."""

    of_source: CategoryWeights | None = None
    """How often images of each category count; None if all count once."""

    shards: DrawnShards | None = None
    """None unless shards were drawn."""

    @property
    def is_of_source(self) -> bool:
        """Return whether rates of the whole run are of its source."""
        return self.of_source is not None or self.kind in ("random", "shards")

    @cached_property
    def category_numbers(self) -> Counts:
        """Return the position of the category of each drawn picture in `counts.categories`, shape (drawn,); all 0
        without categories."""
        numbers = {name: number for number, name in enumerate(self.counts.categories)}
        names = self.sample.table["category"].to_pylist()
        return np.array([numbers.get(NO_GROUP if name is None else name, 0) for name in names], dtype=np.int64)

    @property
    def weights(self) -> Numbers:
        """Return the weight of an image of each category, shape (K,)."""
        if self.of_source is None:
            return np.ones(max(1, len(self.counts.categories)))
        return self.of_source.of(self.counts.categories)

    def masses(self, places: Counts) -> Numbers:
        """Return how many images of the population each of some drawn pictures itself counts as, shape (places,)."""
        cells = numbers_of(self.sample.table, f"cell_{PRIVATE}").astype(np.int64)[places]
        return self.weights[self.category_numbers[places]] * masses_of(self.counts.guard_mass)[cells]

    def num_images(self, subject: str) -> Numbers:
        """Return the number of images in each cell of the population of the rates, shape (NUM_CELLS,)."""
        if self.of_source is None:
            return self.counts.of_run[subject]
        return np.asarray(self.weights @ self.counts.of_categories[subject], dtype=np.float64)

    def num_scored_of_all(self) -> tuple[float, float]:
        """Return the number of scored or screened images, and of all images, of the population of the rates."""
        num_all = float(self.sample.design.num_rows)
        if self.of_source is not None:
            num_all = float(self.of_source.num_images @ self.of_source.weights)
        return float(self.num_images(PRIVATE).sum()), num_all

    def raw_rate(self, subject: str) -> float | None:
        """Return the rate of the run's own answers for the same images."""
        whole = self.raw[None][subject]
        if self.of_source is None:
            return whole.rate
        of_categories = [self.raw[name][subject] for name in self.counts.categories]
        sizes = [row.num_scored if whole.is_lower_bound else row.num_answered for row in of_categories]
        total = float(self.weights @ np.array(sizes))
        return float(self.weights @ np.array([row.num_yes for row in of_categories])) / total if total else None


@dataclass(frozen=True)
class Weighted(LabelsOfCategories):
    """Drawn pictures with a label of one subject. Their probabilities are those of being drawn and labelled."""

    places: Counts
    """Rows of the sample."""

    masses: Numbers
    """Number of images of the population that the picture itself counts as."""


def weighted(subject: str, basis: Basis, undecided: float | None = None) -> Weighted:
    """Return the labelled pictures of a subject with their weights.

    undecided: value that undecided pictures get, 0 or 1; None leaves them out.
    """
    labels, drawn = basis.labels, basis.sample.table
    truth = labels.truth[subject]
    if undecided is not None:
        truth = np.where(labels.undecided[subject], undecided, truth)
    known = ~np.isnan(truth)
    places = labels.places[known]
    # Assumes that chance decided which pictures of the sample were labelled.
    share_labelled = len(places) / drawn.num_rows
    return Weighted(
        places=places,
        cells=numbers_of(drawn, f"cell_{subject}").astype(np.int64)[places],
        is_there=truth[known],
        probabilities=numbers_of(drawn, "inclusion_probability")[places] * share_labelled,
        masses=basis.masses(places),
        categories=basis.category_numbers[places],
    )


@dataclass(frozen=True)
class Fit:
    prevalence: Estimate
    sensitivity: Estimate
    specificity: Estimate

    categories: tuple[CategoryEstimate | None, ...]
    """Estimates for the categories of `CellCounts.categories`; empty if they are not asked for."""


def fitted(subject: str, basis: Basis, with_categories: bool) -> Fit:
    """Estimate the rates of a subject, which must have a label.

    Undecided pictures are left out of the values. The intervals reach from the low end with none of them positive to
    the high end with all positive. Then they are widened for wrong labels.
    """
    fits = [_fit_with(None, subject, basis, with_categories)]
    if basis.labels.undecided[subject].any():
        fits += [_fit_with(value, subject, basis, with_categories) for value in (0.0, 1.0)]
    fit = Fit(
        _covering([one.prevalence for one in fits]),
        _covering([one.sensitivity for one in fits]),
        _covering([one.specificity for one in fits]),
        tuple(_covering_categories(of_category) for of_category in zip(*(one.categories for one in fits), strict=True)),
    )
    return _allowing_for_wrong_labels(subject, basis, fit)


def _fit_with(undecided: float | None, subject: str, basis: Basis, with_categories: bool) -> Fit:
    """Estimate the rates of a subject for one value of its undecided pictures. undecided: as in `weighted`."""
    labels = weighted(subject, basis, undecided)
    num_images, guard_mass = basis.num_images(subject), basis.counts.guard_mass
    known = evidence(num_images, labels.cells, labels.is_there, labels.probabilities, labels.masses, guard_mass)
    categories = category_estimates(known, basis.counts.of_categories[subject], labels) if with_categories else []
    fit = Fit(prevalence(known), sensitivity(known), specificity(known), tuple(categories))
    return _of_source(subject, basis, fit, known, labels)


def _covering(estimates: Sequence[Estimate]) -> Estimate:
    """Return the value of the first estimate, with an interval that covers the intervals of all."""
    ends = [
        (estimate.low, estimate.high)
        for estimate in estimates
        if estimate.low is not None and estimate.high is not None
    ]
    if not ends:
        return estimates[0]
    return Estimate(estimates[0].value, min(low for low, _ in ends), max(high for _, high in ends))


def _covering_categories(estimates: Sequence[CategoryEstimate | None]) -> CategoryEstimate | None:
    known = [estimate for estimate in estimates if estimate is not None]
    if estimates[0] is None or not known:
        return None
    sensitivity_ = _covering([item.sensitivity for item in known])
    return replace(estimates[0], rate=_covering([item.rate for item in known]), sensitivity=sensitivity_)


def _allowing_for_wrong_labels(subject: str, basis: Basis, fit: Fit) -> Fit:
    looks, rate = looks_of(subject, basis), fit.prevalence.value
    if rate is None or not looks.reach_high:
        return fit
    return replace(
        fit,
        prevalence=allowing_for(looks, fit.prevalence),
        sensitivity=allowing_for_part(looks, fit.sensitivity, rate),
        specificity=allowing_for_part(looks, fit.specificity, 1 - rate),
        categories=tuple(
            category
            and replace(
                category,
                rate=allowing_for(looks, category.rate),
                sensitivity=allowing_for_part(looks, category.sensitivity, category.rate.value or 0.0),
            )
            for category in fit.categories
        ),
    )


def looks_of(subject: str, basis: Basis) -> SecondLooks:
    labels = basis.labels
    num_yes, num_no = labels.num_yes[subject], labels.num_no[subject]
    if not len(labels.places):
        return NONE
    probabilities = numbers_of(basis.sample.table, "inclusion_probability")[labels.places]
    is_decided = ~np.isnan(labels.truth[subject])
    return second_looks(num_yes, num_no, probabilities / basis.masses(labels.places), is_decided)


def _of_source(subject: str, basis: Basis, fit: Fit, known: Evidence, labels: Weighted) -> Fit:
    """Add the error of the run's own draw, if it is a sample of its source."""
    if basis.kind not in SAMPLES:
        return fit
    rate, counts = fit.prevalence.value, basis.counts
    if basis.kind == "shards" and basis.shards is not None:
        shards = [basis.sample.table["shard"][place].as_py() for place in labels.places.tolist()]
        residuals = labels.masses / labels.probabilities * (labels.is_there - known.rates[labels.cells])
        rates = [fit.prevalence, fit.sensitivity, fit.specificity]
        of_labels = (shards, labels.cells, residuals)
        rate_, finds, spares = basis.shards.of_source(basis.shards.counts[subject], known, of_labels, rates)
        return Fit(rate_, finds, spares, fit.categories)
    num_scored = counts.of_categories[subject].sum(axis=1).tolist() if counts.categories else []
    categories = tuple(
        category
        and replace(
            category,
            rate=of_source(category.rate, num),
            sensitivity=of_source(category.sensitivity, (category.rate.value or 0.0) * num),
        )
        for category, num in zip(fit.categories, num_scored, strict=False)
    )
    if basis.kind == "random":
        num = float(known.num_images.sum())
        return Fit(
            of_source(fit.prevalence, num),
            of_source(fit.sensitivity, (rate or 0.0) * num),
            of_source(fit.specificity, (1 - (rate or 0.0)) * num),
            categories,
        )
    if basis.of_source is None or rate is None:
        return replace(fit, categories=categories)
    values = [rate if one is None or one.rate.value is None else one.rate.value for one in fit.categories]
    of_names = dict(
        zip(counts.categories, zip(values or [rate] * len(num_scored), num_scored, strict=True), strict=True)
    )
    in_order = [of_names.get(name, (rate, 0)) for name in basis.of_source.names]
    columns = (np.array(column, dtype=np.float64) for column in zip(*in_order, strict=True))
    prevalence_ = basis.of_source.with_error_of_draw(fit.prevalence, *columns)
    # The draw of the run adds an error to sensitivity and specificity that is not estimated here.
    return Fit(prevalence_, Estimate(), Estimate(), categories)
