"""Makes a screen from labelled pictures: the parts, the predictor, its thresholds, and its record.

Heads learn from the training pictures. Their penalties are compared on the validation pictures, on which the curves are
fitted, too. Mean and gate are compared by the log loss over five folds of the validation pictures, each predicted by a
fit on the others. Otherwise the gate would be judged by the pictures that it has learnt from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import expit

from ingest import __version__
from ingest.errors import LabelsError, number_of
from reports.screening.bounds import labelled_counts, miss_bound, promised_levels
from reports.screening.pictures import BOUND, TRAINING, VALIDATION, Groups, LabelledFeatures, parts
from reports.statistics.binary import Flags, Numbers, cells, known, rates
from reports.statistics.calibration import NUM_FOLDS, Points, folds_of, logits, platt
from reports.statistics.shares import num_needed
from reports.words import percent
from scoring.screen.fusion import KINDS, FusionKind, Gate, fitted_gate, joined, log_loss
from scoring.screen.heads import fitted_heads, logit
from scoring.screen.modalities import Features
from scoring.screen.model import Predictor, curved
from scoring.screen.record import LogisticCurve, MissBound, ModalityName, ModalityRecord, ScreenRecord

MIN_WITH_MODALITY = 10
"""Number of private, and of public, pictures that a modality needs in training and in validation."""

ONCE = "a picture and its near duplicates count once"
ASSUMPTION = {
    "evenly": f"the labels are right, and of a random sample of the pictures that are scanned; {ONCE}",
    "audit": "the labels are right, the scanned pictures are those of the run whose audit drew the labelled ones, and "
    f"of the drawn pictures those without a label are like the others; {ONCE}",
}


@dataclass(frozen=True)
class Tried:
    """How a modality alone, or a fusion of all, does on validation pictures. The curve of a modality was fitted on
    these; a fusion is judged by others than it was fitted on."""

    name: str
    """A modality, or mean or gate."""

    log_loss: float
    """Smaller is better; the fusion with the smaller one is taken."""

    f1: float | None
    """F1 of private where the probability is 0.5 or more."""

    accuracy: float | None
    passed: float
    """Share of the pictures that would go to the engine if the screen missed exactly the target share of the private
    ones. A figure for the choice: it proves nothing."""

    is_taken: bool = True


def _fitted_predictor(
    pictures: LabelledFeatures,
    part: Groups,
    identities: Mapping[ModalityName, Mapping[str, str]],
    lengths: Mapping[ModalityName, int],
    target_miss: float,
    seed: int,
) -> tuple[Predictor, tuple[Tried, ...]]:
    """Fit the predictor of a screen. part: of `parts`. LabelsError if too few pictures have a modality."""
    tried, records, heads = list[Tried](), list[ModalityRecord](), dict[ModalityName, Numbers]()
    validation = np.flatnonzero(part == VALIDATION)
    singles = np.full((len(validation), len(identities)), np.nan)
    for column, (name, identity) in enumerate(identities.items()):
        penalty, heads[name], curve, meant = _best_head(name, pictures, part, lengths[name])
        length = lengths[name]
        records.append(ModalityRecord(name=name, identity=dict(identity), length=length, penalty=penalty, curve=curve))
        has = ~np.isnan(meant)
        of_these = validation[has]
        singles[:, column] = meant
        truth, weights = pictures.is_private[of_these], pictures.weights[of_these]
        tried.append(_tried(name, meant[has], truth, weights, target_miss))
    is_seen = ~np.isnan(singles).all(axis=1)
    singles, seen = singles[is_seen], validation[is_seen]
    truth, weights = pictures.is_private[seen], pictures.weights[seen]
    kind: FusionKind = "mean"
    if len(records) > 1:
        folds = folds_of(Points(truth, np.zeros(len(truth)), weights, pictures.groups[seen]), seed)
        fusions = [
            _tried(each, _held_out(each, singles, truth, weights, folds, seed), truth, weights, target_miss)
            for each in KINDS
        ]
        kind = KINDS[int(np.argmin([each.log_loss for each in fusions]))]
        tried += [replace(each, is_taken=each.name == kind) for each in fusions]
    gate, curve = _fitted_fusion(kind, singles, truth, weights, seed)
    return Predictor(tuple(records), heads, gate, curve), tuple(tried)


def _best_head(
    name: ModalityName, pictures: LabelledFeatures, part: Groups, length: int
) -> tuple[float, Numbers, LogisticCurve, Numbers]:
    """Return penalty, head and curve that are best on validation, and what they say of each picture of it, NaN if that
    lacks the modality. Heads are fitted on the first view of a picture."""
    firsts = [views[0].get(name) for views in pictures.views]
    has = np.array([first is not None for first in firsts], dtype=np.bool_)

    def members(of_part: int) -> tuple[list[Features], Flags, Numbers]:
        chosen = np.flatnonzero(has & (part == of_part))
        truth = pictures.is_private[chosen]
        for what, num in (("private", int(truth.sum())), ("public", int((~truth).sum()))):
            if num < MIN_WITH_MODALITY:
                purpose = "learn from" if of_part == TRAINING else "choose by"
                seen = "a caption" if name == "caption" else "features of it"
                raise LabelsError(
                    f"the modality {name} needs {MIN_WITH_MODALITY} {what} pictures to {purpose} that have {seen}; "
                    f"there are {num}; leave the modality out, or label more"
                )
        return [each for number in chosen if (each := firsts[number]) is not None], truth, pictures.weights[chosen]

    learnt, truth, weights = members(TRAINING)
    held, held_truth, held_weights = members(VALIDATION)
    best = (np.inf, 0.0, np.empty(0), LogisticCurve(slope=1.0, intercept=0.0), np.empty(0))
    for penalty, head in fitted_heads(learnt, length, truth, weights).items():
        answers = expit([logit(features, head) for features in held])
        curve = _curve(answers, held_truth, held_weights)
        meant = _curved(answers, curve)
        loss = log_loss(meant, held_truth, held_weights)
        if loss < best[0]:
            best = (loss, penalty, head, curve, meant)
    _, penalty, head, curve, meant = best
    answered = np.full(int((part == VALIDATION).sum()), np.nan)
    answered[has[part == VALIDATION]] = meant
    return penalty, head, curve, answered


def _tried(name: str, probabilities: Numbers, truth: Flags, weights: Numbers, target_miss: float) -> Tried:
    counts = (cells(truth, probabilities >= 0.5) * weights[:, None]).sum(axis=0)
    threshold = np.quantile(probabilities[truth], target_miss)
    return Tried(
        name,
        log_loss(probabilities, truth, weights),
        known(rates(counts)["f1"]),
        known(rates(counts)["accuracy"]),
        float(weights[probabilities >= threshold].sum() / weights.sum()),
    )


def _held_out(kind: FusionKind, singles: Numbers, truth: Flags, weights: Numbers, folds: Groups, seed: int) -> Numbers:
    """Return the joined probabilities, each by a fit on the other folds; shape (n,)."""
    meant = np.zeros(len(truth))
    for fold in range(NUM_FOLDS):
        held = folds == fold
        if not truth[~held].any() or truth[~held].all():
            raise LabelsError("nearly all validation pictures are near duplicates of each other; label others")
        gate, curve = _fitted_fusion(kind, singles[~held], truth[~held], weights[~held], seed)
        meant[held] = _curved(joined(singles[held], gate), curve)
    return meant


def _fitted_fusion(
    kind: FusionKind, singles: Numbers, truth: Flags, weights: Numbers, seed: int
) -> tuple[Gate | None, LogisticCurve]:
    gate = fitted_gate(singles, truth, weights, seed) if kind == "gate" else None
    return gate, _curve(joined(singles, gate), truth, weights)


def _curve(probabilities: Numbers, truth: Flags, weights: Numbers) -> LogisticCurve:
    fitted = platt(truth, probabilities, weights)
    return LogisticCurve(slope=fitted.slope, intercept=fitted.intercept)


def _curved(probabilities: Numbers, curve: LogisticCurve) -> Numbers:
    return np.array([curved(each, curve) for each in logits(probabilities).tolist()], dtype=np.float64)


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit."""

    target_miss: float
    confidence: float
    target_miss_level_1: float | None
    guard_share: float
    seed: int


@dataclass(frozen=True)
class MadeScreen:
    """A screen that is not written yet."""

    predictor: Predictor
    record: ScreenRecord
    """Without hashes."""

    tried: tuple[Tried, ...]
    """Each modality; and mean and gate, if there are several."""

    num_training: int
    num_validation: int


def made_screen(
    pictures: LabelledFeatures,
    identities: Mapping[ModalityName, Mapping[str, str]],
    lengths: Mapping[ModalityName, int],
    settings: FitSettings,
    labels_sha256: str,
    drawn: Literal["audit", "evenly"],
) -> MadeScreen:
    """Make a screen from labelled pictures.

    identities, lengths: of each modality. LabelsError with the number of labels that are missing.
    """
    part = parts(pictures, settings.target_miss, settings.confidence, settings.seed)
    predictor, tried = _fitted_predictor(pictures, part, identities, lengths, settings.target_miss, settings.seed)
    members = np.asarray(part == BOUND)
    scores = scores_of(pictures, predictor)
    bound = _bound(pictures, members, scores, settings)
    record = ScreenRecord(
        privsieve=__version__,
        modalities=predictor.modalities,
        fusion="mean" if predictor.gate is None else "gate",
        curve=predictor.curve,
        target_miss=settings.target_miss,
        confidence=settings.confidence,
        target_miss_level_1=settings.target_miss_level_1,
        bound=bound,
        levels=(),  # this and `labelled` are set below: they count what a screen with these thresholds leaves out
        labelled=labelled_counts(pictures, members, members & False),
        guard_share=settings.guard_share,
        labels_sha256=labels_sha256,
        drawn=drawn,
        seed=settings.seed,
        assumption=ASSUMPTION[drawn],
        files={},  # set, with the hash, when the screen is written
        sha256="0" * 64,
    )
    screened = is_screened(scores, record)
    record = record.model_copy(
        update={
            "levels": promised_levels(pictures, members, screened, settings.target_miss_level_1, settings.confidence),
            "labelled": labelled_counts(pictures, members, screened),
        }
    )
    return MadeScreen(
        predictor=predictor,
        record=record,
        tried=tried,
        num_training=int((part == TRAINING).sum()),
        num_validation=int((part == VALIDATION).sum()),
    )


def scores_of(pictures: LabelledFeatures, predictor: Predictor) -> Numbers:
    """Return `prob_screen` of each picture, shape (n,).

    It is +inf if the screen cannot judge the picture, since the engine then sees it.
    """
    scores = [predictor.highest(views) for views in pictures.views]
    return np.array([np.inf if score is None else score for score in scores], dtype=np.float64)


def is_screened(scores: Numbers, record: ScreenRecord) -> Flags:
    """Return whether a scan would leave out each picture, apart from its guard. Shape (n,)."""
    return np.asarray(scores < record.bound.threshold)


def _bound(pictures: LabelledFeatures, members: Flags, scores: Numbers, settings: FitSettings) -> MissBound:
    private = members & pictures.is_private
    level_1 = scores[private & (pictures.levels == 1)]
    undecided = scores[members & pictures.is_undecided]
    target, target_level_1 = settings.target_miss, settings.target_miss_level_1
    bound = miss_bound(scores[private], undecided, level_1, target, target_level_1, settings.confidence)
    if bound is None:
        raise _too_few(int(private.sum()), len(level_1), settings)
    return bound


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
