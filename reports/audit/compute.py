"""`audit apply`: the rates of a run, corrected by labels of the sample that was drawn from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import quote

import numpy as np

from ingest.errors import LabelsError, RunError, number_of
from reports.audit.cells import MAX_CATEGORIES, CellCounts, RawCounts, audit_sql, cell_counts, counts_by
from reports.audit.fitting import Basis, fitted, labelled, looks_of, weighted
from reports.audit.population import DrawnShards, category_weights
from reports.audit.results import (
    ALL_LABELLED,
    ASSUMED,
    FEW_IMAGES,
    FEW_LABELS,
    IN_SOURCE,
    NO_LABELS,
    ONLY_PRESENT,
    SCORED,
    SCREENED,
    UNDECIDED,
    Audit,
    SubjectRates,
    of_shards,
)
from reports.audit.words import label_gaps
from reports.labels.agreed import in_words, num_undecided_of
from reports.run.design import SAMPLES, Kind
from reports.run.warehouse import STALE_AUDIT, Run
from reports.statistics.category_rates import MIN_LABELS
from reports.statistics.estimates import Estimate
from reports.statistics.shares import SMALL_GROUP
from scoring.labels.table import JudgedLabels
from scoring.runs.audit_files import PRIVATE, SUBJECTS, AuditSample


def audit_of_sample(
    run: Run,
    sample: AuditSample,
    judged: JudgedLabels,
    kind: Kind,
    sizes: Mapping[str, int] | None = None,
    cautions: tuple[str, ...] = (),
) -> Audit:
    """Correct the rates of a run by labels of the sample that was drawn from it.

    kind: how the images of the run were chosen from its source. sizes: images of each category in the source, for a run
    with the same number of images of each.
    RunError if the rows of the run changed after the draw; LabelsError if no label is of a drawn picture; QueryError if
    the sizes are not those of the run's categories.
    """
    design = sample.design
    if not run.has_rows_of(design):
        raise RunError(f"{run.url}: {STALE_AUDIT}")
    of_source = None if sizes is None else category_weights(run, sizes)
    labels = labelled(sample.table, judged, design.private)
    if not labels.counts.num_labelled:
        raise LabelsError(
            "no label answers anything yet; fill in the list, or look at the pictures with privsieve review "
            f"{run.url} --queue audit, then apply again"
        )
    sql = audit_sql(run, design.private)
    counts = cell_counts(run, sql, by_category=True)
    if of_source is not None and not counts.categories:
        raise RunError(
            f"--category-sizes: {run.url} cannot be weighted, since it has a screen or more than {MAX_CATEGORIES:,} "
            "categories; leave the option out"
        )
    shards = None
    if kind == "shards" and run.record.shard_draw is not None:
        shards = DrawnShards(run.record.shard_draw, *counts_by(run, sql, "shard"))
    basis = Basis(sample, labels, counts, kind, of_source, shards)
    corrected = [_corrected(subject, basis) for subject in SUBJECTS]
    categories = [rates for _, of_categories in corrected for rates in of_categories]
    in_source = f"{IN_SOURCE}{' that could be read' if run.damage.num_parts else ''}"
    return Audit(
        run=run.url,
        private=design.private,
        num_images=run.num_images(),
        num_scored=design.num_scored,
        num_screened=sql.num_screened,
        population=(SCREENED if sql.num_screened else SCORED) + (in_source if basis.is_of_source else ""),
        category_population=SCORED + (in_source if kind in SAMPLES and kind != "shards" else ""),
        labels=labels.counts,
        subjects=tuple(rates for rates, _ in corrected),
        categories=tuple(categories),
        cautions=cautions,
        notes=_notes(run, basis, categories),
    )


def private_rate(sample: AuditSample, counts: CellCounts, judged: JudgedLabels) -> Estimate:
    """Estimate the share of the images of the run that is private; without values if no label is usable."""
    try:
        labels = labelled(sample.table, judged, sample.design.private)
    except LabelsError:  # no label is of a drawn picture
        return Estimate()
    basis = Basis(sample, labels, counts)
    if not len(weighted(PRIVATE, basis)[1]):
        return Estimate()
    (rates,) = fitted(PRIVATE, basis, with_categories=False)
    return rates.prevalence if rates else Estimate()


def _corrected(subject: str, basis: Basis) -> tuple[SubjectRates, list[SubjectRates]]:
    """Return the rates of the whole run, and of its categories if the labels are enough."""
    labels, places = weighted(subject, basis)
    raw, num_labels = basis.raw(subject), len(places)
    num_undecided = int(basis.labels.undecided[subject].sum())
    rates = SubjectRates(
        subject=subject,
        num_scored=round(raw.num_scored),
        num_labels=num_labels,
        num_positive=int(labels.is_there.sum()),
        num_undecided=num_undecided,
        second_looks=looks_of(subject, basis),
        raw_rate=raw.rate,
        is_raw_lower_bound=raw.is_lower_bound,
        note=NO_LABELS,
    )
    if not num_labels:
        return rates, []
    if basis.labels.says_only_where(subject):
        return replace(rates, note=ONLY_PRESENT), []
    is_complete = bool((labels.probabilities >= 1).all()) and num_labels == basis.counts.raw(subject).num_scored
    names = basis.counts.categories
    whole, *of_categories = fitted(subject, basis, with_categories=bool(names) and not is_complete)
    assert whole is not None
    categories = list[SubjectRates]()
    for name, counts, known in zip(names, basis.counts.of_answers[subject].sum(axis=2), of_categories, strict=False):
        if known is None:
            continue
        answers = RawCounts(counts)
        assumed = ASSUMED if known.method == "fay-herriot" else None
        one = SubjectRates(
            subject=subject,
            category=name,
            num_scored=round(answers.num_scored),
            num_labels=known.num_labels,
            raw_rate=answers.rate,
            is_raw_lower_bound=answers.is_lower_bound,
            corrected=known.prevalence,
            sensitivity=known.sensitivity if answers.num_answered else Estimate(),
            method=known.method,
            note=FEW_IMAGES if answers.num_scored < SMALL_GROUP else assumed,
        )
        categories.append(one)
    note = None
    if is_complete:
        note = ALL_LABELLED
    elif num_labels < MIN_LABELS:
        note = FEW_LABELS
    elif num_undecided:
        note = UNDECIDED
    corrected = replace(rates, corrected=whole.prevalence, note=note)
    if raw.num_answered:  # an engine that never answers is neither sensitive nor specific
        corrected = replace(corrected, sensitivity=whole.sensitivity, specificity=whole.specificity)
    return corrected, categories


def _notes(run: Run, basis: Basis, categories: Sequence[SubjectRates]) -> tuple[str, ...]:
    labels, counts, notes = basis.labels, basis.labels.counts, list[str]()
    undecided = in_words(num_undecided_of(np.stack(list(labels.undecided.values()), axis=1)))
    notes += label_gaps(counts.num_drawn, counts.num_empty + counts.num_without_row, undecided)
    if undecided:
        notes.append(
            f"The majority counts, so one more person decides: privsieve review {quote(run.url)} --queue audit --as "
            f"NAME, then apply {quote(run.url)}/reviews."
        )
    if counts.num_outside:
        notes.append(
            f"Not used, since chance did not choose their pictures from this run: "
            f"{number_of(counts.num_outside, 'label')}."
        )
    if run.record.per_category and basis.of_source is None:
        notes.append(
            "The run has as many images of each category, whatever its size in the source, so rates of the whole run "
            "are no rates of the source; --category-sizes FILE weights them. Rates of categories hold for the source."
        )
    if any(category.method != "difference" for category in categories):
        notes.append(
            f"Rates of categories with fewer than {MIN_LABELS} labels of their own assume that the true rates scatter "
            "alike around a line over the rates that the run answers (Fay and Herriot). 95 % of these intervals hold "
            "on average over categories; that of a category in which the engine errs in its own way may not."
        )
    if basis.counts.guard_mass > 1:
        notes.append(
            f"Each guarded image counts as {basis.counts.guard_mass:,.0f}, for those that the screen left out. There "
            "are no rates of categories, since few images of each are guarded."
        )
    if basis.shards is not None:
        notes.append(
            f"Intervals of the source hold {of_shards(len(basis.shards.names))}. Rates of categories are of the run."
        )
    return tuple(notes)
