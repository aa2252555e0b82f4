"""`screen.json`: what a screen says of itself. The numbers that it has learnt are in `screen.safetensors`."""

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ingest.storage.file_format import FORMAT, Format
from scoring.screen.fusion import FusionKind

ModalityName = Literal["thumbnail", "frozen", "detectors", "caption", "encoder"]
MODALITIES: tuple[ModalityName, ...] = get_args(ModalityName)

Count = Annotated[int, Field(ge=0, lt=2**63)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LogisticCurve(_Part):
    """Platt's curve over the logit: what a logit means as a probability."""

    slope: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    intercept: Finite


class ModalityRecord(_Part):
    name: ModalityName

    identity: dict[str, str]
    """What decides the features: their version, and model file -> sha256. A scan refuses another one."""

    length: Annotated[int, Field(ge=1, lt=2**24)]
    """Number of features."""

    penalty: float
    """Of the head, chosen on validation (`scoring.screen.heads.PENALTIES`)."""

    curve: LogisticCurve


class MissBound(_Part):
    """What labels prove of the miss rate: the share of the private pictures that are screened out."""

    threshold: Share
    """Pictures below it are screened out."""

    num_private: Count
    """Labelled private pictures, none of which the screen has learnt from; those that people could not decide count
    where that lowers the threshold."""

    num_missed: Count
    """How many of them are below the threshold."""

    miss_high: Share
    """Upper end of the exact one-sided interval of the miss rate (Clopper and Pearson 1934)."""


class LevelBound(_Part):
    """The miss rate of the private pictures of one level, at the thresholds of the screen."""

    level: Literal[1, 2]
    num_private: Count
    num_missed: Count
    miss_high: Share | None
    """Upper end of the exact one-sided interval; None in a screen whose thresholds these pictures helped to choose,
    unless the level has a target of its own."""


class Labelled(_Part):
    """The labelled pictures of which the bound is made: how many there are, and how many the screen leaves out.

    They are an even sample of the corpus, so that they say what a scan will find."""

    num_pictures: Count
    num_private: Count
    num_screened: Count


class ScreenRecord(_Part):
    """Everything about a screen but what it has learnt."""

    format: Format = FORMAT
    privsieve: str
    modalities: Annotated[tuple[ModalityRecord, ...], Field(min_length=1)]
    fusion: FusionKind
    curve: LogisticCurve
    """Map of the joined probability."""

    target_miss: Annotated[float, Field(gt=0, lt=1)]
    confidence: Annotated[float, Field(gt=0, lt=1)]

    target_miss_level_1: Annotated[float, Field(gt=0, lt=1)] | None
    """The bound that level 1 has apart; None if only the bound of all private pictures was asked for."""

    bound: MissBound
    """Bound for all private pictures."""

    categories: None = None
    """Version 1.0 had bounds of single categories; such a screen is refused."""

    levels: tuple[LevelBound, ...]
    """From labels that give attributes; labels that say only private or public have no level."""

    labelled: Labelled

    guard_share: Annotated[float, Field(gt=0, le=1)]
    """Share of the screened pictures that go to the engine all the same."""

    labels_sha256: Sha256
    drawn: Literal["evenly", "audit"]
    seed: Count

    assumption: str
    """What must be true for the bound."""

    files: dict[str, Sha256]
    """File of the folder -> sha256."""

    sha256: Sha256
    """Hash of everything else here, so that a threshold that was changed by hand is noticed."""

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> "ScreenRecord":
        names = [modality.name for modality in self.modalities]
        if len(set(names)) < len(names):
            raise ValueError("a modality is named twice")
        return self
