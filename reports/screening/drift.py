"""Drift: whether a scan still meets pictures like the labelled ones.

Two signs. The engine's answers about guarded pictures (`scoring.screen.guard`) show what the screen misses; where they
contradict the bound, the scan stops. And the share of pictures that pass the screen is known from the labels; where
that of the scan differs, its pictures are others, more private or seen less well, and the scan says so: shards differ
among each other, so this alone proves nothing of the miss rate.
"""

from dataclasses import dataclass

from reports.statistics.shares import clopper_pearson
from reports.words import percent, spread
from scoring.screen.guard import GuardCounts
from scoring.screen.record import ScreenRecord

STOP_LEVEL = 0.999
"""Confidence with which the miss rate must be above the bound before a scan stops: it is compared again and again."""

PASS_LEVEL = 0.999
"""Confidence of the interval of the share that passes, from the labels."""


@dataclass(frozen=True)
class Missed:
    """Private pictures that a screen left out of a run, estimated by its guard."""

    num: float
    """Estimate of how many the engine would have called private, those that the guard found included."""

    low: float
    """Lower end of the one-sided interval."""

    high: float
    """Upper end of the one-sided interval."""

    def share(self, num_private: int, end: str) -> float:
        """Return the miss rate, 0–1: missed / (missed + private pictures that passed). end: num, low or high."""
        missed = float(getattr(self, end))
        return missed / (missed + num_private) if missed + num_private else 0.0


def missed(counts: GuardCounts, level: float) -> Missed | None:
    """Return the estimate with the ends of exact one-sided intervals of this level each; None without a guarded
    picture. Guarded pictures are a random part of all that the screen left out."""
    if not counts.num_guarded:
        return None
    num_left_out = counts.num_screened + counts.num_guarded
    low, high = clopper_pearson(counts.num_missed, counts.num_guarded, 2 * level - 1)
    num = counts.num_missed / counts.num_guarded * num_left_out
    return Missed(num, max(float(low) * num_left_out, counts.num_missed), float(high) * num_left_out)


def broken_bound(counts: GuardCounts, record: ScreenRecord) -> str | None:
    """Return why the scan must stop: one line; None if its guard does not contradict the bound."""
    estimate = missed(counts, STOP_LEVEL)
    if estimate is None or estimate.share(counts.num_private, "low") <= record.target_miss:
        return None
    return (
        f"the screen misses more than it may: the engine calls {counts.num_missed:,} of {counts.num_guarded:,} "
        f"guarded pictures private, about {percent(estimate.share(counts.num_private, 'num'))} of the private pictures "
        f"where at most {percent(record.target_miss)} was promised; the pictures are not like the labelled ones: fit a "
        "screen on labels of these, and scan into a new run"
    )


def drifted_share(counts: GuardCounts, record: ScreenRecord) -> str | None:
    """Return a line if the share of pictures that pass is not that of the labelled pictures, else None."""
    labelled = record.labelled
    if not counts.num_seen or not labelled.num_pictures:
        return None
    low, high = (float(end) for end in clopper_pearson(labelled.num_screened, labelled.num_pictures, PASS_LEVEL))
    share = (counts.num_screened + counts.num_guarded) / counts.num_seen
    few_low, few_high = (
        float(end) for end in clopper_pearson(counts.num_screened + counts.num_guarded, counts.num_seen, PASS_LEVEL)
    )
    if few_low <= high and few_high >= low:
        return None
    return (
        f"the screen leaves out {percent(share)} of the images, where its labels lead to expect {spread(low, high)}: "
        "the pictures are not like the labelled ones, so its bound may not hold"
    )
