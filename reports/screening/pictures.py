"""Labelled pictures with their features, and their parts: those that a screen learns from, and those of the bound.

The bound holds for pictures that the screen has not seen. So copies and near duplicates are in one part, and the part
of the bound is drawn by lots that depend only on the pictures and a seed.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ingest.errors import LabelsError, number_of
from reports.statistics.binary import Flags, Numbers
from reports.statistics.shares import lot, num_needed
from reports.words import percent
from scoring.screen.model import Vectors

Groups = npt.NDArray[np.int64]

MIN_TO_LEARN = 60
"""Labelled private pictures, and as many public ones, that are needed to fit heads, curves and fusion."""

VALIDATION_SHARE = 1 / 3
"""Share of the pictures that a screen learns from, on which heads, curves and fusion are chosen."""

TRAINING, VALIDATION, BOUND = 0, 1, 2


@dataclass(frozen=True)
class LabelledFeatures:
    """n pictures, each once; arrays have shape (n,)."""

    sha256: tuple[str, ...]

    private: Numbers
    """1, 0, or NaN where people could not decide."""

    levels: npt.NDArray[np.int64]
    """The most severe level that the label gives, 1–4; 0 if it gives no attribute."""

    probabilities: Numbers
    """Probability of being drawn; all 1 if every picture was equally likely to be labelled."""

    is_even: Flags
    """Which pictures may prove something: all, or of an audit sample those that remain after every picture of the
    corpus was given the same probability."""

    groups: Groups
    """Near duplicates have the same number."""

    views: tuple[tuple[Vectors, ...], ...]
    """Features of each view of each picture."""

    def __len__(self) -> int:
        return len(self.sha256)

    @property
    def weights(self) -> Numbers:
        """Return how many pictures of the corpus each one represents."""
        return 1 / self.probabilities

    @property
    def is_private(self) -> Flags:
        return np.asarray(self.private == 1)

    @property
    def is_undecided(self) -> Flags:
        return np.asarray(np.isnan(self.private))


def needed_for_bound(num_private: int, target_miss: float, confidence: float, which: str = "") -> int:
    """Return how many private pictures the bound needs. LabelsError with the number that is missing if there are fewer,
    and some to learn from. which: words about the private pictures that there are."""
    needed = num_needed(1 - target_miss, confidence)
    if needed is None:
        raise LabelsError(f"--target-miss {target_miss:g} cannot be proven by labels; ask for more")
    if num_private < needed + MIN_TO_LEARN:
        missing = needed + MIN_TO_LEARN - num_private
        raise LabelsError(
            f"a miss rate of at most {percent(target_miss)} with {percent(confidence, decimals=0)} confidence needs "
            f"{needed:,} labelled private pictures that the screen has not learnt from, and {MIN_TO_LEARN} to learn "
            f"from; there are {num_private:,}{which}, so {missing:,} {'is' if missing == 1 else 'are'} missing"
        )
    return needed


def parts(pictures: LabelledFeatures, target_miss: float, confidence: float, seed: int) -> npt.NDArray[np.int64]:
    """Return TRAINING, VALIDATION or BOUND for each picture, −1 for one that is in no part. Shape (n,).

    The bound takes half of the private groups, or more if half is too few.
    LabelsError with the number of labelled private pictures that are missing.
    """
    names, members = np.unique(pictures.groups, return_inverse=True)
    is_private = np.bincount(members, pictures.is_private & pictures.is_even) > 0
    num_private = int(is_private.sum())
    which = ""
    if not pictures.is_even.all():
        num_drawn = int(pictures.is_private.sum())
        which = f" of {num_drawn:,} once all pictures of the audit sample have the same probability"
    needed = needed_for_bound(num_private, target_miss, confidence, which)
    num_bound = min(max(needed, num_private // 2), num_private - MIN_TO_LEARN)
    lots = _lots(pictures, members, len(names), seed)
    part_of_group = np.full(len(names), BOUND)
    for stratum in (is_private, ~is_private):
        ordered = np.flatnonzero(stratum)[np.argsort(lots[stratum])]
        first = round(len(ordered) * num_bound / num_private) if num_private else 0
        num_validation = round((len(ordered) - first) * VALIDATION_SHARE)
        part_of_group[ordered[first : first + num_validation]] = VALIDATION
        part_of_group[ordered[first + num_validation :]] = TRAINING
    part = part_of_group[members]
    part[(part == BOUND) & ~pictures.is_even] = -1
    part[(part != BOUND) & pictures.is_undecided] = -1
    in_bound = np.flatnonzero(part == BOUND)
    firsts = in_bound[np.unique(members[in_bound], return_index=True)[1]]
    part[np.setdiff1d(in_bound, firsts)] = -1  # near duplicates are no independent proof
    num_public = int(((pictures.private == 0) & np.isin(part, (TRAINING, VALIDATION))).sum())
    if num_public < MIN_TO_LEARN:
        raise LabelsError(
            f"a screen needs {MIN_TO_LEARN} labelled public pictures to learn from; there "
            f"{'is' if num_public == 1 else 'are'} {number_of(num_public, 'such picture')} after half of them were "
            "kept for the bound"
        )
    return part


def _lots(pictures: LabelledFeatures, members: Groups, num_groups: int, seed: int) -> Numbers:
    """Return a number for each group, uniform in [0, 1). Shape (groups,)."""
    names = [""] * num_groups
    for sha256, group in zip(pictures.sha256, members.tolist(), strict=True):
        names[group] = min(names[group] or sha256, sha256)
    return np.array([lot(f"screen/{seed}/{name}") for name in names], dtype=np.float64)
