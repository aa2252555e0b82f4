"""Thresholds of a screen, and bounds of its miss rate: the share of private pictures that it leaves out.

The threshold is that of `filter --guarantee` (`reports.statistics.recall_bound`): the largest for which the exact
one-sided upper bound of the miss rate is at most the target. Level 1 and each category can have bounds of their own,
since a small miss rate over all can hide a large one of a few.
"""

from collections.abc import Iterable

import numpy as np

from ingest.errors import LabelsError
from reports.screening.pictures import LabelledFeatures
from reports.statistics.binary import Flags, Numbers
from reports.statistics.recall_bound import bound_of, num_missed_allowed, num_needed
from reports.statistics.shares import clopper_pearson
from scoring.screen.record import Labelled, LevelBound, MissBound


def miss_bound(
    scores: Numbers,
    undecided: Numbers,
    level_1: Numbers,
    target: float,
    target_level_1: float | None,
    confidence: float,
) -> MissBound | None:
    """Return the bound of one threshold; None if there are too few labels for it.

    scores: of the labelled private pictures, shape (n,); a picture that the screen cannot judge has +inf, since the
    engine sees it. undecided: scores of pictures that people could not decide, shape (u,). level_1: the part of
    `scores` that is of level 1. target_level_1: the largest miss rate of level 1; None for no bound of its own.
    """
    bound = bound_of(scores, 1 - target, confidence, undecided)
    if bound is None:
        return None
    threshold = bound.threshold
    if target_level_1 is not None:
        of_level_1 = bound_of(level_1, 1 - target_level_1, confidence)
        if of_level_1 is None:
            return None
        threshold = min(threshold, of_level_1.threshold)
    threshold = min(threshold, 1.0)  # +inf: no private picture has a score
    missed = int((scores < threshold).sum())
    return MissBound(
        threshold=threshold,
        num_private=bound.num_private,
        num_missed=missed,
        miss_high=miss_high(bound.num_missed_allowed, bound.num_private, confidence),
    )


def no_bound(scores: Numbers) -> MissBound:
    """Return the bound of a category with too few labels: nothing of it is screened."""
    return MissBound(threshold=None, num_private=len(scores), num_missed=0, miss_high=0.0)


def miss_high(num_missed: int, num_private: int, confidence: float) -> float:
    """Return the exact one-sided upper end of the miss rate (Clopper and Pearson 1934); 1 without a picture."""
    return float(clopper_pearson(num_missed, num_private, 2 * confidence - 1)[1]) if num_private else 1.0


def level_bounds(
    pictures: LabelledFeatures, members: Flags, is_screened: Flags, confidence: float
) -> tuple[LevelBound, ...]:
    """Return the miss rates of levels 1 and 2 by the labels, with their bounds. is_screened: shape (n,)."""
    bounds = list[LevelBound]()
    for level in (1, 2):
        of_level = members & pictures.is_private & (pictures.levels == level)
        num, num_missed = int(of_level.sum()), int((of_level & is_screened).sum())
        if num:
            high = miss_high(num_missed, num, confidence)
            bounds.append(LevelBound(level=level, num_private=num, num_missed=num_missed, miss_high=high))
    return tuple(bounds)


def promised_levels(
    bounds: Iterable[LevelBound], target_level_1: float | None, confidence: float
) -> tuple[LevelBound, ...]:
    """Return the miss rates of levels by the pictures that chose the threshold: a bound only for level 1 with a target.

    What such pictures miss proves nothing. With a target, the threshold is at most the one that the pictures of level 1
    alone would give, which misses as many as are allowed.
    """
    promised = list[LevelBound]()
    for bound in bounds:
        high = None
        if bound.level == 1 and target_level_1 is not None:
            allowed = num_missed_allowed(bound.num_private, 1 - target_level_1, confidence)
            high = None if allowed is None else miss_high(allowed, bound.num_private, confidence)
        promised.append(bound.model_copy(update={"miss_high": high}))
    return tuple(promised)


def category_bounds(
    pictures: LabelledFeatures,
    members: Flags,
    scores: Numbers,
    target: float,
    target_level_1: float | None,
    confidence: float,
) -> dict[str, MissBound]:
    """Return the bound of each category. LabelsError if no category has enough labels, or none is known.

    scores: shape (n,). Each bound holds with the confidence on its own.
    """
    names = sorted({name for name in pictures.categories if name is not None})
    if not names:
        raise LabelsError("--per-category, but no labelled picture has a category: name what gives it with --category")
    bounds = dict[str, MissBound]()
    for name in names:
        own = members & np.array([category == name for category in pictures.categories], dtype=np.bool_)
        private = own & pictures.is_private
        level_1 = scores[private & (pictures.levels == 1)]
        undecided = scores[own & pictures.is_undecided]
        bound = miss_bound(scores[private], undecided, level_1, target, target_level_1, confidence)
        bounds[name] = no_bound(scores[private]) if bound is None else bound
    if all(bound.threshold is None for bound in bounds.values()):
        most = max(bounds.values(), key=lambda bound: bound.num_private)
        needed = num_needed(1 - target, confidence) or 0
        raise LabelsError(
            f"--per-category: each category needs {needed:,} labelled private pictures that the screen has not learnt "
            f"from, and the largest has {most.num_private:,}, so {needed - most.num_private:,} are missing; label "
            "more, or leave out --per-category for one bound over all"
        )
    return bounds


def together(bounds: Iterable[MissBound], target: float, confidence: float) -> MissBound:
    """Return the miss rate over all categories that are screened; it has no threshold of its own.

    Each threshold was chosen by the pictures that are counted here, so their sum proves nothing. If five thresholds are
    at the lowest score of 59 pictures, none of 295 is missed, although the mean true miss rate is 1/60. The rate over
    all is at most that of the worst category, whose bound here holds for all categories at once (Bonferroni).
    """
    screened = [bound for bound in bounds if bound.threshold is not None]
    at_once = 1 - (1 - confidence) / max(1, len(screened))
    ends = [
        miss_high(num_missed_allowed(bound.num_private, 1 - target, confidence) or 0, bound.num_private, at_once)
        for bound in screened
    ]
    return MissBound(
        threshold=None,
        num_private=sum(bound.num_private for bound in screened),
        num_missed=sum(bound.num_missed for bound in screened),
        miss_high=max(ends, default=1.0),
    )


def labelled_counts(pictures: LabelledFeatures, members: Flags, is_screened: Flags) -> Labelled:
    """Count the pictures of the bound, and those of them that the screen leaves out."""
    return Labelled(
        num_pictures=int(members.sum()),
        num_private=int((members & pictures.is_private).sum()),
        num_screened=int((members & is_screened).sum()),
    )
