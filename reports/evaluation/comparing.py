"""Two runs on the same labelled pictures, and several runs side by side."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError
from ingest.sample import printable
from reports.evaluation import binary, severity
from reports.evaluation.attributes import Ambiguous
from reports.evaluation.binary import rejections_as_wrong
from reports.evaluation.bootstrap import Resampling
from reports.evaluation.evaluate import EvaluationOptions, Judged
from reports.evaluation.groups import near_duplicates
from reports.evaluation.paired import difference, mcnemar
from reports.evaluation.results import Comparison, Evaluation, Flips, RunsSpread
from reports.evaluation.spread import spread
from scoring.taxonomy import KEYS

METRICS = ("mcc", "balanced_accuracy", "f1", "recall", "precision", "specificity")
"""Whose differences a comparison gives."""


def compare(first: Judged, second: Judged, options: EvaluationOptions) -> Comparison:
    """Both judged by the same labels table. LabelsError if they have no labelled picture in common.

    A picture of which a run holds copies counts once, by the first of them.
    """
    labels, ours, others = _same_pictures(first, second)
    if not len(labels):
        raise LabelsError(f"{second.run} and {first.run} have no labelled picture in common")
    truth = first.truth.private[ours]
    known = ~np.isnan(truth)
    result, tested = {}, None
    if first.answers.says_private and second.answers.says_private and known.any():
        actual = truth[known] == 1
        one = rejections_as_wrong(actual, first.answers.private[ours][known])
        other = rejections_as_wrong(actual, second.answers.private[others][known])
        tested = mcnemar(one == actual, other == actual)
        groups = near_duplicates(first.joined.rows.take(pa.array(ours[known])))
        draws = Resampling(groups, options.num_draws, options.seed)
        result = {metric: difference(metric, actual, one, other, draws) for metric in METRICS}
    return Comparison(
        run=printable(second.run),
        num_pictures=len(labels),
        mcnemar=tested,
        private=result,
        attributes=_flips(
            first.truth.values[ours], first.answers.values[ours], second.answers.values[others], options.ambiguous
        ),
    )


def _same_pictures(first: Judged, second: Judged) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places of the labels that both have, and of the first row of each of them in both."""
    ours, our_rows = np.unique(first.joined.label_places, return_index=True)
    others, other_rows = np.unique(second.joined.label_places, return_index=True)
    both, in_ours, in_others = np.intersect1d(ours, others, assume_unique=True, return_indices=True)
    return both, our_rows[in_ours], other_rows[in_others]


def _flips(truth: binary.Numbers, one: binary.Numbers, other: binary.Numbers, ambiguous: Ambiguous) -> dict[str, Flips]:
    """Of the attributes that have a picture with a label and both answers; all of shape (n, 22)."""
    bound = 1.0 if ambiguous == "absent" else 0.5
    is_known = ~(np.isnan(truth) | np.isnan(one) | np.isnan(other))
    was_right, is_right = ((answers >= bound) == (truth >= bound) for answers in (one, other))
    fixed, broken = (is_known & ~was_right & is_right).sum(axis=0), (is_known & was_right & ~is_right).sum(axis=0)
    nums = is_known.sum(axis=0)
    return {
        key: Flips(int(nums[place]), int(fixed[place]), int(broken[place]))
        for place, key in enumerate(KEYS)
        if nums[place]
    }


def spread_of(evaluations: Sequence[Evaluation]) -> RunsSpread:
    """Of at least one evaluation, all by the same labels."""
    return RunsSpread(
        runs=tuple(one.run for one in evaluations),
        private={
            metric: spread([None if one.private is None else getattr(one.private, metric) for one in evaluations])
            for metric in METRICS
        }
        if any(one.private for one in evaluations)
        else {},
        score={
            metric: spread([None if one.score is None else getattr(one.score, metric) for one in evaluations])
            for metric in severity.METRICS
        }
        if any(one.score for one in evaluations)
        else {},
    )
