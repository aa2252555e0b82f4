"""What `similarity` is asked for."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ingest.errors import PrivsieveError
from jobs.console.requests import Count, HashListUrl, Name, Option, PagePath, Seed, Url, Urls, checked_request
from jobs.similarity.changing import methods_of
from scoring.similarity.encoders import Network

MAX_PAIRS_PER_SET = 10_000_000

Texts = Annotated[tuple[Name, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]


LocalFile = PagePath
"""A file of this machine."""


@checked_request
class CompareRequest:
    originals: Annotated[Url, Option(argument="ORIGINALS")]
    """The pictures before: a folder, tar, Parquet file, glob or URL, as of scan."""

    changed: Annotated[Urls, Option(argument="CHANGED")] = ()
    """The same pictures after, under the same keys: releases, or any other corpora. Each is a set of its own."""

    methods: Annotated[Texts, Option("--method", metavar="NAME=STRENGTH")] = ()
    """Also change the originals in memory, such as blur=3; several times, or "all"."""

    sample: Annotated[int, Field(ge=1, le=MAX_PAIRS_PER_SET)] | None = None
    """Compare only this many originals, drawn at random."""

    seed: Seed = 0
    """Seed of the draw, and of made noise."""

    part: Literal["areas", "whole"] = "areas"
    """Compare the areas in which two pictures differ, or the whole pictures."""

    encoder: Annotated[LocalFile | None, Option(metavar="FILE")] = None
    """An encoder of "similarity train", for SemSim."""

    lpips: Annotated[LocalFile | None, Option(metavar="FILE")] = None
    """LPIPS as an ONNX model with two pictures as inputs."""

    look_again: bool = False
    """Detectors examine both pictures: what share of what they find in the original is still found. Slow."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); pairs with a picture on it are counted and not named."""

    html: PagePath | None = None
    """Write one self-contained page as well, to this file."""

    out: Url | None = None
    """Write a row of each pair to this Parquet file."""

    def __post_init__(self) -> None:
        if not self.changed and not self.methods:
            raise PrivsieveError("there is nothing to compare with: give CHANGED, or --method, such as --method all")
        methods_of(self.methods)
        if self.out is not None and not self.out.endswith(".parquet"):
            raise PrivsieveError(f"--out {self.out}: the rows are written as Parquet; give a name that ends so")


@checked_request
class RankRequest:
    pairs: Annotated[Urls, Option(argument="PAIRS")]
    """Files of "similarity compare --out", one for each collection of originals."""

    labels: Annotated[Url | None, Option(metavar="FILE")] = None
    """What people recognised, as CSV or Parquet with the columns set, key, recognised (0 or 1) and annotator. [default:
    what detectors still found, of --look-again]"""

    def __post_init__(self) -> None:
        if not self.pairs:
            raise PrivsieveError("give at least one file of similarity compare --out")


@checked_request
class SimilarityTrainRequest:
    folders: Annotated[Urls, Option(argument="FOLDER")]
    """Folders with labelled versions of pictures: CLASS/ has originals and versions that people recognised, -CLASS/
    versions that they did not, others/ more of these."""

    out: LocalFile
    """File to write, in safetensors."""

    network: Network = "head"
    """What is trained: one layer over the frozen features, or a whole network over pixels."""

    margin: Annotated[float, Field(gt=0, le=100)] = 1.0
    """How much nearer the recognised version must be."""

    learning_rate: Annotated[float, Field(gt=0, le=10)] = 0.1
    """The step of stochastic gradient descent."""

    batch_size: Count = 128
    """Triplets in a step."""

    epochs: Count = 200
    """Passes over all recognised versions."""

    side_px: Annotated[int, Field(ge=16, le=512)] = 64
    """Side of the square to which a whole network resizes pictures."""

    held_back: Annotated[float, Field(ge=0, le=0.9)] = 0.1
    """Share of the originals that are held back, to judge the encoder."""

    seed: Seed = 0
    """Seed of the weights, the draw and the order."""

    def __post_init__(self) -> None:
        if not self.folders:
            raise PrivsieveError("give at least one folder of labelled versions")
