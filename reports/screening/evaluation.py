"""How good a screen is on labels: each modality alone and all together, by side and by category, as in the paper.

Layout: Zhao et al., "PrivacyAlert: A Dataset for Image Privacy Prediction", tables 3 to 7: precision, recall and F1 of
private and of public pictures, their means weighted by the number of pictures, and accuracy; F1 by category.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reports.screening.bounds import level_bounds
from reports.screening.compute import is_screened, scores_of
from reports.screening.pictures import LabelledFeatures
from reports.statistics.binary import Flags, Numbers, SideRates, cells, classwise
from reports.statistics.shares import clopper_pearson
from scoring.screen.model import FittedScreen
from scoring.screen.record import LevelBound

IS_PRIVATE_FROM = 0.5
"""Probability from which a predictor calls a picture private. A screen leaves out by its threshold instead."""


@dataclass(frozen=True)
class PredictorRates:
    """One predictor on the pictures that it can judge."""

    name: str
    """A modality, or the fusion."""

    num_pictures: int
    private: SideRates
    public: SideRates
    weighted: SideRates
    accuracy: float | None


@dataclass(frozen=True)
class ScreenedCategory:
    """The joined probability on the pictures of one category, and what the screen misses there."""

    category: str
    num_pictures: int
    num_private: int
    f1: float | None
    """Mean of both sides, weighted by their number."""

    f1_private: float | None
    f1_public: float | None
    num_missed: int
    """Private pictures that the screen leaves out."""

    miss_high: float | None
    """Upper end of the exact one-sided interval of the miss rate; None without private pictures."""


@dataclass(frozen=True)
class Missing:
    """What the thresholds of the screen leave out, of these labels."""

    num_private: int
    num_missed: int
    low: float | None
    """Lower end of the 95 % interval of the miss rate; None without private pictures."""

    high: float | None
    """Upper end, as `low`."""

    passed: float | None
    """Share of all pictures that go to the engine, each weighted by how many it represents."""

    levels: tuple[LevelBound, ...]


@dataclass(frozen=True)
class ScreenEvaluation:
    num_pictures: int
    """Labelled pictures, without those that the screen has learnt from and those that people could not decide."""

    num_learnt: int
    """Left out since the screen has learnt from them."""

    num_undecided: int
    predictors: tuple[PredictorRates, ...]
    categories: tuple[ScreenedCategory, ...]
    missing: Missing


def evaluated(pictures: LabelledFeatures, screen: FittedScreen, is_learnt: Flags) -> ScreenEvaluation:
    """Evaluate a screen on labelled pictures.

    is_learnt: shape (n,), pictures that the screen was fitted on; they are left out.
    """
    members = ~is_learnt & ~pictures.is_undecided
    scores = scores_of(pictures, screen.predictor)
    screened = is_screened(scores, screen.record)
    return ScreenEvaluation(
        num_pictures=int(members.sum()),
        num_learnt=int(is_learnt.sum()),
        num_undecided=int((pictures.is_undecided & ~is_learnt).sum()),
        predictors=tuple(_predictors(pictures, screen, members, scores)),
        categories=tuple(_categories(pictures, members, scores, screened, screen.record.confidence)),
        missing=_missing(pictures, members & pictures.is_even, members, screened, screen.record.confidence),
    )


def _predictors(
    pictures: LabelledFeatures, screen: FittedScreen, members: Flags, scores: Numbers
) -> Iterator[PredictorRates]:
    singles = np.array(
        [_highest([screen.predictor.single_probabilities(view) for view in views]) for views in pictures.views]
    ).reshape(len(pictures), len(screen.record.modalities))
    for number, modality in enumerate(screen.record.modalities):
        yield _rates(modality.name, pictures, members & ~np.isnan(singles[:, number]), singles[:, number])
    yield _rates(f"fusion: {screen.record.fusion}", pictures, members & np.isfinite(scores), scores)


def _highest(views: list[Numbers]) -> Numbers:
    """Return the highest probability of each modality over the views, NaN where a view lacks it. Shape (M,)."""
    return np.asarray(np.stack(views).max(axis=0), dtype=np.float64)


def _rates(name: str, pictures: LabelledFeatures, members: Flags, probabilities: Numbers) -> PredictorRates:
    is_called = probabilities[members] >= IS_PRIVATE_FROM
    weighted = cells(pictures.is_private[members], is_called) * pictures.weights[members][:, None]
    sides = classwise(np.asarray(weighted.sum(axis=0), dtype=np.float64))
    return PredictorRates(name, int(members.sum()), sides.private, sides.public, sides.overall, sides.accuracy)


def _categories(
    pictures: LabelledFeatures, members: Flags, scores: Numbers, screened: Flags, confidence: float
) -> Iterator[ScreenedCategory]:
    for name in sorted({category for category in pictures.categories if category is not None}):
        inside = members & np.array([category == name for category in pictures.categories], dtype=np.bool_)
        judged = _rates(name, pictures, inside & np.isfinite(scores), scores)
        num_private, num_missed = (
            int((inside & pictures.is_private).sum()),
            int((inside & pictures.is_private & screened).sum()),
        )
        high = float(clopper_pearson(num_missed, num_private, 2 * confidence - 1)[1]) if num_private else None
        yield ScreenedCategory(
            name,
            int(inside.sum()),
            num_private,
            judged.weighted.f1,
            judged.private.f1,
            judged.public.f1,
            num_missed,
            high,
        )


def _missing(pictures: LabelledFeatures, even: Flags, members: Flags, screened: Flags, confidence: float) -> Missing:
    """Return what the thresholds leave out.

    even: pictures that were drawn with the same probability as every other picture of the corpus.
    """
    num, num_missed = int((even & pictures.is_private).sum()), int((even & pictures.is_private & screened).sum())
    ends = clopper_pearson(num_missed, num) if num else None
    weights = pictures.weights[members]
    return Missing(
        num_private=num,
        num_missed=num_missed,
        low=None if ends is None else float(ends[0]),
        high=None if ends is None else float(ends[1]),
        passed=float(weights[~screened[members]].sum() / weights.sum()) if len(weights) else None,
        levels=level_bounds(pictures, even, screened, confidence),
    )
