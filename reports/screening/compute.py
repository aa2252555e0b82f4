"""Makes a screen from labelled pictures: the parts, the predictor, its thresholds, and its record."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ingest import __version__
from ingest.errors import LabelsError, number_of
from reports.screening.bounds import (
    category_bounds,
    labelled_counts,
    level_bounds,
    miss_bound,
    promised_levels,
    together,
)
from reports.screening.fitting import FusionChoice, fitted_predictor
from reports.screening.pictures import BOUND, TRAINING, VALIDATION, LabelledFeatures, parts
from reports.statistics.binary import Flags, Numbers
from reports.statistics.recall_bound import num_needed
from reports.words import percent
from scoring.screen.model import Predictor
from scoring.screen.record import MissBound, ModalityName, ScreenRecord

ONCE = "a picture and its near duplicates count once"
ASSUMPTION = {
    "evenly": f"the labelled pictures are a random sample of the pictures that are scanned; {ONCE}",
    "audit": "the scanned pictures are those of the run whose audit drew the labelled ones, and of the drawn pictures "
    f"those without a label are like the others; {ONCE}",
}


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit."""

    target_miss: float
    confidence: float
    target_miss_level_1: float | None
    is_per_category: bool
    guard_share: float
    seed: int


@dataclass(frozen=True)
class MadeScreen:
    """A screen that is not written yet."""

    predictor: Predictor
    record: ScreenRecord
    """Without hashes."""

    choices: tuple[FusionChoice, ...]
    num_training: int
    num_validation: int
    learnt: tuple[str, ...]
    """sha256 of the pictures of training and validation."""


def made_screen(
    pictures: LabelledFeatures,
    identities: Mapping[ModalityName, Mapping[str, str]],
    lengths: Mapping[ModalityName, int],
    settings: FitSettings,
    labels_sha256: str,
    drawn: str,
) -> MadeScreen:
    """Make a screen from labelled pictures.

    identities, lengths: of each modality. drawn: evenly or audit. LabelsError with the number of labels that are
    missing.
    """
    part = parts(pictures, settings.target_miss, settings.confidence, settings.seed)
    fitted = fitted_predictor(pictures, part, identities, lengths, settings.target_miss, settings.seed)
    members = np.asarray(part == BOUND)
    scores = scores_of(pictures, fitted.predictor)
    bound, categories = _bounds(pictures, members, scores, settings)
    record = ScreenRecord(
        privsieve=__version__,
        modalities=fitted.predictor.modalities,
        fusion=fitted.predictor.fusion.kind,
        curve=fitted.predictor.curve,
        target_miss=settings.target_miss,
        confidence=settings.confidence,
        target_miss_level_1=settings.target_miss_level_1,
        bound=bound,
        categories=categories,
        levels=(),
        labelled=labelled_counts(pictures, members, members & False),
        guard_share=settings.guard_share,
        labels_sha256=labels_sha256,
        drawn="audit" if drawn == "audit" else "evenly",
        seed=settings.seed,
        assumption=ASSUMPTION[drawn],
        files={},
        sha256="0" * 64,
    )
    screened = is_screened(pictures, scores, record)
    record = record.model_copy(
        update={
            "levels": promised_levels(
                level_bounds(pictures, members, screened, settings.confidence),
                None if settings.is_per_category else settings.target_miss_level_1,
                settings.confidence,
            ),
            "labelled": labelled_counts(pictures, members, screened),
        }
    )
    is_learnt = np.isin(part, (TRAINING, VALIDATION))
    return MadeScreen(
        predictor=fitted.predictor,
        record=record,
        choices=fitted.choices,
        num_training=int((part == TRAINING).sum()),
        num_validation=int((part == VALIDATION).sum()),
        learnt=tuple(pictures.sha256[number] for number in np.flatnonzero(is_learnt).tolist()),
    )


def scores_of(pictures: LabelledFeatures, predictor: Predictor) -> Numbers:
    """Return `prob_screen` of each picture, shape (n,).

    It is +inf if the screen cannot judge the picture, since the engine then sees it.
    """
    scores = [predictor.highest(views) for views in pictures.views]
    return np.array([np.inf if score is None else score for score in scores], dtype=np.float64)


def is_screened(pictures: LabelledFeatures, scores: Numbers, record: ScreenRecord) -> Flags:
    """Return whether a scan would leave out each picture, apart from its guard. Shape (n,)."""
    thresholds = [record.threshold_of(category) for category in pictures.categories]
    limits = np.array([-np.inf if threshold is None else threshold for threshold in thresholds], dtype=np.float64)
    return np.asarray(scores < limits)


def _bounds(
    pictures: LabelledFeatures, members: Flags, scores: Numbers, settings: FitSettings
) -> tuple[MissBound, dict[str, MissBound] | None]:
    target, level_1, confidence = settings.target_miss, settings.target_miss_level_1, settings.confidence
    if settings.is_per_category:
        categories = category_bounds(pictures, members, scores, target, level_1, confidence)
        return together(categories.values(), target, confidence), categories
    private = members & pictures.is_private
    of_level_1 = private & (pictures.levels == 1)
    undecided = scores[members & pictures.is_undecided]
    bound = miss_bound(scores[private], undecided, scores[of_level_1], target, level_1, confidence)
    if bound is None:
        raise _too_few(int(private.sum()), int(of_level_1.sum()), settings)
    return bound, None


def _too_few(num_private: int, num_level_1: int, settings: FitSettings) -> LabelsError:
    needed = num_needed(1 - settings.target_miss, settings.confidence) or 0
    what, target, num = "private", settings.target_miss, num_private
    if num_private >= needed and settings.target_miss_level_1 is not None:
        needed = num_needed(1 - settings.target_miss_level_1, settings.confidence) or 0
        what, target, num = "level 1", settings.target_miss_level_1, num_level_1
    are = "is" if num == 1 else "are"
    return LabelsError(
        f"a miss rate of at most {percent(target)} with {percent(settings.confidence, decimals=0)} confidence needs "
        f"{needed:,} labelled pictures of {what} that the screen has not learnt from; there {are} "
        f"{number_of(num, 'such picture')}, so {needed - num:,} more are missing: about twice that number, since half "
        "of the labels are for the bound"
    )
