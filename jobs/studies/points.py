"""One point of a study: draw a training set, tune, scan the evaluation pictures, evaluate. Each step can continue."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import click
from pydantic import Field

from ingest.errors import IncompleteError, LabelsError, OtherSettingsError, PrivsieveError
from ingest.formats import open_source
from ingest.storage.place import place
from jobs.console.engine_options import HEADING, EngineName
from jobs.console.request_options import Numbers
from jobs.console.requests import Below, Count, Option, Url, checked_request
from jobs.labelling.labels import warn_of_contradictions
from jobs.runtime.progress import Feedback
from jobs.scanning.request import ScanRequest, ScanResources, Supervision
from jobs.scanning.run import run_scan
from jobs.tuning.training_set import TuneSetRequest, run_tune_set
from jobs.tuning.tuning import TuneRequest, installed_packages, run_tune
from reports.evaluation.compute import EvaluationOptions, evaluate_run
from reports.evaluation.results import Evaluation
from scoring.assessment import SET_BY_SCANS, EngineOptions
from scoring.engines.picture import DEFAULT_MAX_PIXELS
from scoring.engines.vlm.adapter import ENGINE
from scoring.engines.vlm.checkpoint import checkpoint
from scoring.labels.table import read_labels
from scoring.runs import SCORES
from scoring.tuning.recipe import other_setting, recipe
from scoring.tuning.targets import PROTOCOLS, Draw

TARGETS = [name for name in PROTOCOLS if name != "dialogue"]
PatchesAtLeast = Annotated[int, Field(ge=28 * 28, lt=2**63)]


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
class AskedEngine:
    """What answers in studies that choose the protocol themselves."""

    engine: EngineName = ENGINE
    """What answers: {}"""

    options: Annotated[EngineOptions, HEADING, Below({}, left_out=SET_BY_SCANS | {"protocol", "thresholds"})] = field(
        default_factory=EngineOptions
    )
    """What the engine is given."""


RECORD = "study.json"
RESULT = "point.json"
UNTUNED = "untuned"
SET, ADAPTER, RUN = "set", "adapter", "run"


@dataclass(frozen=True)
class PointResult:
    """What a scan with one model gave. Figures that are not defined are None."""

    name: str
    num_pictures: int
    """Pictures that the model was tuned on; 0 for the untuned model."""

    seed: int
    left_out: str | None
    """A class of which the model saw no picture."""

    mcc: float | None = None
    """Private or public. A rejection counts as the wrong answer."""

    f1: float | None = None
    recall: float | None = None
    specificity: float | None = None
    num_rejected: int | None = None
    spearman: float | None = None
    """Spearman's ρ of the severity score."""

    mae: float | None = None
    macro_f1: float | None = None
    """Mean over the attributes."""

    classes: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """Private class -> recall, mcc and f1 against exclusive batches of public pictures."""

    cautions: tuple[str, ...] = ()
    """Cautions of the adapter's card."""


def begin(request: StudyRequest, kind: str) -> Path:
    """Begin or continue a study, and return its folder. EngineError if a package is missing. LabelsError if the folder
    holds another study, or other files, or if the protocol does not fit."""
    installed_packages()
    asked = (request.protocol or PROTOCOLS[request.target]).partition(":")[0]
    if asked != PROTOCOLS[request.target]:
        raise LabelsError(
            f"--protocol {request.protocol} does not fit --target {request.target}, which is for "
            f"{PROTOCOLS[request.target]}"
        )
    folder = folder_of(request.out)
    content = {"kind": kind, "keep_ambiguous": False, **asdict(replace(request, seeds=()))}
    content["prompt_file"] = None if request.prompt_file is None else hashlib.sha256(request.prompt_file).hexdigest()
    del content["seeds"], content["out"]
    # What the names refer to: points of other pictures, labels or models are not comparable.
    content["recipe"] = recipe(request.recipe).stored()
    content["model"] = checkpoint(request.model, with_weights=True).digest()
    for name in ("labels", "evaluation_labels"):
        content[name] = hashlib.sha256(place(content[name]).read()).hexdigest()
    for name in ("source", "evaluation_source"):
        content[name] = _fingerprint(content[name])
    begin_folder(folder, content, request.out)
    return folder


def folder_of(out: str) -> Path:
    """Return the folder of a study. LabelsError if it is not of this machine."""
    where = place(out)
    if not where.is_local:
        raise LabelsError(f"{out}: a study is written to a folder of this machine")
    return Path(where.path)


def scan_here(source: str, run: str, asked: AskedEngine, protocol: str, feedback: Feedback) -> None:
    """Scan in this process, as every study does, or continue the scan. Errors as in `run_scan`."""
    request = ScanRequest(source, run, engine=asked.engine, options=replace(asked.options, protocol=protocol))
    try:
        run_scan(request, ScanResources(executor="inline"), Supervision(), feedback)
    except OtherSettingsError as error:
        raise OtherSettingsError(error.what, "give the same, or name another --out") from None


@contextmanager
def in_folder(folder: Path, content: Mapping[str, object], out: str) -> Iterator[None]:
    """Begin a study as `begin_folder` does. Remove a new one that the block refuses before any picture has a row."""
    is_new = not (folder / RECORD).is_file()
    begin_folder(folder, content, out)
    try:
        yield
    except PrivsieveError:
        if is_new and not any(folder.glob(f"*/{SCORES}/*")):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def begin_folder(folder: Path, content: Mapping[str, object], out: str) -> None:
    """Write down what a study is of, or compare it with what is there. LabelsError names the first difference."""
    record = folder / RECORD
    if record.is_file():
        try:
            stored = json.loads(record.read_bytes())
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise LabelsError(f"{out}: its {RECORD} is damaged; name another --out")
        for name, wanted in content.items():
            former = stored.get(name)
            if name == "recipe" and isinstance(former, dict) and isinstance(wanted, dict):
                is_same = other_setting(former, wanted) is None
            else:
                is_same = former == wanted
            if not is_same:
                raise LabelsError(f"{out} holds a study with another {name}; give the same, or name another --out")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LabelsError(f"{out} already exists and holds no study; name another --out")
    else:
        place(str(record)).write(json.dumps(content, indent=1).encode())


def _fingerprint(url: str) -> str:
    """Return the fingerprint of a corpus. It differs if a picture was replaced, added or removed."""
    source = open_source(url, None, None)
    # Without the hash of blocks, so that studies which began before it existed can be continued.
    marks = (f"{shard} {source.fingerprint(shard).partition(' ')[0]}" for shard in source.shards)
    return hashlib.sha256("\n".join(marks).encode("utf-8", "surrogateescape")).hexdigest()


def untuned(request: StudyRequest, folder: Path, feedback: Feedback) -> PointResult:
    """Measure the model as it is. Its run also says which pictures must not be tuned on."""
    warn_of_contradictions([(request.evaluation_labels, read_labels(request.evaluation_labels))], feedback)
    point = PointResult(UNTUNED, 0, 0, None)
    return _measured(request, folder / UNTUNED, point, None, feedback)


def draw_set(request: StudyRequest, folder: Path, name: str, draw: Draw, feedback: Feedback) -> None:
    """Draw the training set of a point, without the pictures of the untuned model's run.

    LabelsError if there are too few pictures: a study draws all its sets before it tunes.
    """
    point_folder = folder / name
    if not (point_folder / SET / "set.json").is_file():
        run_tune_set(
            TuneSetRequest(
                source=request.source,
                labels=request.labels,
                out=str(point_folder / SET),
                target=request.target,
                prompt_file=request.prompt_file,
                draw=draw,
                exclude=(str(folder / UNTUNED / RUN),),
            ),
            feedback,
        )


def tuned(request: StudyRequest, folder: Path, name: str, draw: Draw, feedback: Feedback) -> PointResult:
    """Tune a model on the set of the point, and measure it."""
    point_folder = folder / name
    if (stored := _stored(point_folder)) is not None:
        return stored
    card = run_tune(
        TuneRequest(
            training_set=str(point_folder / SET),
            model=request.model,
            out=str(point_folder / ADAPTER),
            recipe=request.recipe,
            max_pixels=request.max_pixels,
            seed=draw.seed,
            micro_batch_size=request.micro_batch_size,
        ),
        feedback,
    )
    num = card.counts["train"]["pictures"]
    left_out = draw.leave_out[0] if draw.leave_out else None
    point = PointResult(name, num, draw.seed, left_out, cautions=card.cautions)
    return _measured(request, point_folder, point, str(point_folder / ADAPTER), feedback)


def _measured(
    request: StudyRequest, folder: Path, point: PointResult, adapter: str | None, feedback: Feedback
) -> PointResult:
    if (stored := _stored(folder)) is not None:
        return stored
    options = EngineOptions(
        model=request.model,
        adapter=adapter,
        prompt_file=request.prompt_file,
        max_pixels=request.max_pixels,
    )
    protocol = request.protocol or PROTOCOLS[request.target]
    scan_here(request.evaluation_source, str(folder / RUN), AskedEngine(options=options), protocol, feedback)
    labels = read_labels(request.evaluation_labels)
    evaluation = evaluate_run(str(folder / RUN), labels, EvaluationOptions(num_draws=0))
    result = _with_figures(point, evaluation)
    place(str(folder / RESULT)).write(json.dumps(asdict(result), indent=1).encode())
    return result


def _with_figures(point: PointResult, evaluation: Evaluation) -> PointResult:
    private, score, attributes = evaluation.private, evaluation.score, evaluation.attribute_summary
    if private is not None:
        figures = ("mcc", "f1", "recall", "specificity", "num_rejected")
        classes = {row.name: {"recall": row.recall, "mcc": row.mcc, "f1": row.f1} for row in private.per_class}
        point = replace(point, **{name: getattr(private, name) for name in figures}, classes=classes)
    if score is not None:
        point = replace(point, spearman=score.spearman, mae=score.mae)
    if attributes is not None:
        point = replace(point, macro_f1=attributes.macro_f1)
    if private is None and score is None and attributes is None:
        raise IncompleteError(f"{point.name}: the labels of the evaluation pictures judge nothing that the run answers")
    return point


def _stored(folder: Path) -> PointResult | None:
    file = folder / RESULT
    if not file.is_file():
        return None
    content = json.loads(file.read_bytes())
    return PointResult(**content | {"cautions": tuple(content["cautions"])})
