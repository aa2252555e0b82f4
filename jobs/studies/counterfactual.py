"""What a model says of the most certain level-1 pictures if all faces are to be taken as anonymised.

Source: Tsaprazlis et al., "Rethinking Visual Privacy", the counterfactual probe. The paper does not give its rule for
"highly confident". Here a picture counts if every given run calls it level 1; its certainty is that of the least
certain run.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import pyarrow as pa

from ingest.errors import RunError, number_of
from ingest.storage.place import place
from jobs.console.request_options import Names
from jobs.console.requests import Count, HashListUrl, Option, Seed, Url, Urls, checked_request
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.pictures import PictureRef, clear_rows, pictures_of_run
from jobs.runtime.progress import Feedback
from jobs.studies.points import AskedEngine, folder_of, in_folder, scan_here
from reports.diff.compute import compare_runs
from reports.diff.results import AttributeChange, RunDifference
from reports.report.opened import MayName, open_run
from reports.statistics.paired import interval_of_mean
from reports.words import number
from scoring.severity import BANDS
from scoring.table import Col
from scoring.taxonomy import ATTRIBUTES

LEVEL_1 = tuple(attribute.key for attribute in ATTRIBUTES if attribute.level == 1)
VARIANT = "counterfactual"
PICTURES = "pictures"
WHOLE = "level 1"
"""Group of pictures for which the runs judge no attribute."""


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

    asked: AskedEngine = AskedEngine()
    """What answers."""


@dataclass(frozen=True)
class AskedChange:
    """How one figure changes if faces are to be taken as anonymised."""

    protocol: str
    figure: str
    """holistic_score or score: the mean. An attribute: the share of pictures that show it."""

    group: str | None
    """What of level 1 the pictures show; None for all of them."""

    num_pictures: int
    before: float
    after: float
    change: float
    """after − before."""

    low: float | None
    """95 % interval of `change`, for independent pictures; None if the group is too small for one."""

    high: float | None


@dataclass(frozen=True)
class CounterfactualResult:
    num_candidates: int
    """Pictures that all runs call level 1."""

    num_asked: int
    changes: tuple[AskedChange, ...]


def run_counterfactual(request: CounterfactualRequest, feedback: Feedback) -> CounterfactualResult:
    """Choose the pictures, scan them twice with each protocol, and compare.

    RunError if no picture qualifies, or no answer can be read; LabelsError if `out` holds another study; errors of the
    scans.
    """
    folder = folder_of(request.out)
    candidates = _candidates(request.runs, clear_rows(hash_list_of(request.hash_list), feedback))
    if not candidates:
        raise RunError(f"no picture is of level 1 in {' and '.join(request.runs)}, so there is none to ask about")
    content = {"kind": VARIANT, "runs": list(request.runs), "num_pictures": request.num_pictures, "seed": request.seed}
    with in_folder(folder, content, request.out):
        lots = {each.sha256: hashlib.sha256(f"{request.seed} {each.sha256}".encode()).digest() for each in candidates}
        chosen = sorted(candidates, key=lambda each: (-each.certainty, lots[each.sha256]))
        _copy(request.runs[0], chosen[: request.num_pictures], folder / PICTURES)
        changes: list[AskedChange] = []
        for protocol in request.ask:
            runs = []
            for name in (protocol, f"{protocol}{',' if ':' in protocol else ':'}{VARIANT}"):
                runs.append(str(folder / name.replace(":", "-").replace(",", "-")))
                scan_here(str(folder / PICTURES), runs[-1], request.asked, name, feedback)
            changes += _changes(protocol, compare_runs(runs[0], runs[1]))
    num_asked = sum(1 for file in (folder / PICTURES).rglob("*") if file.is_file())
    if not changes:
        raise RunError(
            f"no answer about the {number_of(num_asked, 'picture')} could be read in both questions: look at the "
            f"runs in {request.out} with privsieve report, or --ask with another protocol"
        )
    return CounterfactualResult(len(candidates), num_asked, tuple(changes))


@dataclass(frozen=True)
class _Candidate:
    sha256: str
    ref: PictureRef
    """In the first run."""

    group: str
    certainty: float
    """0–1, of the least certain run."""


def _candidates(runs: Sequence[str], may_name: MayName) -> list[_Candidate]:
    """Return the pictures that all runs call level 1."""
    of_runs = [_certain(run, may_name) for run in runs]
    return [
        replace(candidate, certainty=min(candidates[sha256].certainty for candidates in of_runs))
        for sha256, candidate in of_runs[0].items()
        if all(sha256 in candidates for candidates in of_runs)
    ]


def _certain(url: str, may_name: MayName) -> dict[str, _Candidate]:
    """Return hash -> picture of level 1 by this run: by its attributes, else by the model's own score."""
    probabilities = [f"prob_{key}" for key in LEVEL_1]
    columns = [Col.SHARD, Col.INDEX, Col.KEY, Col.SHA256, Col.HOLISTIC_SCORE, *LEVEL_1, *probabilities]
    with open_run(url) as run:
        rows = run.rows(columns)
        rows = rows.filter(pa.array(may_name(run, rows), pa.bool_()))
    candidates = dict[str, _Candidate]()
    for row in rows.to_pylist():
        present = [key for key in LEVEL_1 if row[key] == 1]
        certainty = max((_or(row[f"prob_{key}"], 1.0) for key in present), default=None)
        if certainty is None and _or(row[Col.HOLISTIC_SCORE], 0.0) >= BANDS[0][0]:
            certainty = row[Col.HOLISTIC_SCORE]
        if certainty is not None and row[Col.SHA256] is not None:
            ref = PictureRef(row[Col.SHARD], row[Col.INDEX], row[Col.SHA256], row[Col.KEY])
            candidates.setdefault(
                row[Col.SHA256], _Candidate(row[Col.SHA256], ref, "+".join(present) or WHOLE, certainty)
            )
    return candidates


def _or(number: float | None, otherwise: float) -> float:
    return otherwise if number is None else number


def _copy(run: str, chosen: Sequence[_Candidate], folder: Path) -> None:
    """Copy the pictures, one folder per group. RunError if one is not there any more."""
    if folder.is_dir():
        return
    with open_run(run) as opened:
        pictures = pictures_of_run(opened.record, [each.ref for each in chosen])
    unfinished = folder.with_name(f"{folder.name}.part")
    for each in chosen:
        picture = pictures.read(each.ref)
        if picture.state != "found":
            raise RunError(f"{run}: a picture of its source is {picture.state}; restore the source, or scan it again")
        place(str(unfinished / each.group / f"{each.sha256}.jpg")).write(picture.encoded)
    unfinished.rename(folder)


def _changes(protocol: str, difference: RunDifference) -> list[AskedChange]:
    changes: list[AskedChange] = []
    for score in difference.scores:
        for group, mean in ((None, score), *((each.group, each) for each in score.groups)):
            ends = (None, None) if mean.interval is None else (mean.interval.low, mean.interval.high)
            changes.append(
                AskedChange(
                    protocol, score.column, group, mean.num_pictures, mean.mean_a, mean.mean_b, mean.change, *ends
                )
            )
    return changes + [
        _attribute_change(protocol, key, change)
        for key, change in difference.attributes.items()
        if change.num_assessed and (change.num_present_a or change.num_present_b)  # else there is nothing to see
    ]


def _attribute_change(protocol: str, key: str, change: AttributeChange) -> AskedChange:
    num, moved = change.num_assessed, change.num_appeared + change.num_vanished
    mean = (change.num_appeared - change.num_vanished) / num
    deviation = math.sqrt(max(0.0, moved - num * mean**2) / (num - 1)) if num > 1 else 0.0
    before, after = change.num_present_a / num, change.num_present_b / num
    return AskedChange(protocol, key, None, num, before, after, mean, *interval_of_mean(num, mean, deviation))


def counterfactual_finding(result: CounterfactualResult) -> str:
    """Return a sentence on how far the first score moves."""
    first = next((change for change in result.changes if change.group is None and "score" in change.figure), None)
    if first is None:
        return f"{result.num_asked:,} pictures were asked about; no protocol gives a score of all of them."
    size = f"{abs(first.change):.3f}"
    moves = f"falls by {size}" if first.change < 0 else f"rises by {size}" if first.change > 0 else "does not change"
    ends = "" if first.low is None or first.high is None else f" (95 %: {number(first.low)} to {number(first.high)})"
    return (
        f"With faces taken as anonymised, the mean score of {first.protocol} {moves}{ends} on "
        f"{number_of(first.num_pictures, 'picture')}."
    )
