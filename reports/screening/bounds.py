"""Thresholds of a screen, and bounds of its miss rate: the share of private pictures that it leaves out.

The threshold is that of a guarantee of `filter` (`reports.statistics.shares`): the largest for which the exact
one-sided upper bound of the miss rate is at most the target. Level 1 can have a bound of its own, since a small miss
rate over all can hide a large one of the worst.

A scan checks the bound by two signs. Guarded pictures (`scoring.screen.guard`) that the engine calls private may show
what the screen misses. But 1 % of false alarms would "prove" a miss rate of 16 % where it is 0.3 % (simulated). So
people look at them, and only their answers stop a scan. The share of pictures that pass the screen is known from the
labels. If that of the scan differs, its pictures are other ones, and the scan says so. Shards differ from each other,
so this sign alone proves nothing about the miss rate.
"""

from dataclasses import replace

from reports.screening.pictures import LabelledFeatures
from reports.statistics.binary import Flags, Numbers
from reports.statistics.shares import bound_of, clopper_pearson, num_missed_allowed
from reports.words import percent, spread
from scoring.labels.reviews import GuardLooks
from scoring.screen.guard import GuardCounts
from scoring.screen.record import Labelled, LevelBound, MissBound, ScreenRecord

STOP_LEVEL = 0.999
"""Confidence with which the miss rate must be above the bound before a scan stops: it is compared after every slice."""

PASS_LEVEL = 0.999
"""Confidence of the interval of the share that passes, from the labels."""


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
    return MissBound(
        threshold=threshold,
        num_private=bound.num_private,
        num_missed=int((scores < threshold).sum()),
        miss_high=miss_high(bound.num_missed_allowed, bound.num_private, confidence),
    )


def miss_high(num_missed: int, num_private: int, confidence: float) -> float:
    """Return the exact one-sided upper end of the miss rate (Clopper and Pearson 1934); 1 without a picture."""
    return float(clopper_pearson(num_missed, num_private, 2 * confidence - 1)[1]) if num_private else 1.0


def promised_levels(
    pictures: LabelledFeatures, members: Flags, is_screened: Flags, target_level_1: float | None, confidence: float
) -> tuple[LevelBound, ...]:
    """Return what is missed of levels 1 and 2 by the labels. is_screened: shape (n,).

    These pictures chose the threshold, so what they miss proves nothing: only level 1 has a bound, if it has a target.
    Its threshold is at most the one that these pictures alone would give, which misses as many as are allowed.
    """
    bounds = list[LevelBound]()
    for level in (1, 2):
        of_level = members & pictures.is_private & (pictures.levels == level)
        num, high = int(of_level.sum()), None
        if level == 1 and target_level_1 is not None:
            allowed = num_missed_allowed(num, 1 - target_level_1, confidence)
            high = None if allowed is None else miss_high(allowed, num, confidence)
        if num:
            num_missed = int((of_level & is_screened).sum())
            bounds.append(LevelBound(level=level, num_private=num, num_missed=num_missed, miss_high=high))
    return tuple(bounds)


def labelled_counts(pictures: LabelledFeatures, members: Flags, is_screened: Flags) -> Labelled:
    """Count the pictures of the bound, and those of them that the screen leaves out."""
    return Labelled(
        num_pictures=int(members.sum()),
        num_private=int((members & pictures.is_private).sum()),
        num_screened=int((members & is_screened).sum()),
    )


def miss_rate(counts: GuardCounts, guard_share: float, level: float) -> tuple[float, float] | None:
    """Return the share of the private pictures that a screen leaves out, if the counts are right, and the exact
    one-sided lower end of this level; None without a private picture.

    guard_share: share of the pictures left out that the guard sends on, 0–1.
    With a miss rate m and this share g, a private picture passes with probability 1 − m and is guarded with probability
    m g. So of the private pictures that the engine sees, the share m g / (m g + 1 − m) is guarded, whatever the
    prevalence. The interval of this share (Clopper and Pearson 1934) gives that of m. It covers two kinds of chance:
    which pictures were met, and which of them were guarded.
    """
    num_private = counts.num_missed + counts.num_private
    if not num_private:
        return None
    low = float(clopper_pearson(counts.num_missed, num_private, 2 * level - 1)[0])
    rate, low = (share / (share + guard_share * (1 - share)) for share in (counts.num_missed / num_private, low))
    return rate, low


def broken_bound(counts: GuardCounts, record: ScreenRecord, looks: GuardLooks) -> str | None:
    """Return one line on why the scan must stop; None if what people say of the guarded pictures does not contradict
    the bound. False alarms among the pictures that passed only make the miss rate seem smaller."""
    rate = _above_bound(replace(counts, num_missed=looks.num_private), record)
    if rate is None:
        return None
    return (
        f"the screen misses more than it may: people call {looks.num_private:,} of the {looks.num_judged:,} guarded "
        f"pictures that they looked at private, which are about {percent(rate)} of the private pictures where at most "
        f"{percent(record.target_miss)} was promised; fit a screen on labels of these pictures, and scan into a new run"
    )


def doubted_bound(counts: GuardCounts, record: ScreenRecord, looks: GuardLooks) -> str | None:
    """Return one line if the bound is contradicted should the engine be right about guarded pictures that nobody has
    looked at, else None."""
    num_open = max(0, counts.num_missed - looks.num_judged)
    if _above_bound(replace(counts, num_missed=looks.num_private + num_open), record) is None:
        return None
    return (
        f"{counts.num_missed:,} of the guard's {counts.num_guarded:,} answers are private by the engine, which may "
        f"err; if it is right, the screen misses more than the promised {percent(record.target_miss)}: look at them "
        "with privsieve review RUN --queue guard; only what people say there stops a scan"
    )


def _above_bound(counts: GuardCounts, record: ScreenRecord) -> float | None:
    """Return the miss rate by these counts if it is surely above the bound, else None."""
    rate = miss_rate(counts, record.guard_share, STOP_LEVEL)
    return None if rate is None or rate[1] <= record.target_miss else rate[0]


def drifted_share(counts: GuardCounts, record: ScreenRecord) -> str | None:
    """Return one line if the share of pictures that pass differs from that of the labelled pictures, else None."""
    labelled = record.labelled
    if not counts.num_seen or not labelled.num_pictures:
        return None
    low, high = (float(end) for end in clopper_pearson(labelled.num_screened, labelled.num_pictures, PASS_LEVEL))
    num_left_out = counts.num_screened + counts.num_guarded
    share = num_left_out / counts.num_seen
    few_low, few_high = (float(end) for end in clopper_pearson(num_left_out, counts.num_seen, PASS_LEVEL))
    if few_low <= high and few_high >= low:
        return None
    return (
        f"the screen leaves out {percent(share)} of the images, where its labels lead to expect {spread(low, high)}: "
        "the pictures are not like the labelled ones, so its bound may not hold"
    )
