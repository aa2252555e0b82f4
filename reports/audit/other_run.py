"""`audit apply --sensitivity-from`: the rates of a run, corrected by labels of another run of the same engine."""

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError, RunError
from reports.audit.cells import audit_sql, private_condition
from reports.audit.correcting import MIN_LABELS, category_row, with_quarantined
from reports.audit.counting import cell_counts, raw_counts
from reports.audit.estimates import Estimate
from reports.audit.labelled import labelled
from reports.audit.results import FEW_LABELS, NO_LABELS, NOT_IDENTIFIED, Audit, CategoryRates, SubjectRates, wilson
from reports.audit.rogan_gladen import errors_of, rogan_gladen
from reports.warehouse import Run
from scoring.runs.audit_sample import PRIVATE, SUBJECTS


def audit_of_other_run(
    run: Run, other: Run, labels: pa.Table, private: str | None, cautions: tuple[str, ...] = ()
) -> Audit:
    """Rates of a run, corrected by how often the same engine was wrong in another, labelled run (Rogan-Gladen).

    private: SQL condition; None for what the protocol asks. RunError if the engines differ; LabelsError if no label is
    of a picture of the other run.
    """
    if (run.record.engine, run.record.taxonomy) != (other.record.engine, other.record.taxonomy):
        raise RunError(f"{other.url} was made by another engine or with other settings of it than {run.url}")
    condition = private_condition(run.record.engine) if private is None else private
    rows = _answered(other, condition)
    found = labelled(rows, labels, condition, other.url)
    sql = audit_sql(run, condition)
    counts = cell_counts(run, sql, by_category=True)
    raw = raw_counts(run, sql, counts.categories)
    subjects, categories = list[SubjectRates](), list[CategoryRates]()
    for number, subject in enumerate(SUBJECTS):
        truth = found.truth[subject]
        known = ~np.isnan(truth)
        answers = rows[f"yes_{subject}"].to_numpy(zero_copy_only=False)[found.places[known]]
        errors = errors_of(truth[known] == 1, answers.astype(np.bool_))
        whole = raw[None][subject]
        random = np.random.default_rng([number, 2])
        corrected = rogan_gladen(whole.num_yes, whole.num_scored, errors, random)
        num_labels = int(known.sum())
        subjects.append(
            SubjectRates(
                subject=subject,
                num_labels=num_labels,
                num_positive=int((truth == 1).sum()),
                num_ambiguous=found.num_ambiguous[subject],
                raw=wilson(whole.num_yes, whole.num_in_rate),
                corrected=corrected,
                standard_error=None,
                with_quarantined=with_quarantined(corrected, whole.num_scored, run.num_images()),
                sensitivity=errors.sensitivity,
                specificity=errors.specificity,
                method="rogan-gladen",
                note=_note(corrected, num_labels),
                shift_test=None,
            )
        )
        for category in counts.categories if corrected.value is not None else ():
            here = raw[category][subject]
            value = rogan_gladen(here.num_yes, here.num_scored, errors, random)
            note = _note(value, num_labels)
            categories.append(category_row(subject, category, here, value, num_labels, "rogan-gladen", note))
    return Audit(
        run=run.url,
        private=condition,
        num_images=run.num_images(),
        num_scored=raw[None][PRIVATE].num_scored,
        labels=found.counts,
        subjects=tuple(subjects),
        categories=tuple(categories),
        cautions=cautions,
        notes=(
            f"Sensitivity and specificity are those in {other.url}. The corrected rates hold only if the engine errs "
            "as often here as there, which nothing in the two runs can show. Labels of a sample of this run need no "
            "such assumption.",
        ),
    )


def _answered(run: Run, condition: str) -> pa.Table:
    """All scored rows of a labelled run: shard, key, sha256, and whether each subject is answered with yes."""
    sql = audit_sql(run, condition)
    answers = ", ".join(f"coalesce({one.answer} = 1, false) AS yes_{subject}" for subject, one in sql.subjects.items())
    rows = run.ask("audit_labelled", scored=sql.scored, answers=answers)
    if not rows:
        raise LabelsError(f"{run.url} has no scored images; scan first")
    return pa.Table.from_pylist(rows)


def _note(rate: Estimate, num_labels: int) -> str | None:
    if not num_labels:
        return NO_LABELS
    if rate.value is None or rate.low is None:
        return NOT_IDENTIFIED
    return FEW_LABELS if num_labels < MIN_LABELS else None
