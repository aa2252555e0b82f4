"""Drift: whether a scan still meets pictures like the labelled ones.

There are two signs. The engine's answers about guarded pictures (`scoring.screen.guard`) show what the screen misses;
if they contradict the bound, the scan stops. The share of pictures that pass the screen is known from the labels. If
that of the scan differs, its pictures are other ones, more private or seen less well, and the scan says so. Shards
differ from each other, so this sign alone proves nothing about the miss rate.
"""

from dataclasses import dataclass

from reports.statistics.shares import clopper_pearson
from reports.words import percent, spread
from scoring.screen.guard import GuardCounts
from scoring.screen.record import ScreenRecord

STOP_LEVEL = 0.999
"""Confidence with which the miss rate must be above the bound before a scan stops: it is compared after every slice."""

PASS_LEVEL = 0.999
"""Confidence of the interval of the share that passes, from the labels."""


@dataclass(frozen=True)
class MissRate:
    """Share of the private pictures that a screen leaves out, as the engine answers."""

    estimate: float
    low: float
    """Lower end of the one-sided interval."""


def miss_rate(counts: GuardCounts, guard_share: float, level: float) -> MissRate | None:
    """Return the miss rate with the exact one-sided lower end of this level; None without a private picture.

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
    ends = (counts.num_missed / num_private, low)
    return MissRate(*(share / (share + guard_share * (1 - share)) for share in ends))


def broken_bound(counts: GuardCounts, record: ScreenRecord) -> str | None:
    """Return one line on why the scan must stop; None if the guarded pictures do not contradict the bound."""
    rate = miss_rate(counts, record.guard_share, STOP_LEVEL)
    if rate is None or rate.low <= record.target_miss:
        return None
    return (
        f"the screen misses more than it may: the engine calls {counts.num_missed:,} of {counts.num_guarded:,} "
        f"guarded pictures private, about {percent(rate.estimate)} of the private pictures where at most "
        f"{percent(record.target_miss)} was promised; look at them: privsieve review RUN --queue \"stage = 'guard'\". "
        "If they are private, fit a screen on labels of these pictures; if not, the engine errs: fit one on its own "
        "answers (privsieve labels export). Then scan into a new run"
    )


def drifted_share(counts: GuardCounts, record: ScreenRecord) -> str | None:
    """Return one line if the share of pictures that pass differs from that of the labelled pictures, else None."""
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
