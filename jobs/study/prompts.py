"""How much the answers depend on the wording of the question, as in Samson et al., Table 12."""

from dataclasses import asdict, dataclass
from pathlib import Path

from ingest.errors import LabelsError
from ingest.storage.place import place
from jobs.runtime.feedback import Feedback
from jobs.scan.request import ScanRequest, ScanResources, Supervision
from jobs.scan.run import run_scan
from jobs.study.points import begin_folder
from jobs.study.request import PromptsRequest
from jobs.tune_set.evaluation_pictures import evaluation_pictures
from reports.evaluation.comparing import spread_of
from reports.evaluation.compute import EvaluationOptions, evaluate_run
from reports.evaluation.results import RunsSpread
from reports.report.opened import open_run
from scoring.assessment import EngineOptions
from scoring.engines.vlm.adapter import adapter
from scoring.engines.vlm.adapter_card import ENGINE
from scoring.engines.vlm.checkpoint import checkpoint
from scoring.labels.contradictions import contradictions
from scoring.labels.table import labels_sha256, read_labels

WORDINGS = ("p1", "p2", "p3", "p4")


@dataclass(frozen=True)
class PromptsResult:
    """One run per wording."""

    wordings: tuple[str, ...]
    spread: RunsSpread
    """Spread of their figures, in the same order."""


def run_prompts(request: PromptsRequest, feedback: Feedback) -> PromptsResult:
    """Scans with each wording and evaluates. LabelsError if the pictures are also in an evaluation set: a wording that
    was chosen on these would make its figures too good."""
    folder = _folder(request)
    labels = read_labels(request.labels)
    if caution := contradictions(labels):
        feedback.notice(f"caution: {request.labels}: {caution}")
    names = [f"binary:{wording}" + (f",{request.reading}" if request.reading else "") for wording in WORDINGS]
    evaluations = []
    for wording, name in zip(WORDINGS, names, strict=True):
        run = str(folder / wording)
        options = EngineOptions(
            model=request.model, adapter=request.adapter, protocol=name, max_pixels=request.max_pixels
        )
        run_scan(
            ScanRequest(request.source, run, engine=ENGINE, options=options),
            ScanResources(executor="inline"),
            Supervision(),
            feedback,
        )
        if wording == WORDINGS[0]:
            _refuse_shared(request, run)
        evaluations.append(evaluate_run(run, labels, EvaluationOptions(num_draws=0)))
    return PromptsResult(tuple(names), spread_of(evaluations))


def _folder(request: PromptsRequest) -> Path:
    where = place(request.out)
    if not where.is_local:
        raise LabelsError(f"{request.out}: a study is written to a folder of this machine")
    folder, content = Path(where.path), {"kind": "prompts", **asdict(request)}
    del content["out"]
    content["evaluation"] = list(request.evaluation)
    content["model"] = checkpoint(request.model, with_weights=True).digest()
    content["adapter"] = None if request.adapter is None else adapter(request.adapter).digest()
    content["labels"] = labels_sha256(request.labels)
    begin_folder(folder, content, request.out)
    return folder


def _refuse_shared(request: PromptsRequest, run: str) -> None:
    known = evaluation_pictures(request.evaluation)
    with open_run(run) as opened:
        rows = opened.rows(["sha256", "phash"])
    same = sum(hash_ in known.sha256 for hash_ in rows["sha256"].to_pylist())
    near = sum(known.near(rows["phash"].to_pylist()))
    if same or near:
        raise LabelsError(
            f"{request.source} shares {max(same, near)} pictures with an evaluation set; choose a wording on others"
        )
