"""What the commands of `labels` are asked for."""

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field

from ingest.errors import LabelsError
from jobs.console.engine_options import HEADING, EngineName
from jobs.console.requests import Below, Count, HashListUrl, Option, Seed, Url, Urls, checked_request
from jobs.screen.request import LookRequest, SeenRequest
from scoring.assessment import SET_BY_SCANS, EngineOptions
from scoring.labels.consensus import Method

ASKED_HERE = frozenset(["protocol", "prompt_file", "thresholds"])
"""Fields of `EngineOptions` that `build dialogues` sets itself."""

Split = Literal["train", "validation", "test"]
Inputs = Annotated[Urls, Option(argument="LABELS_OR_RUN...")]
Share = Annotated[float, Field(ge=0, le=1)]


@checked_request
class ImportRequest:
    name: Annotated[str, Option(argument="NAME")]
    """Name of the importer, such as vispr or csv."""

    root: Annotated[Url, Option(argument="ROOT")]
    """Folder of the data set, or its one file."""

    out: Url
    """Labels file to write: .parquet, or .csv."""

    split: Split | None = None
    """Only this split; data sets without splits get it as their split."""

    annotator: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Who gave the labels; default the name of the data set."""

    mapping: Annotated[Url | None, Option(metavar="FILE")] = None
    """Mapping onto attributes instead of the importer's own: a shipped name or a YAML file."""

    ignore_columns: bool = False
    """csv: leave out every column that is no label; takes no names."""


@checked_request
class ConsensusRequest:
    inputs: Inputs
    """Labels files and runs."""

    out: Url
    """Labels file to write: .parquet, or .csv."""

    method: Method | None = None
    """Default two-annotator if there are two, else dawid-skene."""

    paper_rule: bool = False
    """An attribute without a majority, as where two annotators differ, is 0."""

    min_posterior: Share | None = None
    """dawid-skene: null below this. [default: 0.5]"""


@checked_request
class AgreementRequest:
    inputs: Inputs
    """Labels files and runs."""

    attention_checks: Annotated[Url | None, Option(metavar="LABELS")] = None
    """Labels of pictures whose answer is known."""

    min_attention: Share | None = None
    """Annotators with a smaller share of these right are dropped; PrivacyAlert's rule is 1. [default: 0.75]"""

    against: Annotated[Url | None, Option(metavar="LABELS")] = None
    """Labels of people, whose majority is the reference: how much more often each other annotator finds each
    attribute."""

    paper_rule: bool = False
    """An unclear attribute (0.5) is absent, as in the agreement of CPRT."""

    def __post_init__(self) -> None:
        if self.min_attention is not None and self.attention_checks is None:
            raise LabelsError("--min-attention is of --attention-checks; leave it out, or give both")


@checked_request
class CleanRequest:
    look: LookRequest

    out: Url
    """Labels file to write: the suspicious pictures, without their labels."""

    sees: SeenRequest = SeenRequest()

    max_share: Annotated[float, Field(gt=0, le=0.5)] = 0.1
    """Largest share of the labels that may be suspicious."""

    percentile: Annotated[float, Field(gt=0, lt=100)] | None = None
    """Labels are suspicious below this percentile of the areas of pictures with a class that means nothing;
    PrivacyAlert's is 99. [default: chosen by the self-test]"""

    seed: Seed = 0
    """Seed of the self-test and of the fits."""


@checked_request
class ExportRequest:
    source: Annotated[Url, Option(argument="LABELS_OR_RUN")]
    """A labels file or a run."""

    out: Url
    """File to write; .json for label-studio."""

    format: Literal["label-studio", "csv"]
    """For Label Studio, or a table."""

    image_prefix: str | None = None
    """Before the path of a picture in a task; default /data/local-files/?d= (Label Studio's local storage)."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is left out."""

    def __post_init__(self) -> None:
        if self.image_prefix is not None and self.format != "label-studio":
            raise LabelsError("--image-prefix is for --format label-studio; leave it out")


@checked_request
class VisprRequest:
    root: Annotated[Url, Option(argument="ROOT")]
    """Folder of VISPR, in either layout."""

    out: Url
    """Labels file to write, with a class and split per candidate."""

    like_paper: bool = False
    """Draw as many evaluation pictures of each level as the paper has."""

    labels: Annotated[Url | None, Option(metavar="LABELS")] = None
    """Labels of a consensus, which give the levels."""

    num_tuning: Annotated[Count | None, Option("--tuning", metavar="N")] = None
    """Draw this many tuning pictures at random: the paper has 3,630, of which its 80 steps see 2,048. [default: all]"""

    seed: Seed | None = None
    """Seed of the draws. [default: 0]"""


@checked_request
class KeywordsRequest:
    metadata: Annotated[Url, Option(argument="METADATA")]
    """Parquet, CSV or TSV with URLs and captions, as fetch takes it."""

    out: Url
    """Parquet file to write: url and class, for privsieve fetch."""

    per_class: Count | None = None
    """Draw this many candidates per class."""

    seed: Seed | None = None
    """Seed of the draw of --per-class. [default: 0]"""


@checked_request
class BenchmarkRequest:
    candidates: Annotated[Url, Option(argument="CANDIDATES")]
    """List of URLs with their class that build privbench wrote."""

    run: Annotated[Url, Option("--run", metavar="RUN")]
    """Run over the pictures that fetch got of it."""

    accepted: Annotated[Url, Option(metavar="LABELS")]
    """What people say of them, such as RUN/reviews: private or not."""

    out: Url
    """Folder of the benchmark; a new one."""

    hard: bool = False
    """Also as many hard public pictures."""

    per_class: Count = 20
    """Pictures of each of the eight private classes; of public ones as many as of these together."""

    seed: Seed = 0
    """Seed of the draw."""


@checked_request
class BalancedRequest:
    labels: Annotated[Url, Option(argument="LABELS")]
    """Labels file, one label per picture."""

    out: Url
    """Labels file to write: .parquet, or .csv."""

    seed: Seed = 0
    """Seed of the draw."""


Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@checked_request
class DialoguesRequest:
    source: Annotated[Url, Option(argument="CORPUS")]
    """Folder, tar, Parquet file, glob, brace range, or fsspec URL of the labelled pictures."""

    labels: Url
    """Labels as Parquet or CSV, one per picture: private or not, and the class."""

    out: Annotated[Url, Option(metavar="FILE.jsonl")]
    """File of this machine to write; FILE.jsonl.part keeps what an interrupted command has."""

    engine: EngineName
    """What writes, an engine with a model: {}"""

    options: Annotated[EngineOptions, HEADING, Below({}, left_out=SET_BY_SCANS | ASKED_HERE)] = field(
        default_factory=EngineOptions
    )
    """What the engine is given."""

    num_pictures: Annotated[Count | None, Option("--n")] = None
    """Draw this many labelled pictures at random. [default: all]"""

    yes: bool = False
    """Send the pictures; without it only what that would cost is shown."""

    price_in: Annotated[Price | None, Option(metavar="PRICE")] = None
    """Price of a million tokens that the model reads."""

    price_out: Annotated[Price | None, Option(metavar="PRICE")] = None
    """Price of a million tokens that it writes."""

    seed: Seed = 0
    """Seed of the draw of --n, and of which question is asked for."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); no picture on it is sent."""
