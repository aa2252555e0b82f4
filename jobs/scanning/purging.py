"""`privsieve purge RUN|STUDY`: deletes what a run or a study of people knows of single pictures, and keeps its figures.

The figures are written first, then `purged.json`; then the rest is deleted. Once `purged.json` exists, no command reads
the folder. The same command again deletes what an interruption has left.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from ingest import __version__
from ingest.errors import RunError
from ingest.formats.shard import files_below
from ingest.sample import printable
from ingest.storage.place import Place, place
from ingest.storage.removal import remove_tree
from jobs.console.requests import Option, Url, checked_request
from jobs.console.terminal import as_json
from jobs.reporting.reporting import report_facts, run_report
from jobs.reporting.request import ReportRequest
from jobs.runtime.progress import SILENT, Feedback
from reports.similarity.recognised import VOTES_COLUMNS, votes_of
from scoring.labels.label_files import as_csv
from scoring.labels.recognition import QUESTIONS, kind_of_file, read_questions, standing_answers, study_answers
from scoring.labels.reviews import SHOWN
from scoring.runs import (
    ATTEMPTS,
    AUDIT,
    AUDIT_LEASE,
    CANARY,
    COMPACT,
    ENGINE_TIME,
    FIGURES,
    MANIFEST,
    PURGED,
    REVIEWS,
    RUN_LEASE,
    RUN_RECORD,
    SCORES,
)
from scoring.runs.lease import lease
from scoring.runs.record import parsed, read_record

OF_PICTURES = (REVIEWS, AUDIT, AUDIT_LEASE, CANARY, ATTEMPTS, MANIFEST, COMPACT, SCORES)
"""Files and folders of a run that say something of single pictures or of the people who judged them."""


VOTES = "votes"
"""Files of `similarity votes --out` in the folder of a study."""


OF_PEOPLE = (VOTES, SHOWN, "answers", QUESTIONS)
"""The same of a study, as `kind_of_file` names its files."""


STAYS = (RUN_RECORD, PURGED, FIGURES, ENGINE_TIME, RUN_LEASE)


REPORT = "report.json"


STUDY_REPORT = "votes.json"


_VOTES_HEAD = as_csv(pa.table({name: pa.array([], pa.string()) for name in VOTES_COLUMNS}))


class _Purged(BaseModel):
    """`purged.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on: str
    """Day, as 2026-11-24."""

    privsieve: str

    run_sha256: str | None = None
    """Hash of `run.json`; None for a study."""

    study_sha256: str | None = None
    """Hash of the questions of a study; None for a run."""

    deleted: dict[str, int]
    """File or folder of the run, or kind of file of the study -> number of files."""

    figures: dict[str, str]
    """File below the folder -> sha256 in hex."""


@checked_request
class PurgeRequest:
    run: Annotated[Url, Option(argument="RUN|STUDY")]
    """Folder or fsspec URL of the run, or of a study of people (similarity ask --out)."""

    yes: bool = False
    """Delete. Without it nothing is written or deleted, and the command says what would be."""


@dataclass(frozen=True)
class PurgeResult:
    deleted: dict[str, int]
    """File or folder of the run, or kind of file of the study -> number of files that were, or would be, deleted."""

    left: tuple[str, ...]
    """What else is in the folder: privsieve did not write it there."""

    purged_before: str | None = None
    """The day on which an earlier purge began; None if this one is the first."""

    is_study: bool = False
    """The folder is a study of people, and no run."""

    @property
    def figures(self) -> str:
        """Return the file below the folder that has the figures."""
        return f"{FIGURES}/{STUDY_REPORT if self.is_study else REPORT}"


def run_purge(request: PurgeRequest, feedback: Feedback = SILENT) -> PurgeResult:
    """Purge a run or a study. RunError if there is neither, if a command works on the run, or if one of its folders is
    a link; the errors of a report, LabelsError of a study."""
    root = place(request.run)
    before = _purged(root)
    if before is not None:
        is_study = before.study_sha256 is not None
    elif not (is_study := root.at(QUESTIONS).exists() and not root.at(RUN_RECORD).exists()):
        read_record(request.run)
    kinds = {name: _kind(root, name, is_study) for name in files_below(root)}
    deleted = Counter(kinds.values())
    of_pictures = {kind: deleted[kind] for kind in (OF_PEOPLE if is_study else OF_PICTURES) if deleted[kind]}
    others = {name.partition("/")[0] for name, kind in kinds.items() if kind is None}
    names_left = tuple(sorted(printable(name) for name in others.difference(STAYS)))
    result = PurgeResult(of_pictures, names_left, None if before is None else before.on, is_study)
    folders = (SHOWN,) if is_study else OF_PICTURES
    linked = [
        root.at(name).path for name in (FIGURES, *folders) if root.is_local and os.path.islink(root.at(name).path)
    ]
    if linked:
        raise RunError(f"{linked[0]} is a link, and purge changes nothing elsewhere; put what it leads to in its place")
    if not request.yes:
        return result
    with lease(root.at(RUN_LEASE), request.run, takeover=None) as own_lease:
        if before is None:
            record = _written_figures(root, request.run, result, feedback)
            own_lease.confirm()
            root.at(PURGED).write(f"{record.model_dump_json(indent=2, exclude_none=True)}\n".encode())
        for name in dict.fromkeys([*folders, *(name for name, kind in kinds.items() if kind and "/" not in name)]):
            if root.at(name).is_dir():
                remove_tree(root.at(name))
            elif root.at(name).exists():
                root.at(name).remove()
    return result


def _purged(root: Place) -> _Purged | None:
    """Return the record of an earlier purge, or None. RunError if it is something else."""
    if not root.at(PURGED).exists():
        return None
    try:
        return parsed(_Purged, root.at(PURGED).read())
    except ValueError:
        raise RunError(f"{root.at(PURGED).path} is damaged; delete the run yourself") from None


def _kind(root: Place, name: str, is_study: bool) -> str | None:
    """Return under which name a file is counted and deleted; None if it stays."""
    if not is_study:
        first = name.partition("/")[0]
        return first if first in OF_PICTURES else None
    if name.lower().endswith(".csv") and "/" not in name:
        with root.at(name).open() as stream:
            return VOTES if stream.read(len(_VOTES_HEAD)) == _VOTES_HEAD else None
    return kind_of_file(name)


def _written_figures(root: Place, url: str, result: PurgeResult, feedback: Feedback) -> _Purged:
    """Write the figures, without names of images and of people, and return the record of the purge."""
    facts = _votes(root) if result.is_study else _report(url, feedback)
    content = f"{as_json(facts, indent=1)}\n".encode()
    root.at(result.figures).write(content)
    purged = hashlib.sha256(root.at(QUESTIONS if result.is_study else RUN_RECORD).read()).hexdigest()
    return _Purged(
        on=date.today().isoformat(),
        privsieve=__version__,
        run_sha256=None if result.is_study else purged,
        study_sha256=purged if result.is_study else None,
        deleted=result.deleted,
        figures={result.figures: hashlib.sha256(content).hexdigest()},
    )


def _report(url: str, feedback: Feedback) -> Mapping[str, Any]:
    """Return what `report --format json --no-images` says of a run."""
    report = run_report(ReportRequest(url, no_images=True), feedback).report
    if report.coverage is not None:
        report = replace(report, coverage=replace(report.coverage, scanner=None))  # the lease is that of this purge
    return report_facts(report)


def _votes(root: Place) -> Mapping[str, Any]:
    """Return what `similarity votes --min-votes 1 --format json` says of a study, without the names of its people; and
    of each set how many pairs have how many votes, so that any other limit can be applied."""
    answers = study_answers(root)
    answers.refresh()
    votes, counted = votes_of(read_questions(root), standing_answers(answers), 1, None)
    of_pairs = dict[tuple[str, str], list[int]]()
    for set_name, key, recognised in zip(*(counted[n].to_pylist() for n in ("set", "key", "recognised")), strict=True):
        of_pairs.setdefault((set_name, key), []).append(recognised)
    facts = asdict(votes)
    for of_set in facts["sets"]:
        pairs = Counter((sum(r), len(r)) for (set_name, _), r in of_pairs.items() if set_name == of_set["name"])
        of_set["pairs"] = [
            {"num_votes": num_votes, "num_recognising": num_recognising, "num_pairs": num_pairs}
            for (num_recognising, num_votes), num_pairs in sorted(pairs.items())
        ]
    people = ({name: value for name, value in person.items() if name != "name"} for person in facts["people"])
    return facts | {"people": sorted(people, key=lambda person: [*person.values()])}
