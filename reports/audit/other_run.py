"""`audit apply --sensitivity-from`: the rates of a run, corrected by labels of another run of the same engine.

They are corrected by sensitivity and specificity that were measured on the other corpus. The assumption is strong: the
engine must be wrong as often there as here, which nothing in the two runs can show.

Source: Rogan and Gladen, "Estimating prevalence from the results of a screening test", 1978.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError, RunError
from reports.audit.cells import audit_sql, cell_counts, raw_counts
from reports.audit.compute import category_row
from reports.audit.fitting import LabelledSample, labelled
from reports.audit.population import with_unscored
from reports.audit.results import FEW_LABELS, NO_LABELS, NOT_IDENTIFIED, SCORED, Audit, CategoryRates, SubjectRates
from reports.run.warehouse import STALE_AUDIT, Run
from reports.statistics.estimates import (
    IS_YES,
    NUM_DRAWS,
    PRIOR,
    Counts,
    Estimate,
    Evidence,
    Flags,
    Numbers,
    evidence,
    share_in,
)
from scoring.labels.table import JudgedLabels
from scoring.privacy import private_condition
from scoring.runs.audit_files import MIN_LABELS, PRIVATE, SUBJECTS, has_sample, read_sample
from scoring.table import Col, numbers_of

MAX_SENSELESS = 0.025
"""Limit on the share of the draws: with more, sensitivity and specificity may as well be those of a coin, and no
interval is given."""


@dataclass(frozen=True)
class Errors:
    """How often the engine is right on the other corpus."""

    sensitivity: Estimate
    specificity: Estimate

    sensitivities: Numbers
    """Draws of the sensitivity that the labels leave possible, shape (NUM_DRAWS,)."""

    specificities: Numbers
    """The same of the specificity."""


def counted_errors(
    num_found: int, num_missed: int, num_false: int, num_right: int, random: np.random.Generator
) -> Errors:
    """Return the errors by labels that count once each.

    num_found, num_missed: labelled pictures with the subject that are answered yes, and that are not. num_false,
    num_right: those without it that are answered yes, and that are not.
    """
    sensitivities, specificities = _draws(num_found, num_missed, random), _draws(num_right, num_false, random)
    return Errors(
        _share(num_found, num_missed, sensitivities),
        _share(num_right, num_false, specificities),
        sensitivities,
        specificities,
    )


def weighted_errors(evidence: Evidence, random: np.random.Generator) -> Errors:
    """Return the errors by pictures that were drawn with unequal probabilities.

    The corpus itself counts as a sample here, since the errors must hold for another one: no label makes them certain,
    and the shares of the cells are drawn too.
    """
    chances = evidence.chances(random)
    shares = random.standard_gamma(evidence.num_images, size=chances.shape)
    with_, without = shares * chances, shares * (1 - chances)
    sensitivities = with_[:, IS_YES].sum(axis=1) / with_.sum(axis=1)
    specificities = without[:, ~IS_YES].sum(axis=1) / without.sum(axis=1)
    right = float(share_in(evidence.shares, evidence.rates[None], IS_YES)[0])
    right_of_others = float(share_in(evidence.shares, 1 - evidence.rates[None], ~IS_YES)[0])
    return Errors(
        _with_interval(None if np.isnan(right) else right, sensitivities),
        _with_interval(None if np.isnan(right_of_others) else right_of_others, specificities),
        sensitivities,
        specificities,
    )


def rogan_gladen(num_yes: int, num_images: int, errors: Errors, random: np.random.Generator) -> Estimate:
    """Return the true rate behind `num_yes` answers for `num_images`.

    There is no value if the errors do not identify one: if sensitivity + specificity is at most 1, or the result is
    outside [0, 1]. The interval comes from Beta distributions of the three shares; it is None if it is not identified.
    """
    sensitivity, specificity = errors.sensitivity.value, errors.specificity.value
    if sensitivity is None or specificity is None or not num_images or sensitivity + specificity <= 1:
        return Estimate()
    value = (num_yes / num_images + specificity - 1) / (sensitivity + specificity - 1)
    if not 0 <= value <= 1:
        return Estimate()
    raw = _draws(num_yes, num_images - num_yes, random)
    better = errors.sensitivities + errors.specificities - 1
    is_senseless = better <= 0
    if is_senseless.mean() > MAX_SENSELESS:
        return Estimate(value)
    drawn = np.clip((raw + errors.specificities - 1) / np.where(is_senseless, np.nan, better), 0, 1)
    low, high = np.nanquantile(drawn, [0.025, 0.975], method="weibull")
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def _share(part: int, rest: int, drawn: Numbers) -> Estimate:
    share = _with_interval(part / (part + rest) if part + rest else None, drawn)
    return Estimate(share.value, 0.0 if share.value == 0 else share.low, 1.0 if share.value == 1 else share.high)


def _with_interval(value: float | None, drawn: Numbers) -> Estimate:
    if value is None:
        return Estimate()
    low, high = np.quantile(drawn, [0.025, 0.975], method="weibull")
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def _draws(part: int, rest: int, random: np.random.Generator) -> Numbers:
    return random.beta(part + PRIOR, rest + PRIOR, size=NUM_DRAWS)


def audit_of_other_run(
    run: Run, other: Run, judged: JudgedLabels, private: str | None, cautions: tuple[str, ...] = ()
) -> Audit:
    """Correct the rates of a run by how often the same engine was wrong in another, labelled run (Rogan-Gladen).

    private: SQL condition; None for that of the run's protocol. Labels of pictures of the other run's audit sample are
    weighted by 1 / the probability of the draw; other labels count once each.

    RunError if the engines differ, or the rows of the other run changed after its sample was drawn. LabelsError if no
    label is of a picture of the other run, or if only some of the labelled pictures are of its sample.
    """
    if (run.record.engine, run.record.taxonomy) != (other.record.engine, other.record.taxonomy):
        raise RunError(f"{other.url} was made by another engine or with other settings of it than {run.url}")
    condition = private_condition(run.record.engine) if private is None else private
    sql_of_other = audit_sql(other, condition)
    # Shard, index, key, sha256, and the cell of each subject.
    rows = pa.Table.from_pylist(other.ask("audit_labelled", scored=sql_of_other.scored, cells=sql_of_other.cells))
    if not rows.num_rows:
        raise LabelsError(f"{other.url} has no scored images; scan first")
    labels = labelled(rows, judged, condition, other.url)
    probabilities = _probabilities(other, rows, labels)
    of_other = None if probabilities is None else cell_counts(other, sql_of_other).of_run
    answered = {subject: counts.num_answered for subject, counts in raw_counts(other, sql_of_other)[None].items()}
    sql = audit_sql(run, condition)
    counts = cell_counts(run, sql, by_category=True)
    raw = raw_counts(run, sql, counts.categories)
    subjects, categories = list[SubjectRates](), list[CategoryRates]()
    for number, subject in enumerate(SUBJECTS):
        random = np.random.default_rng([number, 2])
        num_images = None if of_other is None else of_other[subject]
        errors, num_labels, num_positive = _errors(subject, rows, labels, probabilities, num_images, random)
        whole = raw[None][subject]
        corrected = rogan_gladen(whole.num_yes, whole.num_scored, errors, random)
        subjects.append(
            SubjectRates(
                subject=subject,
                num_labels=num_labels,
                num_positive=num_positive,
                num_ambiguous=labels.num_ambiguous[subject],
                num_undecided=int(labels.undecided[subject].sum()),
                raw_rate=whole.rate,
                is_raw_lower_bound=whole.is_lower_bound,
                corrected=corrected,
                with_quarantined=None
                if run.damage.num_parts
                else with_unscored(corrected, whole.num_scored, run.num_images()),
                # An engine that never answers is neither sensitive nor specific.
                sensitivity=errors.sensitivity if answered[subject] else Estimate(),
                specificity=errors.specificity if answered[subject] else Estimate(),
                method="rogan-gladen",
                note=_note(corrected, num_labels),
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
        population=SCORED,
        labels=labels.counts,
        subjects=tuple(subjects),
        categories=tuple(categories),
        cautions=cautions,
        is_screened=run.record.screen is not None,
        notes=tuple(_notes(other.url, labels, is_even=probabilities is None)),
    )


def _probabilities(other: Run, rows: pa.Table, labels: LabelledSample) -> Numbers | None:
    """Return the probability with which each labelled picture was drawn, 0 if its label does not count.

    Shape (m,), as in `LabelledSample`. None if the labels are not of the run's audit sample; 1 for all if every image
    has a label.
    """
    has_answer: Flags = np.any(~np.isnan(np.stack(list(labels.truth.values()))), axis=0)
    if has_answer.sum() == rows.num_rows:
        return np.ones(len(has_answer))
    if not has_sample(other.root):
        return None
    sample = read_sample(other.root)
    drawn = sample.probabilities()
    pictures = rows.select([Col.SHARD, Col.INDEX, Col.SHA256]).take(pa.array(labels.places)).to_pylist()
    probabilities = np.array([drawn.get((picture[Col.SHARD], picture[Col.INDEX]), 0.0) for picture in pictures])
    # A hash names the copies of a drawn picture too; they were not drawn themselves.
    hashes = set(sample.table["sha256"].drop_null().to_pylist())
    is_copy = np.array([picture[Col.SHA256] in hashes for picture in pictures], dtype=np.bool_)
    is_outside = has_answer & (probabilities == 0) & ~is_copy
    if not (has_answer & (probabilities > 0)).any():
        return None
    if is_outside.any():
        raise LabelsError(
            f"{int(is_outside.sum()):,} of {int(has_answer.sum()):,} labelled pictures of {other.url} are not of its "
            "audit sample; give the labels of its sample only"
        )
    if not other.has_rows_of(sample.design):
        raise RunError(f"{other.url}: {STALE_AUDIT}")
    return probabilities


def _errors(
    subject: str,
    rows: pa.Table,
    labels: LabelledSample,
    probabilities: Numbers | None,
    num_images: Counts | None,
    random: np.random.Generator,
) -> tuple[Errors, int, int]:
    """Return the errors of the engine, the number of labels that count, and how many of these say yes.

    num_images: images of the labelled run in each cell.
    """
    truth = labels.truth[subject]
    known = ~np.isnan(truth)
    if probabilities is not None:
        known &= probabilities > 0
    is_there, num_labels = truth[known] == 1, int(known.sum())
    cells = numbers_of(rows, f"cell_{subject}")[labels.places[known]].astype(np.int64)
    if probabilities is None or num_images is None or not num_labels:
        is_yes = IS_YES[cells]
        pairs = (is_there & is_yes, is_there & ~is_yes, ~is_there & is_yes, ~is_there & ~is_yes)
        num_found, num_missed, num_false, num_right = (int(pair.sum()) for pair in pairs)
        errors = counted_errors(num_found, num_missed, num_false, num_right, random)
    else:
        errors = weighted_errors(evidence(num_images, cells, truth[known], probabilities[known]), random)
    return errors, num_labels, int(is_there.sum())


def _notes(other: str, labels: LabelledSample, is_even: bool) -> Iterator[str]:
    yield (
        f"Sensitivity and specificity are those in {other}. The corrected rates hold only if the engine errs as often "
        "here as there, which nothing in the two runs can show. Labels of a sample of this run need no such assumption."
    )
    if is_even:
        yield (
            f"The labels are not of an audit sample of {other}, so each counts once, as if the pictures had been drawn "
            "evenly. If some kinds were chosen more often than others, the corrected rates are wrong."
        )
    if undecided := labels.undecided_in_words:
        yield (
            f"Left out as undecided, since people differ or cannot say: {undecided}. These are hard pictures, so the "
            "engine seems better than it is."
        )


def _note(rate: Estimate, num_labels: int) -> str | None:
    if not num_labels:
        return NO_LABELS
    if rate.value is None or rate.low is None:
        return NOT_IDENTIFIED
    return FEW_LABELS if num_labels < MIN_LABELS else None
