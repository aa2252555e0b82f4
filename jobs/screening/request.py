"""What `screen fit` and `screen evaluate` are asked for."""

import os
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ingest.errors import LabelsError
from jobs.console.requests import HashListUrl, Name, Option, Seed, Url, Urls, checked_request
from reports.labels.joining import Drawn
from scoring.screen.heads import HEAD_KINDS
from scoring.screen.record import ENCODERS, MODALITIES

Share = Annotated[float, Field(gt=0, lt=1)]
Labels = Annotated[Url, Option(metavar="FILE")]

ASKED = tuple(name for name in MODALITIES if name not in ENCODERS[1:])
"""What --modality takes; `encoder` is all of them."""


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, (str, os.PathLike)) else value


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

    category: Name | None = None
    """JSON field (a.b: inside of a), cls, or Parquet column that names a picture's class."""

    cache: Annotated[Url | None, Option(metavar="FOLDER")] = None
    """Keep what the modalities see of pictures, not of captions, in this folder of this machine for the next time."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); no picture on it is shown to the screen."""

    def __post_init__(self) -> None:
        if self.drawn is not None and self.run is None:
            raise LabelsError("--drawn is of the labels of a run: give --run RUN, too, or leave it out")


@checked_request
class SeenRequest:
    """What is seen of a picture."""

    modality: Annotated[Urls, Option(metavar="NAME", offers=ASKED)] = ()
    """thumbnail, frozen, detectors, caption, encoder or text-encoder: what is seen of a picture; repeatable. [default:
    thumbnail, and the encoders that are given]"""

    encoder: Annotated[Urls, BeforeValidator(_several), Option(metavar="FILE.onnx|FOLDER")] = ()
    """ONNX model of one picture, (1, 3, side, side) float32, or folder with a model in the format of transformers; a
    screen holds a copy of it. Up to three, such as one for objects and one for scenes, each a modality of its own."""

    text_encoder: Annotated[Url | None, Option(metavar="FOLDER")] = None
    """Folder with a model of captions, as ONNX (model.onnx) or in the format of transformers, and its tokenizer.json; a
    screen holds a copy of them."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.modality) - set(ASKED))
        if unknown:
            raise LabelsError(f'there is no modality "{unknown[0]:.80}"; there are: {", ".join(ASKED)}')
        if len(set(self.modality)) < len(self.modality):
            raise LabelsError("--modality names one twice; give each once")
        if "encoder" in self.modality and not self.encoder:
            raise LabelsError("--modality encoder needs --encoder FILE.onnx or --encoder FOLDER")
        if "text-encoder" in self.modality and self.text_encoder is None:
            raise LabelsError("--modality text-encoder needs --text-encoder FOLDER")
        if len(self.encoder) > len(ENCODERS):
            raise LabelsError(f"a screen has at most {len(ENCODERS)} encoders, and {len(self.encoder)} are given")


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

    per_category: bool = False
    """A bound for each category; what has none is not screened."""

    sees: SeenRequest = SeenRequest()

    head: Annotated[Urls, Option(metavar="KIND", offers=HEAD_KINDS)] = ()
    """logistic, svm or hidden (a network with one hidden layer): what learns from each modality; repeatable.
    [default: all, and the best on validation pictures is taken]"""

    guard: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Share of the pictures left out that scans give to the engine all the same, to notice a change."""

    seed: Seed = 0
    """Seed of what is drawn."""

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.head) - set(HEAD_KINDS)):
            raise LabelsError(f'there is no head "{unknown[0]:.80}"; there are: {", ".join(HEAD_KINDS)}')


@checked_request
class EvaluateScreenRequest:
    """Which screen is judged by which labels."""

    screen: Annotated[Url, Option(argument="SCREEN")]
    """Folder that `screen fit` wrote."""

    look: LookRequest
