"""A screen: a picture -> `prob_screen`, its probability of being private, and whether it is screened out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ingest.errors import EngineError
from scoring.screen.detected import DetectorAnswers, Frozen, Thumbnail
from scoring.screen.encoder import Encoder, encoder_identity
from scoring.screen.fusion import EDGE, Gate, joined
from scoring.screen.heads import Numbers, logit
from scoring.screen.modalities import Caption, Features, Modality, PictureView
from scoring.screen.record import LogisticCurve, ModalityName, ModalityRecord, ScreenRecord

MAX_LOGIT = math.log((1 - EDGE) / EDGE)

Vectors = Mapping[ModalityName, Features | None]
"""What the modalities say of one view; None where it lacks what they look at."""


@dataclass(frozen=True)
class Predictor:
    """What was learnt: features -> P(private)."""

    modalities: tuple[ModalityRecord, ...]
    heads: Mapping[ModalityName, Numbers]
    """Shape (length + 1,) each."""

    gate: Gate | None
    """None for the mean."""

    curve: LogisticCurve
    """Map of the joined probability."""

    def probability(self, vectors: Vectors) -> float | None:
        """Return P(private) of one view, 0–1; None if it lacks all modalities."""
        singles = np.full(len(self.modalities), np.nan)
        for number, modality in enumerate(self.modalities):
            vector = vectors.get(modality.name)
            if vector is not None:
                singles[number] = curved(logit(vector, self.heads[modality.name]), modality.curve)
        together = float(joined(singles[None], self.gate)[0])
        if math.isnan(together):
            return None
        inside = min(max(together, EDGE), 1 - EDGE)
        return curved(math.log(inside / (1 - inside)), self.curve)

    def highest(self, views: Sequence[Vectors]) -> float | None:
        """Return P(private) of a picture, the highest of its views, rounded as the column `prob_screen` is; None if
        one of them lacks all modalities."""
        known = [each for vectors in views if (each := self.probability(vectors)) is not None]
        return float(np.float32(max(known))) if known and len(known) == len(views) else None


def curved(number: float, curve: LogisticCurve) -> float:
    """Return what a logit means, 0–1."""
    steep = curve.slope * min(max(number, -MAX_LOGIT), MAX_LOGIT) + curve.intercept
    return 1 / (1 + math.exp(-min(max(steep, -50.0), 50.0)))


@dataclass(frozen=True)
class FittedScreen:
    """What was fitted, as it is read from a folder. Sent to each worker of a scan."""

    record: ScreenRecord
    predictor: Predictor

    encoder: bytes | None
    """Content of the ONNX file; None without the modality `encoder`."""

    sha256: str
    """Hash of screen.json, which holds the hashes of the other files."""


_KINDS: Mapping[ModalityName, type[Thumbnail] | type[Frozen] | type[DetectorAnswers] | type[Caption]] = {
    "thumbnail": Thumbnail,
    "frozen": Frozen,
    "detectors": DetectorAnswers,
    "caption": Caption,
}
"""Those without a file of the user's."""


def identity_of(name: ModalityName, encoder: bytes | None) -> dict[str, str]:
    """Return what decides the features of a modality on this machine: their version, and model file -> sha256.
    EngineError if a package or model file is missing."""
    return encoder_identity(encoder or b"") if name == "encoder" else _KINDS[name].identity()


def loaded_modalities(names: Sequence[ModalityName], encoder: bytes | None) -> dict[ModalityName, Modality]:
    """Load the models of modalities. EngineError if a package or model file is missing or wrong."""
    return {name: Encoder(encoder or b"") if name == "encoder" else _KINDS[name]() for name in names}


def refuse_other_features(screen: FittedScreen) -> None:
    """Raise EngineError if this machine would compute other features than those that the screen was fitted on."""
    for modality in screen.record.modalities:
        here = identity_of(modality.name, screen.encoder)
        other = sorted(name for name in {*here, *modality.identity} if here.get(name) != modality.identity.get(name))
        if other:
            raise EngineError(
                f"the screen was fitted with other {other[0]} of the modality {modality.name}; fit it again here, "
                "or scan with the versions of privsieve and OpenVINO that fitted it"
            )


class Screener:
    """A screen with its models loaded. Safe to use from several threads: each model answers one picture at a time."""

    def __init__(self, screen: FittedScreen):
        """EngineError if a package or model file is missing, or another one than the screen was fitted with."""
        refuse_other_features(screen)
        self._screen = screen
        self._modalities = loaded_modalities(tuple(screen.predictor.heads), screen.encoder)
        for modality in screen.record.modalities:
            if self._modalities[modality.name].length != modality.length:
                raise EngineError(f"the screen has other features of the modality {modality.name}; fit it again")

    def probability(self, views: Sequence[PictureView]) -> float | None:
        """Return `prob_screen` of a picture; None if the screen cannot look at one of its views, so that the engine
        must."""
        try:
            vectors = [{name: each.features(seen) for name, each in self._modalities.items()} for seen in views]
        except Exception:  # the edge: what models raise on a hostile picture; the engine looks at it instead
            return None
        return self._screen.predictor.highest(vectors)
