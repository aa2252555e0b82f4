"""What `similarity` is asked for."""

from typing import Annotated, Literal

from pydantic import Field

from ingest.errors import PrivsieveError
from jobs.console.requests import (
    FROM_LIST,
    Count,
    HashListUrl,
    LocalFile,
    Name,
    Option,
    PagePath,
    Seed,
    Url,
    Urls,
    checked_request,
)
from jobs.similarity.changing import methods_of
from scoring.labels.judgements import checked_name
from scoring.similarity.encoders import Network

MAX_PAIRS_PER_SET = 10_000_000

Texts = Annotated[tuple[Name, ...], FROM_LIST]


@checked_request
class CompareRequest:
    originals: Annotated[Url, Option(argument="ORIGINALS")]
    """The pictures before: a folder, tar, Parquet file, glob or URL, as for scan."""

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


Asked = Literal["candidates", "classes", "pairs"]

DECOYS_OF_PAIRS = 0.2
"""Share of decoys among pairs; the source names none."""


@checked_request
class AskRequest:
    originals: Annotated[Url, Option(argument="ORIGINALS")]
    """The pictures before, as for compare."""

    out: Url
    """Folder of the study: its questions and the answers. The same folder goes on with the same study."""

    changed: Annotated[Urls, Option(argument="CHANGED")] = ()
    """The same pictures after, as for compare. Each is a set of its own."""

    methods: Annotated[Texts, Option("--method", metavar="NAME=STRENGTH")] = ()
    """Also change the originals in memory, as compare does; several times, or "all"."""

    asked: Annotated[Asked, Option("--for")] = "candidates"
    """What people choose from: originals, names of classes (the folders of the originals), or whether one original
    next to the changed picture is the same."""

    num_candidates: Annotated[int, Field(ge=2, le=20)] = 20
    """Originals or classes to choose from, besides "none of these"."""

    decoys: Annotated[float, Field(ge=0, le=0.5)] | None = None
    """Share of questions without the right answer, to see who guesses. [default: 0.2 for pairs, else 0]"""

    votes: Count = 5
    """People that are asked about each pair."""

    once: bool = False
    """Ask each person about one version of an original only, since who has seen a clear version knows the others."""

    reviewer: Annotated[Name | None, Option("--as", metavar="NAME")] = None
    """Who looks; without it the page asks for a name."""

    sample: Annotated[int, Field(ge=1, le=MAX_PAIRS_PER_SET)] | None = None
    """Ask about only this many originals, drawn at random: the same ones as compare with this number and seed."""

    seed: Seed = 0
    """Seed of every draw, and of made noise."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is never shown, and only counted."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port of this machine. [default: a free one]"""

    def __post_init__(self) -> None:
        if not self.changed and not self.methods:
            raise PrivsieveError("there is nothing to ask about: give CHANGED, or --method, such as --method all")
        methods_of(self.methods)
        if self.reviewer is not None:
            checked_name(self.reviewer)

    @property
    def decoy_share(self) -> float:
        if self.decoys is not None:
            return self.decoys
        return DECOYS_OF_PAIRS if self.asked == "pairs" else 0.0


@checked_request
class VotesRequest:
    study: Annotated[Url, Option(argument="STUDY")]
    """Folder of "similarity ask --out"."""

    out: Url | None = None
    """Write the votes to this CSV file, for "similarity rank --labels"."""

    min_votes: Count = 5
    """Leave out pairs with fewer votes; they are counted."""

    min_attention: Annotated[float, Field(ge=0, le=1)] | None = None
    """Leave out people who were right on a smaller share of the decoys."""

    def __post_init__(self) -> None:
        if self.out is not None and not self.out.lower().endswith(".csv"):
            raise PrivsieveError(f"--out {self.out}: the votes are written as CSV; give a name that ends so")


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
