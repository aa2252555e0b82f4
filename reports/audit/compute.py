"""`audit apply`: the rates of a run, corrected by labels of the sample that was drawn from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import quote

import pyarrow as pa

from ingest.errors import LabelsError, RunError
from reports.audit.cells import MAX_CATEGORIES, CellCounts, RawCounts, audit_sql, cell_counts, raw_counts
from reports.audit.fitting import Basis, fitted, labelled, looks_of, weighted
from reports.audit.population import category_weights, with_unscored
from reports.audit.results import (
    ALL_LABELLED,
    ASSUMED,
    FEW_IMAGES,
    FEW_LABELS,
    MIN_IMAGES,
    NO_LABELS,
    SCORED,
    SCORED_OF_SOURCE,
    TOO_FEW_FOR_CATEGORIES,
    UNDECIDED,
    Audit,
    CategoryRates,
    SubjectRates,
)
from reports.run.warehouse import STALE_AUDIT, Run
from reports.statistics.category_rates import Method
from reports.statistics.estimates import Counts, Estimate
from scoring.labels.table import JudgedLabels
from scoring.privacy import follows_taxonomy
from scoring.runs.audit_files import MIN_LABELS, PRIVATE, SUBJECTS, AuditSample


def audit_of_sample(
    run: Run,
    sample: AuditSample,
    judged: JudgedLabels,
    sizes: Mapping[str, int] | None = None,
    cautions: tuple[str, ...] = (),
) -> Audit:
    """Correct the rates of a run by labels of the sample that was drawn from it.

    sizes: images of each category in the source, for a run with the same number of images of each category; the rates
    are then those of the source. None: the rates are those of the scored images.
    RunError if the rows of the run changed after the draw; LabelsError if no label is of a drawn picture; QueryError if
    the sizes are not those of the run's categories.
    """
    design = sample.design
    if not run.has_rows_of(design):
        raise RunError(f"{run.url}: {STALE_AUDIT}")
    of_source = None if sizes is None else category_weights(run, sizes)
    labels = labelled(_nameable(sample.table), judged, design.private, "the audit sample", is_in_order=True)
    if not labels.counts.num_labelled:
        raise LabelsError("no label answers anything yet; fill in the list, or review --queue audit, then apply again")
    sql = audit_sql(run, design.private)
    counts = cell_counts(run, sql, by_category=True)
    if of_source is not None and not counts.categories:
        raise RunError(f"--category-sizes: {run.url} has more than {MAX_CATEGORIES:,} categories, too many to weight")
    raw = raw_counts(run, sql, counts.categories)
    basis = Basis(sample, labels, counts, raw, of_source)
    subjects, categories = list[SubjectRates](), list[CategoryRates]()
    for subject in SUBJECTS:
        rates, of_categories = _corrected(subject, basis)
        subjects.append(rates)
        categories += of_categories
    if run.damage.num_parts:  # the number of images is unknown
        subjects = [replace(rates, with_quarantined=None) for rates in subjects]
    return Audit(
        run=run.url,
        private=design.private,
        num_images=run.num_images(),
        num_scored=design.num_scored,
        population=SCORED if of_source is None else SCORED_OF_SOURCE,
        labels=labels.counts,
        subjects=tuple(subjects),
        categories=tuple(categories),
        cautions=cautions,
        is_screened=run.record.screen is not None,
        notes=_notes(run, basis, categories),
    )


def private_rate(sample: AuditSample, num_images: Counts, judged: JudgedLabels) -> Estimate:
    """Estimate the share of all scored images that is private, from these labels. Without values if no label is usable.

    num_images: images of the run in each cell of the private decision.
    """
    try:
        labels = labelled(_nameable(sample.table), judged, sample.design.private, "the audit sample", is_in_order=True)
    except LabelsError:  # no label is of a drawn picture
        return Estimate()
    basis = Basis(sample, labels, CellCounts((), {PRIVATE: num_images}, {}), {}, None)
    if not len(weighted(PRIVATE, basis).places):
        return Estimate()
    return fitted(PRIVATE, basis, with_categories=False).prevalence


def _corrected(subject: str, basis: Basis) -> tuple[SubjectRates, list[CategoryRates]]:
    labels = weighted(subject, basis)
    whole, num_labels = basis.raw[None][subject], len(labels.places)
    num_undecided = int(basis.labels.undecided[subject].sum())
    rates = SubjectRates(
        subject=subject,
        num_labels=num_labels,
        num_positive=int(labels.is_there.sum()),
        num_ambiguous=basis.labels.num_ambiguous[subject],
        num_undecided=num_undecided,
        second_looks=looks_of(subject, basis),
        raw_rate=basis.raw_rate(subject),
        is_raw_lower_bound=whole.is_lower_bound,
        note=NO_LABELS,
    )
    if not num_labels:
        return rates, []
    is_complete = bool((labels.probabilities >= 1).all()) and num_labels == whole.num_scored
    fit = fitted(subject, basis, with_categories=bool(basis.counts.categories) and not is_complete)
    categories = [
        category_row(subject, name, basis.raw[name][subject], estimate.rate, estimate.num_labels, estimate.method)
        for name, estimate in zip(basis.counts.categories, fit.categories, strict=False)
        if estimate is not None
    ]
    note = None
    if is_complete:
        note = ALL_LABELLED
    elif num_labels < MIN_LABELS:
        note = FEW_LABELS
    elif num_undecided:
        note = UNDECIDED
    elif basis.counts.categories and not categories:
        note = TOO_FEW_FOR_CATEGORIES
    corrected = replace(
        rates,
        corrected=fit.prevalence,
        with_quarantined=with_unscored(fit.prevalence, *basis.num_scored_of_all()),
        # An engine that never answers is neither sensitive nor specific.
        sensitivity=fit.sensitivity if whole.num_answered else Estimate(),
        specificity=fit.specificity if whole.num_answered else Estimate(),
        note=note,
    )
    return corrected, categories


def category_row(
    subject: str,
    category: str,
    counts: RawCounts,
    rate: Estimate,
    num_labels: int,
    method: Method,
    note: str | None = None,
) -> CategoryRates:
    if note is None and counts.num_scored < MIN_IMAGES:
        note = FEW_IMAGES
    elif note is None and method == "fay-herriot":
        note = ASSUMED
    return CategoryRates(
        subject, category, counts.num_scored, counts.rate, counts.is_lower_bound, rate, method, num_labels, note
    )


def _nameable(table: pa.Table) -> pa.Table:
    """Return the drawn pictures under names that no other image of the run has."""
    return table.select(["shard", "name", "sha256"]).rename_columns(["shard", "key", "sha256"])


def _notes(run: Run, basis: Basis, categories: Sequence[CategoryRates]) -> tuple[str, ...]:
    labels, counts, private, notes = basis.labels, basis.labels.counts, basis.sample.design.private, list[str]()
    num_left = counts.num_empty + counts.num_without_row
    if num_left:
        notes.append(
            f"{num_left:,} of {counts.num_drawn:,} drawn pictures have no label yet. The "
            "rates hold if chance decided which: label them in the order of the list, and do not leave out hard ones."
        )
    if undecided := labels.undecided_in_words:
        notes.append(
            f"Undecided, since people differ, cannot say, or skipped them: {undecided}. The intervals cover "
            "all of them being so, and none. The majority counts, so one more person decides: privsieve review "
            f"{quote(run.url)} --queue audit --as NAME, then apply {quote(run.url)}/reviews."
        )
    if counts.num_outside:
        notes.append(
            f"{counts.num_outside:,} labels are of pictures that were not drawn, and were not used: they were not "
            "chosen at random."
        )
    if not follows_taxonomy(private):
        notes.append(f'Of the labels only the column "private" says what is private, since that means here: {private}.')
    if run.record.per_category and basis.of_source is None:
        notes.append(
            "The run has as many images of each category, whatever its size in the source, so rates of the whole run "
            "are no rates of the source; --category-sizes FILE weights them. Rates of categories hold for the source."
        )
    if sum(labels.num_ambiguous.values()):
        notes.append(f"{sum(labels.num_ambiguous.values()):,} attributes are labelled 0.5; they count as absent.")
    if any(category.method != "difference" for category in categories):
        notes.append(
            f"Rates of categories with fewer than {MIN_LABELS} labels of their own assume that the true rates scatter "
            "alike around a line over the rates that the run answers (Fay and Herriot)."
        )
    if not basis.counts.categories:
        notes.append(f"There are no rates of categories: the run has more than {MAX_CATEGORIES:,}.")
    return tuple(notes)
