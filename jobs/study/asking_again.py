"""How much the answers depend on the words and the language of the question, as in Samson et al., Tables 6 and 12."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ingest.errors import LabelsError, did_you_mean
from ingest.storage.place import place
from jobs.console.request_options import Names
from jobs.console.requests import Option, Url, Urls, checked_request
from jobs.runtime.progress import Feedback
from jobs.study.points import AskedEngine, folder_of, in_folder, scan_here
from jobs.study.studies import FIGURES
from jobs.tune_set.labelled_pictures import evaluation_pictures
from reports.evaluation.comparing import compare, spread_of
from reports.evaluation.compute import EvaluationOptions, JudgedRun, evaluation_of, judged
from reports.evaluation.results import RunsSpread
from reports.report.opened import open_run
from reports.statistics.intervals import Interval
from reports.statistics.paired import Difference
from reports.words import number
from scoring.labels.table import contradictions, labels_sha256, read_labels
from scoring.protocols.binary import EARLIER_WORDINGS, LANGUAGES, WORDINGS
from scoring.table import Col

Kind = Literal["prompts", "languages"]

ASKED: Mapping[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "prompts": (WORDINGS, LANGUAGES[:1]),
    "languages": (WORDINGS[:1], LANGUAGES),
}
"""Wordings and languages of a study that names none."""


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

    asked: AskedEngine = AskedEngine()
    """What answers."""


@dataclass(frozen=True)
class PromptsResult:
    """One run per wording and language."""

    wordings: tuple[str, ...]
    """The protocols that were asked."""

    spread: RunsSpread
    """Spread of their figures, in the same order."""

    num_rejected: tuple[int | None, ...] = ()
    """Answers of each run that are neither yes nor no, on labelled pictures; they count as the wrong answer. None if no
    picture has a label."""

    intervals: tuple[Mapping[str, Interval], ...] = ()
    """Figure -> 95 % interval for each run: how far it may be off because these pictures were sampled, not others."""

    difference: Difference | None = None
    """The MCC of the best run, that of the worst, and how far they are apart on the same pictures, with its 95 %
    interval; None without an MCC. The two were chosen because they are far apart, so the interval is too narrow for
    wordings that do not differ."""

    kind: Kind = "prompts"


def run_prompts(request: PromptsRequest, feedback: Feedback, kind: Kind = "prompts") -> PromptsResult:
    """Scan with each wording and evaluate. LabelsError if the pictures are also in an evaluation set: a wording that
    was chosen on these would make its figures too good."""
    protocols = _protocols(request, kind)
    folder = folder_of(request.out)
    labels = read_labels(request.labels)
    if caution := contradictions(labels):
        feedback.notice(f"caution: {request.labels}: {caution}")
    runs = list[JudgedRun]()
    with in_folder(folder, _content(request, kind), request.out):
        for name, protocol in protocols.items():
            run = str(folder / name)
            scan_here(request.source, run, request.asked, protocol, feedback)
            if not runs:
                _refuse_shared(request, run)
            runs.append(judged(run, labels))
    evaluations = [evaluation_of(each) for each in runs]
    rejected = tuple(None if each.private is None else each.private.num_rejected for each in evaluations)
    intervals = tuple({} if each.private is None else each.private.intervals for each in evaluations)
    spread = spread_of(evaluations)
    return PromptsResult(tuple(protocols.values()), spread, rejected, intervals, _difference(runs, spread), kind)


def _difference(runs: Sequence[JudgedRun], spread: RunsSpread) -> Difference | None:
    values = spread.private["mcc"].values if "mcc" in spread.private else ()
    known = sorted((value, number) for number, value in enumerate(values) if value is not None)
    if not known or known[0][1] == known[-1][1]:
        return None
    return compare(runs[known[-1][1]], runs[known[0][1]], EvaluationOptions()).private.get("mcc")


def _protocols(request: PromptsRequest, kind: Kind) -> dict[str, str]:
    """Return name of a run's folder -> protocol. LabelsError for an unknown wording or language."""
    wordings, languages = request.wordings or ASKED[kind][0], request.languages or ASKED[kind][1]
    for option, names, known in (("--wordings", wordings, WORDINGS), ("--languages", languages, LANGUAGES)):
        for name in names:
            if name not in known:
                raise LabelsError(
                    f'{option}: there is no "{name}"{did_you_mean(name, known)}; there are: {", ".join(known)}'
                )
    folder = Path(place(request.out).path)
    earlier_names = {now: earlier for earlier, now in EARLIER_WORDINGS.items()}
    endings = [ending for ending in (request.private_list, request.reading) if ending]
    protocols = {}
    for wording in wordings:
        for language in languages:
            name = wording if language == LANGUAGES[0] else f"{wording}-{language}"
            if (folder / earlier_names[wording]).is_dir() and name == wording:
                name = earlier_names[wording]  # a study that an older version began
            parts = [wording, *([language] if language != LANGUAGES[0] else []), *endings]
            protocols[name] = f"binary:{','.join(parts)}"
    if len(protocols) < 2:
        raise LabelsError("one wording in one language has nothing to be compared with; name two of one of them")
    return protocols


def _content(request: PromptsRequest, kind: Kind) -> dict[str, object]:
    """Return what the study is of. The runs in it refuse another model, adapter or text themselves."""
    return {
        "kind": kind,
        "source": request.source,
        "labels": labels_sha256(request.labels),
        "reading": request.reading,
        "evaluation": list(request.evaluation),
    }


def _refuse_shared(request: PromptsRequest, run: str) -> None:
    known = evaluation_pictures(request.evaluation)
    with open_run(run) as opened:
        rows = opened.rows([Col.SHA256, Col.PHASH])
    same = sum(hash_ in known.sha256 for hash_ in rows[Col.SHA256].to_pylist())
    near = sum(known.near(rows[Col.PHASH].to_pylist()))
    if same or near:
        raise LabelsError(
            f"{request.source} shares {max(same, near)} pictures with an evaluation set; choose a wording on others"
        )


def prompts_finding(result: PromptsResult) -> str:
    """Return a sentence on how far apart the best and the worst wording or language are."""
    figures = {**result.spread.private, **result.spread.score}
    name = next((figure for figure in FIGURES if figure in figures), None)
    pairs = zip(result.wordings, figures[name].values, strict=True) if name else ()
    known = sorted((value, wording) for wording, value in pairs if value is not None)
    if name is None or not known:
        return "No wording has a figure."
    (low, worst), (high, best) = known[0], known[-1]
    what = "wordings" if result.kind == "prompts" else "languages"
    sampled = ""
    if result.difference is not None and (ends := result.difference.interval) is not None:
        sampled = f"; on other pictures like these, by {number(ends.low)} to {number(ends.high)} (95 %)"
    return (
        f"The {what} differ by {high - low:.3f} in {FIGURES[name]}: {number(low)} ({worst}) to {number(high)} "
        f"({best}){sampled}."
    )
