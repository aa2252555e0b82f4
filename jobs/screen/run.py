"""`screen fit` and `screen evaluate`: from a request to a result."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ingest.errors import EngineError, LabelsError, StorageError
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from jobs.console.requests import refuse_existing
from jobs.runtime.progress import SILENT, Feedback
from jobs.screen.looking import ScreenPictures, labelled_pictures
from jobs.screen.request import EvaluateScreenRequest, FitRequest, LookRequest, SeenRequest
from reports.screening.compute import FitSettings, MadeScreen, made_screen
from reports.screening.evaluation import ScreenEvaluation, evaluated
from scoring.labels.table import labels_sha256
from scoring.screen.modalities import MAX_ENCODER_BYTES
from scoring.screen.model import FittedScreen, identity_of, loaded_modalities, refuse_other_features
from scoring.screen.record import MODALITIES, ModalityName
from scoring.screen.screen_file import learnt_mark, learnt_pictures, read_screen, write_screen


@dataclass(frozen=True)
class FitResult:
    """A screen, as it was written, and how it was chosen."""

    screen: FittedScreen
    made: MadeScreen
    num_labelled: int


@dataclass(frozen=True)
class EvaluateScreenResult:
    screen: FittedScreen
    evaluation: ScreenEvaluation


def run_screen_fit(request: FitRequest, feedback: Feedback = SILENT) -> FitResult:
    """Fit a screen and write it. LabelsError with the number of labels that is missing; SourceError, EngineError,
    RunError or StorageError in one line. Then nothing is written."""
    refuse_existing(request.out)
    encoder = encoder_of(request.sees)
    names = modalities_of(request.sees)
    identities = {name: identity_of(name, encoder) for name in names}
    modalities = loaded_modalities(names, encoder, cache_of(request.look, encoder))
    labelled = labelled_pictures(request.look, modalities, feedback)
    settings = FitSettings(
        target_miss=request.target_miss,
        confidence=request.confidence,
        target_miss_level_1=request.target_miss_level_1,
        is_per_category=request.per_category,
        guard_share=request.guard,
        seed=request.seed,
    )
    lengths = {name: modality.length for name, modality in modalities.items()}
    digest = labels_sha256(request.look.labels)
    made = made_screen(labelled.pictures, identities, lengths, settings, digest, labelled.drawn)
    learnt = np.array(sorted(map(learnt_mark, made.learnt)), dtype=np.uint64)
    try:
        screen = write_screen(request.out, made.record, made.predictor, learnt, encoder)
    except BaseException:
        if place(request.out).is_local:
            shutil.rmtree(place(request.out).path, ignore_errors=True)  # it did not exist before
        raise
    return FitResult(screen, made, len(labelled.pictures))


def run_screen_evaluate(request: EvaluateScreenRequest, feedback: Feedback = SILENT) -> EvaluateScreenResult:
    """Evaluate a screen. Other errors are as of `run_screen_fit`. LabelsError if no label is of another picture than
    those that the screen has learnt from."""
    screen = read_screen(request.screen)
    refuse_other_features(screen)
    modalities = loaded_modalities(
        tuple(screen.predictor.heads), screen.encoder, cache_of(request.look, screen.encoder)
    )
    if labels_sha256(request.look.labels) == screen.record.labels_sha256:
        feedback.notice(
            "caution: the thresholds were chosen by these labels, so what they miss here proves nothing new"
        )
    labelled = labelled_pictures(request.look, modalities, feedback)
    is_learnt = _is_learnt(labelled, request.screen)
    if is_learnt.all():
        raise LabelsError("the screen has learnt from all of these pictures; evaluate it by labels of others")
    return EvaluateScreenResult(screen, evaluated(labelled.pictures, screen, is_learnt))


def _is_learnt(labelled: ScreenPictures, screen: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    learnt = learnt_pictures(screen)
    return np.array([learnt_mark(sha256) in learnt for sha256 in labelled.pictures.sha256], dtype=np.bool_)


def modalities_of(request: SeenRequest) -> tuple[ModalityName, ...]:
    """Return what is seen of a picture. LabelsError if an encoder is given, and the modalities leave it out."""
    if not request.modality:
        return ("thumbnail",) if request.encoder is None else ("thumbnail", "encoder")
    if request.encoder is not None and "encoder" not in request.modality:
        raise LabelsError("--encoder is given, and --modality does not name encoder; add it, or leave --encoder out")
    return tuple(name for name in MODALITIES if name in request.modality)


def encoder_of(request: SeenRequest) -> bytes | None:
    """Return the content of the ONNX file. EngineError or StorageError if it cannot be used."""
    if request.encoder is None:
        return None
    if not request.encoder.lower().endswith(".onnx"):
        raise EngineError(f"--encoder {request.encoder}: give one .onnx file that holds its own weights")
    return given_content(place(request.encoder), request.encoder, MAX_ENCODER_BYTES)


def cache_of(request: LookRequest, encoder: bytes | None) -> Path | None:
    """Return the folder of the cache. LabelsError without an encoder; StorageError if it is not of this machine."""
    if request.cache is None:
        return None
    if encoder is None:
        raise LabelsError("--cache keeps the embeddings of an encoder, and there is none; leave it out")
    folder = place(request.cache)
    if not folder.is_local:
        raise StorageError(f"--cache {request.cache}: give a folder of this machine")
    return Path(folder.path)
