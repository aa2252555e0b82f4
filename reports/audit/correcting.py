"""`audit apply`: the rates of a run, corrected by labels of the sample that was drawn from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError, RunError
from reports.agreed_labels import in_words, num_undecided_of
from reports.audit.cells import IS_YES, Counts, Flags, Numbers, audit_sql
from reports.audit.counting import MAX_CATEGORIES, CellCounts, RawCounts, cell_counts, raw_counts
from reports.audit.estimates import Estimate, Evidence, evidence, prevalence, sensitivity, specificity, standard_error
from reports.audit.labelled import Labelled, labelled
from reports.audit.prior_shift import ShiftTest, can_tell, category_rates, shift_test
from reports.audit.results import (
    ALL_LABELLED,
    CONTRADICTED,
    FEW_IMAGES,
    FEW_LABELS,
    NO_LABELS,
    TOO_FEW_FOR_CATEGORIES,
    UNDECIDED,
    Audit,
    CategoryRates,
    Method,
    SubjectRates,
    wilson,
)
from reports.warehouse import STALE_AUDIT, Run
from scoring.labels.table import Judged
from scoring.privacy import follows_taxonomy
from scoring.runs.audit_sample import PRIVATE, SUBJECTS, AuditSample
from scoring.runs.corrected_rates import MIN_LABELS

MIN_IMAGES = 20
"""With fewer images in a category its rate is marked."""

SIGNIFICANCE = 0.05


def audit_of_sample(run: Run, sample: AuditSample, judged: Judged, cautions: tuple[str, ...] = ()) -> Audit:
    """Rates of a run, corrected by labels of the sample that was drawn from it.

    RunError if the run has other rows than when it was drawn; LabelsError if no label is of a drawn picture.
    """
    design = sample.design
    if not run.has_rows_of(design):
        raise RunError(f"{run.url}: {STALE_AUDIT}")
    rows = _nameable(sample.table)
    found = labelled(rows, judged, design.private, "the audit sample")
    if not found.counts.num_labelled:
        raise LabelsError("no label answers anything yet; fill in the list, or review --queue audit, then apply again")
    sql = audit_sql(run, design.private)
    counts = cell_counts(run, sql, by_category=True)
    raw = raw_counts(run, sql, counts.categories)
    subjects, categories = list[SubjectRates](), list[CategoryRates]()
    for subject in SUBJECTS:
        one, of_categories = _corrected(subject, sample, found, counts, raw)
        subjects.append(one)
        categories += of_categories
    subjects, categories = _tested_together(subjects, categories)
    if run.damage.num_parts:  # how many images there are is not known
        subjects = [replace(one, with_quarantined=None) for one in subjects]
    return Audit(
        run=run.url,
        private=design.private,
        num_images=run.num_images(),
        num_scored=design.num_scored,
        labels=found.counts,
        subjects=tuple(subjects),
        categories=tuple(categories),
        cautions=cautions,
        notes=_notes(run, found, design.private, bool(counts.categories)),
    )


def _tested_together(
    subjects: list[SubjectRates], categories: list[CategoryRates]
) -> tuple[list[SubjectRates], list[CategoryRates]]:
    """The tests of all subjects corrected for their number; the rates that one contradicts are marked."""
    tests = {one.subject: one.shift_test for one in subjects if one.shift_test is not None}
    p_values = {subject: test.p_value for subject, test in tests.items() if test.p_value is not None}
    corrected = {subject: min(1.0, p_value * len(p_values)) for subject, p_value in p_values.items()}
    return [
        replace(one, shift_test=replace(tests[one.subject], p_corrected=corrected[one.subject]))
        if one.subject in corrected
        else one
        for one in subjects
    ], [
        replace(one, note=CONTRADICTED) if corrected.get(one.subject, 1.0) < SIGNIFICANCE else one for one in categories
    ]


def private_rate(sample: AuditSample, num_images: Counts, judged: Judged) -> Estimate:
    """Share of all scored images that is private, as far as these labels go; without values if none is of use.

    num_images: of the run in each cell of the private decision.
    """
    try:
        found = labelled(_nameable(sample.table), judged, sample.design.private, "the audit sample")
    except LabelsError:  # of none of the drawn pictures
        return Estimate()
    if not len(_weighted(PRIVATE, sample, found)[0]):
        return Estimate()
    return _fit(PRIVATE, sample, found, num_images, None).prevalence


@dataclass(frozen=True)
class _Fit:
    """What the labels say of one subject."""

    evidence: Evidence
    prevalence: Estimate
    sensitivity: Estimate
    specificity: Estimate

    categories: tuple[Estimate, ...]
    """Their rates; empty if they are not asked for."""


def _fit(subject: str, sample: AuditSample, found: Labelled, num_images: Counts, of_categories: Counts | None) -> _Fit:
    """There must be a label of the subject. num_images, of_categories: of the run, and of each category, in each cell.

    Undecided pictures are left out of the values; the intervals reach from the low end with none of them positive to
    the high end with all.
    """
    fits = [_fit_taking(None, subject, sample, found, num_images, of_categories)]
    if found.undecided[subject].any():
        fits += [_fit_taking(taken, subject, sample, found, num_images, of_categories) for taken in (0.0, 1.0)]
    return _Fit(
        fits[0].evidence,
        _covering([one.prevalence for one in fits]),
        _covering([one.sensitivity for one in fits]),
        _covering([one.specificity for one in fits]),
        tuple(map(_covering, zip(*(one.categories for one in fits), strict=True))),
    )


def _fit_taking(
    undecided: float | None,
    subject: str,
    sample: AuditSample,
    found: Labelled,
    num_images: Counts,
    of_categories: Counts | None,
) -> _Fit:
    """undecided: what such a picture is taken to be, 0 or 1; None leaves it out."""
    number = SUBJECTS.index(subject)
    _, cells, is_there, probabilities = _weighted(subject, sample, found, undecided)
    one = evidence(num_images, cells, is_there, probabilities)
    draws = one.draws(np.random.default_rng([number, 0]))
    rates = category_rates(one, of_categories, np.random.default_rng([number, 1])) if of_categories is not None else []
    return _Fit(one, prevalence(one, draws), sensitivity(one, draws), specificity(one, draws), tuple(rates))


def _covering(estimates: Sequence[Estimate]) -> Estimate:
    """The value of the first, and an interval that holds all of theirs."""
    first = estimates[0]
    ends = [(one.low, one.high) for one in estimates if one.low is not None and one.high is not None]
    if first.value is None or not ends:
        return first
    return Estimate(first.value, min(low for low, _ in ends), max(high for _, high in ends))


def _weighted(
    subject: str, sample: AuditSample, found: Labelled, undecided: float | None = None
) -> tuple[Counts, Counts, Numbers, Numbers]:
    """Of the pictures with a label of the subject, each of shape (m,): row of the sample, cell, label, probability.

    undecided: as in `_fit_taking`.
    """
    truth = found.truth[subject]
    if undecided is not None:
        truth = np.where(found.undecided[subject], undecided, truth)
    known = ~np.isnan(truth)
    places, is_there = found.places[known], truth[known]
    cells = _column(sample.table, f"cell_{subject}").astype(np.int64)[places]
    # Which pictures of the sample were labelled is taken for chance.
    share_labelled = len(places) / sample.table.num_rows
    probabilities = _column(sample.table, "inclusion_probability").astype(np.float64)[places] * share_labelled
    return places, cells, is_there, probabilities


def _corrected(
    subject: str,
    sample: AuditSample,
    found: Labelled,
    counts: CellCounts,
    raw: Mapping[str | None, Mapping[str, RawCounts]],
) -> tuple[SubjectRates, list[CategoryRates]]:
    places, cells, is_there, probabilities = _weighted(subject, sample, found)
    num_images, whole, num_labels = counts.of_run[subject], raw[None][subject], len(places)
    num_undecided, num_positive = int(found.undecided[subject].sum()), int(is_there.sum())
    plain, nothing = wilson(whole.num_yes, whole.num_in_rate), Estimate()
    if not num_labels:
        empty = SubjectRates(
            *(subject, 0, 0, 0, num_undecided, plain, whole.is_lower_bound, nothing, None, None, nothing, nothing),
            *("difference", NO_LABELS, None),
        )
        return empty, []
    one = evidence(num_images, cells, is_there, probabilities)
    is_complete = bool((probabilities >= 1).all()) and num_labels == whole.num_scored
    has_categories = bool(counts.categories) and not is_complete
    has_categories = has_categories and can_tell(one, num_positive, num_labels - num_positive)
    fit = _fit(subject, sample, found, num_images, counts.of_categories[subject] if has_categories else None)
    categories = [
        category_row(subject, category, raw[category][subject], rate, num_labels, "prior shift", None)
        for category, rate in zip(counts.categories if has_categories else (), fit.categories, strict=True)
    ]
    test = None
    if has_categories:
        test = _shift_test(sample.table, places, is_there == 1, IS_YES[cells], probabilities, SUBJECTS.index(subject))
    note = None
    if is_complete:
        note = ALL_LABELLED
    elif num_labels < MIN_LABELS:
        note = FEW_LABELS
    elif num_undecided:
        note = UNDECIDED
    elif counts.categories and not categories:
        note = TOO_FEW_FOR_CATEGORIES
    rates_of_subject = SubjectRates(
        subject=subject,
        num_labels=num_labels,
        num_positive=num_positive,
        num_ambiguous=found.num_ambiguous[subject],
        num_undecided=num_undecided,
        raw=plain,
        is_raw_lower_bound=whole.is_lower_bound,
        corrected=fit.prevalence,
        standard_error=standard_error(fit.evidence),
        with_quarantined=with_quarantined(fit.prevalence, sample.design.num_scored, sample.design.num_rows),
        # An engine that never answers is neither sensitive nor specific.
        sensitivity=fit.sensitivity if whole.num_answered else nothing,
        specificity=fit.specificity if whole.num_answered else nothing,
        method="difference",
        note=note,
        shift_test=test,
    )
    return rates_of_subject, categories


def category_row(
    subject: str, category: str, counts: RawCounts, rate: Estimate, num_labels: int, method: Method, note: str | None
) -> CategoryRates:
    raw = wilson(counts.num_yes, counts.num_in_rate)
    if note is None and counts.num_scored < MIN_IMAGES:
        note = FEW_IMAGES
    return CategoryRates(
        subject, category, counts.num_scored, raw, counts.is_lower_bound, rate, method, num_labels, note
    )


def _shift_test(
    table: pa.Table, places: Counts, is_there: Flags, is_yes: Flags, probabilities: Numbers, seed: int
) -> ShiftTest:
    names = ["" if name is None else name for name in table["category"].to_pylist()]
    numbers = np.unique(np.array(names, dtype=object), return_inverse=True)[1]
    return shift_test(is_there, is_yes, probabilities, numbers[places].astype(np.int64), seed)


def _nameable(table: pa.Table) -> pa.Table:
    """The drawn pictures under names that no other image of the run has."""
    return table.select(["shard", "name", "sha256"]).rename_columns(["shard", "key", "sha256"])


def with_quarantined(corrected: Estimate, num_scored: int, num_images: int) -> tuple[float, float] | None:
    if corrected.low is None or corrected.high is None or not num_images:
        return None
    num_quarantined = num_images - num_scored
    return corrected.low * num_scored / num_images, (corrected.high * num_scored + num_quarantined) / num_images


def _notes(run: Run, found: Labelled, private: str, has_categories: bool) -> tuple[str, ...]:
    counts, notes = found.counts, list[str]()
    num_left = counts.num_empty + counts.num_without_row
    if num_left:
        notes.append(
            f"{num_left:,} of {counts.num_drawn:,} drawn pictures have no label yet. The "
            "rates hold if chance decided which: label them in the order of the list, and do not leave out hard ones."
        )
    undecided = num_undecided_of(np.stack(list(found.undecided.values()), axis=1))
    if undecided:
        notes.append(
            f"Undecided, since people differ or cannot say: {in_words(undecided)}. The intervals cover all of them "
            "being so, and none. The majority counts, so one more person decides: privsieve review "
            f"{quote(run.url)} --queue audit --as NAME, then apply {quote(run.url)}/reviews."
        )
    if counts.num_outside:
        notes.append(
            f"{counts.num_outside:,} labels are of pictures that were not drawn, and were not used: they were not "
            "chosen at random."
        )
    if not follows_taxonomy(private):
        notes.append(f'Of the labels only the column "private" says what is private, since that means here: {private}.')
    if sum(found.num_ambiguous.values()):
        notes.append(f"{sum(found.num_ambiguous.values()):,} attributes are labelled 0.5; they count as absent.")
    if has_categories:
        notes.append(
            "Rates of categories assume that the engine errs alike in all of them: as often on pictures that are "
            "private, and as often on those that are not."
        )
    else:
        notes.append(f"There are no rates of categories: the run has more than {MAX_CATEGORIES:,}.")
    return tuple(notes)


def _column(table: pa.Table, name: str) -> Numbers:
    return np.asarray(table[name].to_numpy(zero_copy_only=False))
