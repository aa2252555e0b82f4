"""Compares two runs on the same labelled pictures, and the figures of several runs."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError
from ingest.sample import printable
from reports.evaluation.answers import near_duplicates
from reports.evaluation.compute import OF_BOTH_SIDES, EvaluationOptions, JudgedRun
from reports.evaluation.metrics import SEVERITY_METRICS, Ambiguous
from reports.evaluation.results import Comparison, Evaluation, Flips, PrivateResult, RunsSpread, ScoreResult
from reports.statistics import binary
from reports.statistics.binary import Spread, rejections_as_wrong, spread
from reports.statistics.intervals import Draws
from reports.statistics.paired import difference, mcnemar
from scoring.taxonomy import KEYS

METRICS = ("mcc", "balanced_accuracy", "f1", "recall", "precision", "specificity")
"""Metrics whose differences a comparison gives."""


def compare(after: JudgedRun, before: JudgedRun, options: EvaluationOptions) -> Comparison:
    """Compare two runs that were judged by the same labels table.

    after: the evaluated run. If a run holds copies of a picture, only the first one counts.
    LabelsError if the runs have no labelled picture in common.
    """
    labels, rows_after, rows_before = _same_pictures(after, before)
    if not len(labels):
        raise LabelsError(f"{before.run} and {after.run} have no labelled picture in common")
    truth = after.truth.private[rows_after]
    known = ~np.isnan(truth)
    result, tested = {}, None
    if after.answers.says_private and before.answers.says_private and known.any():
        actual = truth[known] == 1
        new = rejections_as_wrong(actual, after.answers.private[rows_after][known])
        old = rejections_as_wrong(actual, before.answers.private[rows_before][known])
        tested = mcnemar(new == actual, old == actual)
        groups = near_duplicates(after.joined.rows.take(pa.array(rows_after[known])))
        draws = Draws(groups, options.num_draws, options.seed)
        metrics = [metric for metric in METRICS if not after.truth.is_one_sided or metric not in OF_BOTH_SIDES]
        result = {metric: difference(metric, actual, new, old, draws) for metric in metrics}
    return Comparison(
        run=printable(before.run),
        num_pictures=len(labels),
        mcnemar=tested,
        private=result,
        attributes=_flips(
            after.truth.values[rows_after],
            after.answers.values[rows_after],
            before.answers.values[rows_before],
            options.ambiguous,
        ),
    )


def _same_pictures(after: JudgedRun, before: JudgedRun) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the places of the labels that both runs have, and of the first row of each label in either run."""
    labels_after, rows_after = np.unique(after.joined.label_places, return_index=True)
    labels_before, rows_before = np.unique(before.joined.label_places, return_index=True)
    both, in_after, in_before = np.intersect1d(labels_after, labels_before, assume_unique=True, return_indices=True)
    return both, rows_after[in_after], rows_before[in_before]


def _flips(
    truth: binary.Numbers, after: binary.Numbers, before: binary.Numbers, ambiguous: Ambiguous
) -> dict[str, Flips]:
    """Count the flips of attributes that have a picture with a label and both answers; shape (n, attributes)."""
    bound = 1.0 if ambiguous == "absent" else 0.5
    is_known = ~(np.isnan(truth) | np.isnan(after) | np.isnan(before))
    is_right, was_right = ((answers >= bound) == (truth >= bound) for answers in (after, before))
    fixed, broken = (is_known & ~was_right & is_right).sum(axis=0), (is_known & was_right & ~is_right).sum(axis=0)
    nums = is_known.sum(axis=0)
    return {
        key: Flips(int(nums[index]), int(fixed[index]), int(broken[index]))
        for index, key in enumerate(KEYS)
        if nums[index]
    }


def spread_of(evaluations: Sequence[Evaluation]) -> RunsSpread:
    """Return the spread of the metrics over evaluations by the same labels; there must be at least one."""
    return RunsSpread(
        runs=tuple(evaluation.run for evaluation in evaluations),
        private=_spreads([evaluation.private for evaluation in evaluations], METRICS),
        score=_spreads([evaluation.score for evaluation in evaluations], SEVERITY_METRICS),
    )


def _spreads(results: Sequence[PrivateResult | ScoreResult | None], metrics: Sequence[str]) -> dict[str, Spread]:
    """Return the spread of each metric; empty if no run has a result."""
    if not any(results):
        return {}
    return {
        metric: spread([None if result is None else getattr(result, metric) for result in results])
        for metric in metrics
    }
