"""Everything that `calibrate` says, as frozen data and as JSON."""

from dataclasses import dataclass

from reports.labels.joining import Drawn, JoinCounts
from reports.statistics.calibration import Calibration


@dataclass(frozen=True)
class SubjectCalibration:
    """The private decision, or one attribute."""

    subject: str
    """"private", or the attribute's key."""

    probability: str
    """Which number of the row was calibrated."""

    num_pictures: int
    """Labelled pictures with a probability."""

    num_present: int
    """How many of these are labelled present (1); 0.5 counts as absent."""

    num_effective: float
    """Number of equally drawn pictures that show it and tell as much as these; `num_present` without weights."""

    before: Calibration
    """Calibration of the probabilities as they were given."""

    after: Calibration | None
    """Calibration of the same pictures, each by a map that was fitted without it."""

    wrong_before: float | None
    """Share of these pictures that the run answers wrong, 0–1; None where the run has no answer."""

    wrong_after: float | None
    """The same by thresholds that were chosen without the picture."""

    threshold: float | None
    """Smallest probability of the model from which it is present, by the map of all pictures; None without a map."""

    note: str | None
    """What a reader must know of the threshold."""


@dataclass(frozen=True)
class CalibrationReport:
    """How well the probabilities agree with labels: one run and its labels."""

    run: str
    engine: str
    cautions: tuple[str, ...]
    has_attributes: bool
    """Whether the run judges attributes. The protocol `binary` asks only whether a picture is private."""

    join: JoinCounts
    drawn: Drawn
    num_drawn: int | None
    """Pictures of the audit sample; None if drawn evenly."""

    num_labelled: int
    num_open: int
    """How many of the labelled pictures are neither private nor public, since some attribute of level 1 or 2 is not
    labelled."""

    num_undecided: dict[str, int]
    """Subject -> pictures on which people differ, or which none could judge; they are in no figure of it."""

    subjects: tuple[SubjectCalibration, ...]
    """The private decision first, then attributes in their order."""

    without: tuple[str, ...]
    """Attributes without a labelled picture that has a probability."""
