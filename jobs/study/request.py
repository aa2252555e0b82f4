"""What the studies are asked for."""

from dataclasses import field
from typing import Annotated, Literal

import click
from pydantic import Field

from ingest.errors import LabelsError
from jobs.console.engine_options import HEADING, EngineName
from jobs.console.request_options import Names, Numbers
from jobs.console.requests import Below, Count, HashListUrl, Option, Seed, Url, Urls, checked_request
from scoring.assessment import SET_BY_SCANS, EngineOptions
from scoring.engines.picture import DEFAULT_MAX_PIXELS
from scoring.engines.vlm.adapter import ENGINE
from scoring.tuning.targets import PROTOCOLS
from scoring.tuning.vqa import BenchmarkName

TARGETS = [name for name in PROTOCOLS if name != "dialogue"]
PatchesAtLeast = Annotated[int, Field(ge=28 * 28, lt=2**63)]

AskedOptions = Annotated[EngineOptions, HEADING, Below({}, left_out=SET_BY_SCANS | {"protocol", "thresholds"})]
"""Options of an engine in studies that choose the protocol themselves."""


@checked_request
class StudyRequest:
    """What all points of a study share. `study.json` holds these fields, so their names stay."""

    source: Annotated[Url, Option(argument="SOURCE")]
    """Pictures to tune on."""

    labels: Url
    """Labels of SOURCE."""

    evaluation_source: Annotated[Url, Option("--evaluation")]
    """Pictures to evaluate on. None of them, nor a near duplicate, is tuned on."""

    evaluation_labels: Url
    """Labels of the pictures of --evaluation."""

    target: Annotated[str, Option(kind=click.Choice(TARGETS))]
    """What the model learns to answer."""

    model: Url
    """A folder, or a hub name such as owner/name."""

    recipe: Url
    """Hyper-parameters: a shipped name or a YAML file, as in tune."""

    out: Url
    """Folder of the study on this machine; continued if it exists."""

    protocol: str | None = None
    """Protocol of the scans, such as binary:ours-1,first; that of the target by default."""

    prompt_file: bytes | None = None
    """YAML file with wordings that replace the protocol's own, as in scan."""

    max_pixels: PatchesAtLeast = DEFAULT_MAX_PIXELS
    """Width x height of pictures, as in scan."""

    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**32)], ...], Option(kind=Numbers(), default="0")] = (0,)
    """One draw and one tuning each, such as 0,1,2; 0 by default."""

    micro_batch_size: Count = 8
    """Pictures in the memory at once, as in tune."""


@checked_request
class PromptsRequest:
    """Which model is asked about which pictures, in which words. `study.json` holds some of these fields, so their
    names stay."""

    source: Annotated[Url, Option(argument="SOURCE")]
    """Pictures to ask about."""

    labels: Url
    """Labels of SOURCE."""

    out: Url
    """Folder of the study on this machine; continued if it exists."""

    wordings: Annotated[tuple[str, ...] | None, Option(kind=Names())] = None
    """Wordings of the binary protocol, such as ours-1,ours-3. [default: all four for prompts, ours-1 for languages]"""

    languages: Annotated[tuple[str, ...] | None, Option(kind=Names())] = None
    """Languages, such as en,de. [default: en for prompts, all four for languages]"""

    private_list: Literal["class-names", "classes"] | None = None
    """Say what is private: by names, or by definitions."""

    reading: Literal["lenient", "first"] | None = None
    """How answers are read; strictly by default."""

    evaluation: Annotated[Urls, Option("--exclude", metavar="RUN|LABELS")] = ()
    """An evaluation set, as a run or labels file; SOURCE must share nothing with it."""

    engine: EngineName = ENGINE
    """What answers: {}"""

    options: AskedOptions = field(default_factory=EngineOptions)
    """What the engine is given."""


@checked_request
class CounterfactualRequest:
    """Which pictures are asked about again, with the warning that faces are anonymised. `study.json` holds some of
    these fields, so their names stay."""

    runs: Annotated[Urls, Option(argument="RUN...")]
    """Runs of the same pictures; those that all of them call level 1 are candidates, the most confident first."""

    out: Url
    """Folder of the study on this machine, with copies of the pictures; continued if it exists."""

    ask: Annotated[tuple[str, ...], Option(kind=Names(";"), metavar="PROTOCOL;…")] = (
        "severity:zero-shot",
        "severity:taxonomy",
        "json",
    )
    """What is asked, once as it is and once with the warning: protocols with a variant counterfactual, with ; between
    them. [default: severity:zero-shot;severity:taxonomy;json]"""

    num_pictures: Annotated[Count, Option("--n")] = 100
    """Pictures."""

    seed: Seed = 0
    """Seed of the draw among equally confident pictures."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is left out."""

    engine: EngineName = ENGINE
    """What answers: {}"""

    options: AskedOptions = field(default_factory=EngineOptions)
    """What the engine is given."""


@checked_request
class ReasonsRequest:
    """Which pictures a model explains again, and which model sums its sentences up."""

    run: Annotated[Url, Option(argument="RUN")]
    """Run folder or URL whose source is still there."""

    digest_endpoint: Annotated[Url, Option(metavar="URL")]
    """Address of an OpenAI-compatible server that sums up. It gets the sentences, so they leave this machine unless the
    server runs here."""

    digest_model: Annotated[str, Option(metavar="NAME")]
    """Model of --digest-endpoint."""

    by: str = "category"
    """Group by this column or SQL expression, as in report."""

    num_pictures: Annotated[Count, Option("--n")] = 250
    """Random private pictures of each group."""

    top: Count = 15
    """Groups, those with the highest rates."""

    ask: Annotated[str, Option(metavar="PROTOCOL")] = "binary:ours-1,reason"
    """What is asked: the protocol binary with reason."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is left out."""

    engine: EngineName = ENGINE
    """What answers: {}"""

    options: AskedOptions = field(default_factory=EngineOptions)
    """What the engine is given."""


@checked_request
class LabelQualityRequest:
    """Which labels people check."""

    labels: Annotated[Url, Option(argument="LABELS")]
    """Labels file of the data set."""

    out: Url
    """File of the drawn pictures without labels: .parquet, or .csv. Written by the first command."""

    answers: Annotated[Urls, Option(metavar="LABELS|RUN")] = ()
    """What people say of the drawn pictures: labels files, or the reviews of a run; repeatable."""

    num_per_side: Annotated[Count, Option("--n")] = 25
    """Private pictures that are drawn, and as many public ones."""

    seed: Seed = 0
    """Seed of the draw."""


@checked_request
class CostRequest:
    """Which adapter is compared with its base model, on what."""

    adapter: Annotated[Url, Option(argument="ADAPTER")]
    """Folder of a tuned adapter."""

    model: Url
    """A folder, a hub name such as owner/name, or a URL."""

    pictures: Url
    """Corpus of neutral pictures, unlike those of the tuning; with --benchmark the folder of its pictures."""

    num_pictures: Annotated[Count, Option("--n")] = 200
    """Pictures that are drawn; with --benchmark, questions."""

    benchmark: BenchmarkName | None = None
    """Ask its questions, and compare the answers with the right ones, too."""

    questions: Annotated[Urls, Option(metavar="FILE")] = ()
    """Files of --benchmark: of vqav2 the questions, then the annotations; of pope one file; of scienceqa
    problems.json."""

    seed: Seed = 0
    """Seed of the draw of pictures."""

    max_pixels: PatchesAtLeast | None = None
    """Width x height of pictures, as in scan; default what the adapter was tuned with."""

    def __post_init__(self) -> None:
        if (self.benchmark is None) != (not self.questions):
            raise LabelsError("--benchmark and --questions belong together: give both, or neither")
