"""How an audit corrects one subject: the truth by its labels, their weights, and the estimates for the run and for
categories."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError
from reports.audit.cells import CellCounts, RawCounts
from reports.audit.population import CategoryWeights, DrawnShards, rates_of_source
from reports.audit.results import LabelCounts
from reports.labels.agreed import agreed
from reports.labels.joining import join
from reports.run.design import SAMPLES, Kind
from reports.statistics.agreement import NONE, SecondLooks, allowing_for, second_looks
from reports.statistics.category_rates import category_rates
from reports.statistics.estimates import Counts, Estimate, Flags, Labels, Numbers, Rates, evidence, masses_of, rates_of
from reports.words import NO_GROUP
from scoring.labels.picture_index import are_named, hashes_by_name
from scoring.labels.table import JudgedLabels, attribute_values
from scoring.privacy import private_of_labels
from scoring.runs.audit_files import PRIVATE, SUBJECTS, AuditSample
from scoring.table import Col, numbers_of
from scoring.taxonomy import KEYS

OPEN_SHARE = 0.1
"""Share of pictures without an answer up to which labels that all say yes are taken for those of people who judged."""


@dataclass(frozen=True)
class LabelledSample:
    places: Counts
    """Their rows in the table that was joined, ascending. Shape (m,)."""

    truth: dict[str, Numbers]
    """Subject -> 1, 0 or NaN (not labelled), shape (m,). An attribute's 0.5 is 0."""

    undecided: dict[str, Flags]
    """Subject -> whether people differ on it, cannot say, or skipped it, shape (m,); then the truth is NaN."""

    num_yes: dict[str, Counts]
    num_no: dict[str, Counts]
    """Subject -> people who say yes, and who say no, shape (m,)."""
    counts: LabelCounts

    def says_only_where(self, subject: str) -> bool:
        """Return whether the labels name the subject where it is present, and leave the other pictures that were seen
        open: as a data set whose classes name what a picture shows, or a list that was filled in with 1 only."""
        answers = np.stack(list(self.truth.values()))
        has_label: Flags = ~np.isnan(self.truth[subject])
        is_seen: Flags = ~np.isnan(answers).all(axis=0) | self.undecided[subject]
        if self.num_no[subject].any() or (answers[:, has_label] == 0).any():
            return False
        return bool((is_seen & ~has_label).sum() > OPEN_SHARE * is_seen.sum())


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
    truth |= dict(zip(KEYS, np.where(of_attributes == 0.5, 0.0, of_attributes).T, strict=True))
    truth = {subject: np.where(undecided[subject], np.nan, answer) for subject, answer in truth.items()}
    is_undecided: Flags = np.asarray(np.stack(list(undecided.values())).any(axis=0), dtype=np.bool_)
    has_answer: Flags = np.asarray(~np.isnan(np.stack(list(truth.values()))).all(axis=0), dtype=np.bool_)
    counts = LabelCounts(
        num_drawn=rows.num_rows,
        num_labelled=int(has_answer.sum()),
        num_undecided=int((~has_answer & is_undecided).sum()),
        num_empty=int((~has_answer & ~is_undecided).sum()),
        num_without_row=rows.num_rows - len(has_answer),
        num_outside=joined.counts.num_labels_without_row,
    )
    places = joined.rows["place"].to_numpy().astype(np.int64)
    num_yes, num_no = (
        dict(zip(SUBJECTS, votes[joined.label_places].T, strict=True)) for votes in (answers.num_yes, answers.num_no)
    )
    return LabelledSample(places, truth, undecided, num_yes, num_no, counts)


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

    @cached_property
    def weights(self) -> Numbers | None:
        """Return the weight of an image of each category, shape (K,); None if all count once."""
        return None if self.of_source is None else self.of_source.of(self.counts.categories)

    def masses(self, places: Counts) -> Numbers:
        """Return how many images of the population each of some drawn pictures itself counts as, shape (places,)."""
        cells = numbers_of(self.sample.table, f"cell_{PRIVATE}").astype(np.int64)[places]
        weights = 1.0 if self.weights is None else self.weights[self.category_numbers[places]]
        return np.asarray(weights * masses_of(self.counts.guard_mass)[cells], dtype=np.float64)

    def num_images(self, subject: str) -> Numbers:
        """Return the number of images in each cell of the population of the rates, shape (NUM_CELLS,)."""
        return self.counts.num_images(subject, self.weights)

    def raw(self, subject: str) -> RawCounts:
        """Return the run's own answers for the same images."""
        return self.counts.raw(subject, self.weights)


def weighted(subject: str, basis: Basis, undecided: float | None = None) -> tuple[Labels, Counts]:
    """Return the labels of a subject, and their rows of the sample. undecided: 0 or 1 for such pictures; None: none."""
    labels, drawn = basis.labels, basis.sample.table
    truth = labels.truth[subject]
    if undecided is not None:
        truth = np.where(labels.undecided[subject], undecided, truth)
    known = ~np.isnan(truth)
    places = labels.places[known]
    # Assumes that chance decided which pictures of the sample were labelled.
    probabilities = numbers_of(drawn, "inclusion_probability")[places] * len(places) / drawn.num_rows
    cells = numbers_of(drawn, f"cell_{subject}").astype(np.int64)[places]
    weighted_ = Labels(cells, truth[known], probabilities, basis.masses(places), basis.category_numbers[places])
    return weighted_, places


def fitted(subject: str, basis: Basis, with_categories: bool) -> list[Rates | None]:
    """Estimate the rates of a subject, which must have a label: of the run, then of each of `CellCounts.categories`.

    Undecided pictures are left out of the values. The intervals reach from the low end with none of them positive to
    the high end with all positive. Then they are widened for wrong labels.
    """
    fits = [_fit_with(None, subject, basis, with_categories)]
    if basis.labels.undecided[subject].any():
        fits += [_fit_with(value, subject, basis, with_categories) for value in (0.0, 1.0)]
    looks, covering = looks_of(subject, basis), list[Rates | None]()
    for first, *others in zip(*fits, strict=True):
        same = [first, *(rates for rates in others if rates is not None)] if first else []
        parts = {
            name: _covering([getattr(rates, name) for rates in same])
            for name in ("prevalence", "sensitivity", "specificity")
            if same
        }
        covering.append(first and allowing_for(looks, replace(first, **parts)))
    return covering


def _fit_with(undecided: float | None, subject: str, basis: Basis, with_categories: bool) -> list[Rates | None]:
    """Estimate the rates of a subject for one value of its undecided pictures. undecided: as in `weighted`."""
    labels, places = weighted(subject, basis, undecided)
    known = evidence(basis.num_images(subject), labels, basis.counts.guard_mass)
    whole, of_categories = rates_of(known), basis.counts.of_categories(subject)
    categories = category_rates(known, of_categories, labels) if with_categories else []
    if basis.shards is not None:
        names = [basis.sample.table["shard"][place].as_py() for place in places.tolist()]
        return [basis.shards.of_source(subject, known, labels, names, whole), *categories]
    if basis.kind not in SAMPLES:
        return [whole, *categories]
    nums = of_categories.sum(axis=1)
    in_source = [rates and rates_of_source(rates, num) for rates, num in zip(categories, nums.tolist(), strict=False)]
    rate = whole.prevalence.value
    if basis.kind == "random":
        whole = rates_of_source(whole, float(known.num_images.sum()))
    elif basis.of_source is not None and rate is not None:
        values = [rates and rates.prevalence.value for rates in in_source] or [rate] * len(nums)
        rates = np.array([rate if value is None else value for value in values])
        # The draw of the run adds an error to sensitivity and specificity that is not estimated here.
        whole = Rates(basis.of_source.with_error_of_draw(whole.prevalence, basis.counts.categories, rates, nums))
    return [whole, *in_source]


def _covering(estimates: Sequence[Estimate]) -> Estimate:
    """Return the value of the first estimate, with an interval that covers the intervals of all."""
    ends = [(item.low, item.high) for item in estimates if item.low is not None and item.high is not None]
    if not ends:
        return estimates[0]
    return Estimate(estimates[0].value, min(low for low, _ in ends), max(high for _, high in ends))


def looks_of(subject: str, basis: Basis) -> SecondLooks:
    labels = basis.labels
    if not len(labels.places):
        return NONE
    probabilities = numbers_of(basis.sample.table, "inclusion_probability")[labels.places]
    is_decided, chances = ~np.isnan(labels.truth[subject]), probabilities / basis.masses(labels.places)
    return second_looks(labels.num_yes[subject], labels.num_no[subject], chances, is_decided)
