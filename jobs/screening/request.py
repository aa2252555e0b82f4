"""What `screen fit` is asked for."""

from typing import Annotated

from pydantic import Field

from ingest.errors import LabelsError
from jobs.console.requests import HashListUrl, Option, Seed, Url, Urls, checked_request
from reports.labels.joining import Drawn
from scoring.screen.record import MODALITIES, ModalityName

Share = Annotated[float, Field(gt=0, lt=1)]
Labels = Annotated[Url, Option(metavar="FILE")]


@checked_request
class LookRequest:
    """Which labelled pictures of a corpus a screen sees."""

    source: Annotated[Url, Option(argument="CORPUS")]
    """Folder, tar, Parquet file, picture, glob, brace range, or fsspec URL of the pictures that are labelled."""

    labels: Labels
    """Labels as Parquet or CSV, of one or several people, or RUN/reviews."""

    run: Annotated[Url | None, Option("--run", metavar="RUN")] = None
    """Run over the corpus: only its labelled pictures are read, and if the labels are of its audit sample, their
    probabilities count."""

    drawn: Drawn | None = None
    """With --run: how the labelled pictures were drawn. [default: audit if all are of the audit sample]"""

    source_format: str | None = None
    """webdataset, tree or parquet; recognised by default."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); no picture on it is shown to the screen."""

    def __post_init__(self) -> None:
        if self.drawn is not None and self.run is None:
            raise LabelsError("--drawn is of the labels of a run: give --run RUN, too, or leave it out")


@checked_request
class SeenRequest:
    """What is seen of a picture."""

    modality: Annotated[Urls, Option(metavar="NAME", offers=MODALITIES)] = ()
    """thumbnail, frozen, detectors, caption or encoder: what is seen of a picture; repeatable. [default: thumbnail, and
    the encoder that is given]"""

    encoder: Annotated[Url | None, Option(metavar="FILE.onnx")] = None
    """ONNX model of one picture, (1, 3, side, side) float32; a screen holds a copy of it."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.modality) - set(MODALITIES))
        if unknown:
            raise LabelsError(f'there is no modality "{unknown[0]:.80}"; there are: {", ".join(MODALITIES)}')
        if len(set(self.modality)) < len(self.modality):
            raise LabelsError("--modality names one twice; give each once")
        if "encoder" in self.modality and self.encoder is None:
            raise LabelsError("--modality encoder needs --encoder FILE.onnx")
        if self.modality and self.encoder is not None and "encoder" not in self.modality:
            raise LabelsError("--encoder is given, and --modality does not name encoder; add --modality encoder")

    @property
    def names(self) -> tuple[ModalityName, ...]:
        asked = self.modality or ("thumbnail", *(() if self.encoder is None else ("encoder",)))
        return tuple(name for name in MODALITIES if name in asked)


@checked_request
class FitRequest:
    """What a screen must keep to, and what it looks at."""

    look: LookRequest

    out: Annotated[Url, Option(metavar="SCREEN")]
    """Folder of the screen; a new one."""

    target_miss: Share = 0.01
    """Largest share of the private pictures that may be left out."""

    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """Probability, over draws of labels, that no more than this share is left out."""

    target_miss_level_1: Share | None = None
    """The same for the private pictures of level 1 alone; by default their miss rate is only shown."""

    sees: SeenRequest = SeenRequest()

    guard: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Share of the pictures left out that scans give to the engine all the same, to notice a change."""

    seed: Seed = 0
    """Seed of what is drawn."""
