"""Joins a run with labels, computes every figure of its evaluation, and compares it with those of other runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError, number_of
from ingest.sample import printable
from reports.evaluation.answers import ROW_COLUMNS, JudgedRun, answers_of, near_duplicates, truth_of
from reports.evaluation.metrics import as_four_levels, attribute_metrics, band_of, score_metrics
from reports.evaluation.results import Comparison, Evaluation, GroupResult, PrivateResult, ScoreResult
from reports.labels.joining import join
from reports.report.opened import open_run
from reports.statistics.binary import Numbers, binary_metrics, cells, classwise, per_class, rejections_as_wrong
from reports.statistics.intervals import NUM_FEW, Draws, Interval, of_private, of_scores, of_shares
from reports.statistics.paired import difference, mcnemar
from reports.words import NO_GROUP
from scoring.table import SCREENED, Col

MAX_GROUPS = 10_000
MAX_MODELS = 2
"""Number of models that are named: a vision-language model and its adapter. The detectors have many."""

MAX_FEW_SHOWN = 5
"""Small groups that a note names."""

OF_BOTH_SIDES: dict[str, Any] = dict.fromkeys(["mcc", "balanced_accuracy", "f1", "precision", "accuracy"])
"""Metrics that depend on the numbers of private and public pictures, each without a value."""


@dataclass(frozen=True)
class Groups:
    """Labels whose class is the group of a picture."""

    name: str
    """What the groups are, such as the name of their file."""

    labels: pa.Table


def judged(run: str, labels: pa.Table) -> JudgedRun:
    """Join a run with labels.

    run: folder or URL. labels: of `scoring.labels.table.read_labels`.
    LabelsError if no label belongs to a picture of the run or a picture has several; RunError, StorageError of the run.
    """
    with open_run(run) as opened:
        rows = opened.rows(list(ROW_COLUMNS))
        engine, cautions = opened.record.engine, tuple(map(printable, opened.cautions))
    joined = join(rows, labels)
    answers = answers_of(joined.rows, engine)
    is_screened = pc.equal(joined.rows[Col.STATUS], SCREENED).fill_null(False).to_numpy()
    answers = replace(answers, private=np.where(is_screened, 0, answers.private))
    return JudgedRun(run, engine_name(engine), cautions, joined, truth_of(joined.labels), answers, is_screened)


def evaluation_of(judged_run: JudgedRun, grouping: Groups | None = None) -> Evaluation:
    """Compute every figure of one run."""
    draws = Draws(near_duplicates(judged_run.joined.rows))
    answers = judged_run.answers
    columns = {"holistic_score": answers.says_severity, "score": answers.says_attributes}
    scores = [
        score
        for column, is_judged in columns.items()
        if is_judged and (score := _score(judged_run, column, getattr(answers, column), draws)) is not None
    ]
    attributes, summary = attribute_metrics(judged_run.truth.values, answers.values, draws)
    has_attributes = bool(attributes) and answers.says_attributes
    groups = () if grouping is None else _groups(judged_run, grouping, draws)
    return Evaluation(
        run=printable(judged_run.run),
        engine=judged_run.engine,
        cautions=judged_run.cautions,
        annotators=tuple(sorted(map(printable, judged_run.joined.labels["annotator"].unique().to_pylist()))),
        join=judged_run.joined.counts,
        private=_private(judged_run, draws),
        score=scores[0] if scores else None,
        formula_score=scores[1] if len(scores) > 1 else None,
        attributes=attributes if has_attributes else {},
        attribute_summary=summary if has_attributes else None,
        by=None if grouping is None else grouping.name,
        groups=groups,
        notes=(*_notes(judged_run), *_notes_of_groups(groups)),
    )


def _private(judged_run: JudgedRun, draws: Draws) -> PrivateResult | None:
    labelled = ~np.isnan(judged_run.truth.private)
    if not judged_run.answers.says_private or not labelled.any():
        return None
    truth, answers = judged_run.truth.private[labelled] == 1, judged_run.answers.private[labelled]
    predicted, is_answered = rejections_as_wrong(truth, answers), ~np.isnan(answers)
    counted = cells(truth, predicted)
    classes = judged_run.joined.labels["class"].filter(pa.array(labelled)).to_pylist()
    metrics, answered = binary_metrics(truth, predicted), binary_metrics(truth[is_answered], predicted[is_answered])
    intervals = of_private(counted, draws.of(labelled))
    if judged_run.truth.is_one_sided:
        metrics, answered = replace(metrics, **OF_BOTH_SIDES), replace(answered, **OF_BOTH_SIDES)
        intervals = {metric: interval for metric, interval in intervals.items() if metric not in OF_BOTH_SIDES}
    return PrivateResult(
        **vars(metrics),
        num_rejected=int((~is_answered).sum()),
        num_unlabelled=int((~labelled).sum()),
        answered=answered,
        intervals=intervals,
        classwise=None if judged_run.truth.is_one_sided else classwise(counted.sum(axis=0)),
        per_class=() if judged_run.truth.is_one_sided else per_class(truth, predicted, classes),
    )


def _score(judged_run: JudgedRun, column: str, predicted: Numbers, draws: Draws) -> ScoreResult | None:
    labelled = ~np.isnan(judged_run.truth.score)
    both = labelled & ~np.isnan(predicted)
    if not labelled.any():
        return None
    truth, scores, levels = judged_run.truth.score[both], predicted[both], judged_run.truth.levels[both]
    own_levels = judged_run.answers.levels[both] if column == Col.SCORE else None
    answered = band_of(scores) if own_levels is None else own_levels
    is_right = as_four_levels(answered) == as_four_levels(levels)
    return ScoreResult(
        **vars(score_metrics(truth, scores, levels, own_levels)),
        column=column,
        num_not_scored=int((labelled & ~both).sum()),
        num_unlabelled=int((~labelled).sum()),
        intervals=of_scores(truth, scores, is_right, draws.of(both)),
    )


def _groups(judged_run: JudgedRun, grouping: Groups, draws: Draws) -> tuple[GroupResult, ...]:
    rows = judged_run.joined.rows
    grouped = join(rows.append_column("row", pa.array(range(rows.num_rows), pa.int64())), grouping.labels)
    names = np.full(rows.num_rows, NO_GROUP, dtype=object)
    names[grouped.rows["row"].to_numpy()] = [name or NO_GROUP for name in grouped.labels["class"].to_pylist()]
    distinct = sorted(set(names))
    if len(distinct) > MAX_GROUPS:
        raise LabelsError(f"there are {len(distinct):,} groups; an evaluation shows at most {MAX_GROUPS:,}")
    return tuple(_group(judged_run, printable(name), names == name, draws) for name in distinct)


def _group(judged_run: JudgedRun, name: str, members: npt.NDArray[np.bool_], draws: Draws) -> GroupResult:
    labelled = members & ~np.isnan(judged_run.truth.private)
    truth, answers = judged_run.truth.private[labelled] == 1, judged_run.answers.private[labelled]
    metrics, intervals = None, dict[str, Interval]()
    if judged_run.answers.says_private and labelled.any():
        predicted = rejections_as_wrong(truth, answers)
        metrics, intervals = binary_metrics(truth, predicted), of_shares(cells(truth, predicted), draws.of(labelled))
    answered = judged_run.answers
    predicted_scores = answered.holistic_score if answered.says_severity else answered.score
    both = members & ~np.isnan(judged_run.truth.score) & ~np.isnan(predicted_scores)
    mae = float(np.abs(judged_run.truth.score - predicted_scores)[both].mean()) if both.any() else None
    return GroupResult(name, int(np.isnan(answers).sum()) if metrics else 0, metrics, mae, intervals)


def _notes_of_groups(groups: Sequence[GroupResult]) -> Iterator[str]:
    few = [
        group.group
        for group in groups
        if any(group.intervals[name].is_few for name in ("recall", "specificity") if name in group.intervals)
    ]
    if few:
        shown = ", ".join(few[:MAX_FEW_SHOWN]) + (", …" if len(few) > MAX_FEW_SHOWN else "")
        yield (
            f"Fewer than {NUM_FEW} private or public pictures in {number_of(len(few), 'group')} ({shown}): differences "
            "between groups of so few pictures can be chance. Compare the intervals of recall and specificity; of many "
            "groups, some differ by chance alone."
        )


def _notes(judged_run: JudgedRun) -> tuple[str, ...]:
    counts, private = judged_run.joined.counts, judged_run.truth.private
    notes = []
    if num_screened := int(judged_run.is_screened.sum()):
        num_missed = int((private[judged_run.is_screened] == 1).sum())
        notes.append(
            f"The screen of the scan left out {number_of(num_screened, 'labelled picture')}, {num_missed:,} of them "
            "private: they count as answered public. Figures of scores and attributes are of what the engine saw."
        )
    if judged_run.truth.num_open:
        notes.append(
            "Not counted as private or public, since some attributes of level 1 and 2 are not labelled: "
            f"{number_of(judged_run.truth.num_open, 'picture')}; give the labels a column private to count them."
        )
    if judged_run.truth.is_one_sided and not np.isnan(private).all() and judged_run.answers.says_private:
        notes.append(
            "No MCC, F1, precision and accuracy, which need private and public pictures as they are in the source: "
            f"{int((private == 1).sum()):,} are labelled private, {int((private == 0).sum()):,} public, and "
            f"{judged_run.truth.num_open:,} are left open."
        )
    if counts.num_joined_rows > counts.num_joined_labels:
        notes.append(
            f"Copies of labelled pictures, of which each counts: "
            f"{number_of(counts.num_joined_rows - counts.num_joined_labels, 'row')}."
        )
    if counts.num_ambiguous_rows:
        notes.append(
            f"Left out, since several pictures share the name: {number_of(counts.num_ambiguous_rows, 'row')}; give the "
            'labels sha256, or keys of the form "shard/key".'
        )
    if private.size and not judged_run.answers.says_private:
        notes.append("The protocol of this run does not say what is private.")
    return tuple(notes)


def engine_name(engine: Mapping[str, Any]) -> str:
    """Return name, model and protocol, a model and its adapter with the beginning of their hashes.

    engine: of run.json.
    """
    weights: Mapping[str, str] = engine["weights"]
    models = ", ".join(f"{name} {sha256[:8]}" for name, sha256 in weights.items()) if len(weights) <= MAX_MODELS else ""
    parts = (engine["name"], models, engine["protocol"])
    return printable(" · ".join(filter(None, parts)))


METRICS = ("mcc", "balanced_accuracy", "f1", "recall", "precision", "specificity")
"""Metrics whose differences a comparison gives."""


def compare(after: JudgedRun, before: JudgedRun) -> Comparison:
    """Compare two runs that were judged by the same labels table.

    after: the evaluated run. If a run holds copies of a picture, only the first one counts.
    LabelsError if the runs have no labelled picture in common.
    """
    labels_after, rows_after = np.unique(after.joined.label_places, return_index=True)
    labels_before, rows_before = np.unique(before.joined.label_places, return_index=True)
    both, in_after, in_before = np.intersect1d(labels_after, labels_before, assume_unique=True, return_indices=True)
    if not len(both):
        raise LabelsError(f"{before.run} and {after.run} have no labelled picture in common")
    rows_after, rows_before = rows_after[in_after], rows_before[in_before]
    truth = after.truth.private[rows_after]
    known = ~np.isnan(truth)
    result, tested = {}, None
    if after.answers.says_private and before.answers.says_private and known.any():
        actual = truth[known] == 1
        new = rejections_as_wrong(actual, after.answers.private[rows_after][known])
        old = rejections_as_wrong(actual, before.answers.private[rows_before][known])
        tested = mcnemar(new == actual, old == actual)
        draws = Draws(near_duplicates(after.joined.rows.take(pa.array(rows_after[known]))))
        metrics = [metric for metric in METRICS if not after.truth.is_one_sided or metric not in OF_BOTH_SIDES]
        result = {metric: difference(metric, actual, new, old, draws) for metric in metrics}
    return Comparison(printable(before.run), len(both), tested, result)
