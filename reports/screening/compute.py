"""Makes a screen from labelled pictures: the parts, the predictor, its thresholds, and its record.

Heads learn from the training pictures. They are compared on the validation pictures, on which the curves are fitted,
too: a curve has two numbers, and without it the margins of an SVM are no probabilities. Fusions are compared by the log
loss over five folds of the validation pictures, each predicted by a fit on the others. Otherwise stacking and gate
would be judged by the pictures that they have learnt from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

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
from reports.screening.pictures import BOUND, TRAINING, VALIDATION, Groups, LabelledFeatures, first_views, parts
from reports.statistics.binary import Flags, Numbers, cells, known, rates
from reports.statistics.calibration import NUM_FOLDS, Points, folds_of, logits, platt
from reports.statistics.shares import num_needed
from reports.words import percent
from scoring.screen.fusion import KINDS, Fusion, FusionKind, fitted_fusion, log_loss
from scoring.screen.heads import FittedHead, Head, HeadKind, fitted_heads
from scoring.screen.modalities import Features
from scoring.screen.model import Predictor, Vectors, curved
from scoring.screen.record import OF_CAPTIONS, LogisticCurve, MissBound, ModalityName, ModalityRecord, ScreenRecord

MIN_WITH_MODALITY = 10
"""Number of private, and of public, pictures that a modality needs in training and in validation."""

ONCE = "a picture and its near duplicates count once"
ASSUMPTION = {
    "evenly": f"the labelled pictures are a random sample of the pictures that are scanned; {ONCE}",
    "audit": "the scanned pictures are those of the run whose audit drew the labelled ones, and of the drawn pictures "
    f"those without a label are like the others; {ONCE}",
}


@dataclass(frozen=True)
class HeadChoice:
    """How the best head of a kind does on the validation pictures, on which its curve was fitted."""

    modality: ModalityName
    head: str
    """Kind and penalty, such as "svm, 0.01"."""

    log_loss: float
    """Smaller is better; the smallest of the modality is taken."""

    f1: float | None
    """F1 of private where the probability is 0.5 or more."""

    accuracy: float | None
    is_taken: bool = False


@dataclass(frozen=True)
class FusionChoice:
    """How one fusion does on validation pictures that it was not fitted on."""

    name: str
    """A kind of fusion; "single" with the modality that is best alone."""

    log_loss: float
    """Smaller is better; the smallest is taken."""

    f1: float | None
    """F1 of private where the joined probability is 0.5 or more."""

    accuracy: float | None
    passed: float
    """Share of all pictures that would go to the engine if the screen missed exactly the target share of these private
    ones. A figure for the choice: it proves nothing."""

    is_taken: bool = False


@dataclass(frozen=True)
class FittedPredictor:
    predictor: Predictor
    heads: tuple[HeadChoice, ...]
    fusions: tuple[FusionChoice, ...]


def fitted_predictor(
    pictures: LabelledFeatures,
    part: Groups,
    identities: Mapping[ModalityName, Mapping[str, str]],
    lengths: Mapping[ModalityName, int],
    target_miss: float,
    kinds: Sequence[HeadKind],
    seed: int,
) -> FittedPredictor:
    """Fit the predictor of a screen.

    part: of `parts`. identities, lengths: of each modality. kinds: heads that are compared. LabelsError if too few
    pictures have a modality, or no head of these kinds is for it.
    """
    training, validation = part == TRAINING, part == VALIDATION
    records, heads, head_choices = list[ModalityRecord](), dict[ModalityName, Head](), list[HeadChoice]()
    for name, identity in identities.items():
        fitted, curve, compared = _best_head(name, pictures, training, validation, lengths[name], kinds, seed)
        heads[name] = fitted.head
        head_choices += compared
        records.append(
            ModalityRecord(name=name, identity=dict(identity), length=lengths[name], head=fitted.name, curve=curve)
        )
    flat = LogisticCurve(slope=1.0, intercept=0.0)
    before = Predictor(tuple(records), heads, Fusion("mean", {}), flat)
    views = first_views(pictures.views, validation)
    singles = np.array([before.single_probabilities(vectors) for vectors in views]).reshape(len(views), len(records))
    is_seen = ~np.isnan(singles).all(axis=1)
    truth, weights = pictures.is_private[validation][is_seen], pictures.weights[validation][is_seen]
    singles, groups = singles[is_seen], pictures.groups[validation][is_seen]
    joins: tuple[FusionKind, ...] = KINDS if len(records) > 1 else ("single",)
    choices = [_choice(kind, singles, truth, weights, groups, target_miss, seed) for kind in joins]
    best = int(np.argmin([choice.log_loss for choice in choices]))
    fusion = fitted_fusion(joins[best], singles, truth, weights, seed)
    curve = _curve(fusion.joined(singles), truth, weights)
    named = [
        replace(choice, name=_named(kind, singles, truth, weights, records, seed), is_taken=number == best)
        for number, (kind, choice) in enumerate(zip(joins, choices, strict=True))
    ]
    return FittedPredictor(Predictor(tuple(records), heads, fusion, curve), tuple(head_choices), tuple(named))


def _named(
    kind: FusionKind, singles: Numbers, truth: Flags, weights: Numbers, records: list[ModalityRecord], seed: int
) -> str:
    if kind != "single":
        return kind
    fusion = fitted_fusion(kind, singles, truth, weights, seed)
    return f"single: {records[int(fusion.parameters['modality'][0])].name}"


def _best_head(
    name: ModalityName,
    pictures: LabelledFeatures,
    training: Flags,
    validation: Flags,
    length: int,
    kinds: Sequence[HeadKind],
    seed: int,
) -> tuple[FittedHead, LogisticCurve, list[HeadChoice]]:
    """Return the head that is best on validation, its curve, and the best head of each kind."""
    has = np.array([views[0].get(name) is not None for views in pictures.views], dtype=np.bool_)
    for members, of_part in ((training, "learn from"), (validation, "choose by")):
        for is_private, what in ((True, "private"), (False, "public")):
            num = int((has & members & (pictures.is_private == is_private)).sum())
            if num < MIN_WITH_MODALITY:
                seen = "a caption" if name in OF_CAPTIONS else "features of it"
                raise LabelsError(
                    f"the modality {name} needs {MIN_WITH_MODALITY} {what} pictures to {of_part} that have {seen}; "
                    f"there are {num}; leave the modality out, or label more"
                )
    own, held = has & training, has & validation
    vectors = _vectors(pictures, own, name)
    fitted = fitted_heads(vectors, length, pictures.is_private[own], pictures.weights[own], seed, kinds)
    if not fitted:
        raise LabelsError(f"--head hidden is not for the modality {name}, which is a table of words; add --head svm")
    truth, weights = pictures.is_private[held], pictures.weights[held]
    of_validation = _vectors(pictures, held, name)
    compared = list[tuple[HeadChoice, FittedHead, LogisticCurve]]()
    for each in fitted:
        answers = expit([each.head.logit(vector) for vector in of_validation])
        curve = _curve(answers, truth, weights)
        meant = np.array([curved(logit, curve) for logit in logits(answers).tolist()])
        choice = HeadChoice(
            name, each.name, log_loss(meant, truth, weights / weights.sum()), *_f1_and_accuracy(meant, truth, weights)
        )
        compared.append((choice, each, curve))
    best = min(compared, key=lambda each: each[0].log_loss)
    of_kinds = [
        min((each for each in compared if each[1].kind == kind), key=lambda each: each[0].log_loss)
        for kind in dict.fromkeys(each.kind for each in fitted)
    ]
    return best[1], best[2], [replace(each[0], is_taken=each is best) for each in of_kinds]


def _f1_and_accuracy(probabilities: Numbers, truth: Flags, weights: Numbers) -> tuple[float | None, float | None]:
    """Return F1 of private and the accuracy, where 0.5 or more is private."""
    counts = (cells(truth, probabilities >= 0.5) * weights[:, None]).sum(axis=0)
    return known(rates(counts)["f1"]), known(rates(counts)["accuracy"])


def _vectors(pictures: LabelledFeatures, members: Flags, name: ModalityName) -> list[Features]:
    vectors: list[Vectors] = first_views(pictures.views, members)
    return [each for vector in vectors if (each := vector[name]) is not None]


def _choice(
    kind: FusionKind,
    singles: Numbers,
    truth: Flags,
    weights: Numbers,
    groups: Groups,
    target_miss: float,
    seed: int,
) -> FusionChoice:
    joined = np.zeros(len(truth))
    folds = folds_of(Points(truth, joined, weights, groups), seed)
    for fold in range(NUM_FOLDS):
        held = folds == fold
        if not truth[~held].any() or truth[~held].all():
            raise LabelsError("nearly all validation pictures are near duplicates of each other; label others")
        fusion = fitted_fusion(kind, singles[~held], truth[~held], weights[~held], seed)
        curve = _curve(fusion.joined(singles[~held]), truth[~held], weights[~held])
        joined[held] = [curved(logit, curve) for logit in logits(fusion.joined(singles[held])).tolist()]
    threshold = np.quantile(joined[truth], target_miss)
    return FusionChoice(
        kind,
        log_loss(joined, truth, weights / weights.sum()),
        *_f1_and_accuracy(joined, truth, weights),
        float(weights[joined >= threshold].sum() / weights.sum()),
    )


def _curve(probabilities: Numbers, truth: Flags, weights: Numbers) -> LogisticCurve:
    fitted = platt(truth, probabilities, weights)
    return LogisticCurve(slope=fitted.slope, intercept=fitted.intercept)


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit."""

    target_miss: float
    confidence: float
    target_miss_level_1: float | None
    is_per_category: bool
    guard_share: float
    heads: tuple[HeadKind, ...]
    """Kinds that are compared."""

    seed: int


@dataclass(frozen=True)
class MadeScreen:
    """A screen that is not written yet."""

    predictor: Predictor
    record: ScreenRecord
    """Without hashes."""

    heads: tuple[HeadChoice, ...]
    fusions: tuple[FusionChoice, ...]
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
    fitted = fitted_predictor(pictures, part, identities, lengths, settings.target_miss, settings.heads, settings.seed)
    predictor = fitted.predictor
    members = np.asarray(part == BOUND)
    scores = scores_of(pictures, predictor)
    bound, categories = _bounds(pictures, members, scores, settings)
    record = ScreenRecord(
        privsieve=__version__,
        modalities=predictor.modalities,
        fusion=predictor.fusion.kind,
        curve=predictor.curve,
        target_miss=settings.target_miss,
        confidence=settings.confidence,
        target_miss_level_1=settings.target_miss_level_1,
        bound=bound,
        categories=categories,
        levels=(),  # this and `labelled` are set below: they count what a screen with these thresholds leaves out
        labelled=labelled_counts(pictures, members, members & False),
        guard_share=settings.guard_share,
        labels_sha256=labels_sha256,
        drawn="audit" if drawn == "audit" else "evenly",
        seed=settings.seed,
        assumption=ASSUMPTION[drawn],
        files={},  # set, with the hash, when the screen is written
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
        predictor=predictor,
        record=record,
        heads=fitted.heads,
        fusions=fitted.fusions,
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
