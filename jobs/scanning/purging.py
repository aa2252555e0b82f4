"""`privsieve purge RUN`: deletes what a run knows of single pictures, and keeps its figures.

The figures are written first, then `purged.json`; then the rest is deleted. Once `purged.json` exists, no command reads
the folder. The same command again deletes what an interruption has left.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any

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


STAYS = (RUN_RECORD, PURGED, FIGURES, ENGINE_TIME, RUN_LEASE)


REPORT = f"{FIGURES}/report.json"


class _Purged(BaseModel):
    """`purged.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on: str
    """Day, as 2026-11-24."""

    privsieve: str

    run_sha256: str
    """Hash of `run.json`."""

    deleted: dict[str, int]
    """File or folder of the run -> number of files."""

    figures: dict[str, str]
    """File below the folder -> sha256 in hex."""


@checked_request
class PurgeRequest:
    run: Annotated[Url, Option(argument="RUN")]
    """Folder or fsspec URL of the run."""

    yes: bool = False
    """Delete. Without it nothing is written or deleted, and the command says what would be."""


@dataclass(frozen=True)
class PurgeResult:
    deleted: dict[str, int]
    """File or folder of the run -> number of files that were, or would be, deleted."""

    left: tuple[str, ...]
    """What else is in the folder: privsieve did not write it there."""

    purged_before: str | None = None
    """The day on which an earlier purge began; None if this one is the first."""


def run_purge(request: PurgeRequest, feedback: Feedback = SILENT) -> PurgeResult:
    """Purge a run. RunError if there is none, if a command works on it, or if one of its folders is a link; the errors
    of a report."""
    root = place(request.run)
    before = _purged(root)
    if before is None:
        read_record(request.run)
    deleted = Counter(name.partition("/")[0] for name in files_below(root))
    of_pictures = {name: deleted[name] for name in OF_PICTURES if deleted[name]}
    names_left = tuple(sorted(printable(name) for name in deleted.keys() - {*STAYS, *OF_PICTURES}))
    result = PurgeResult(of_pictures, names_left, None if before is None else before.on)
    linked = [
        root.at(name).path for name in (FIGURES, *OF_PICTURES) if root.is_local and os.path.islink(root.at(name).path)
    ]
    if linked:
        raise RunError(f"{linked[0]} is a link, and purge changes nothing elsewhere; put what it leads to in its place")
    if not request.yes:
        return result
    with lease(root.at(RUN_LEASE), request.run, takeover=None) as own_lease:
        if before is None:
            record = _written_figures(root, request.run, result, feedback)
            own_lease.confirm()
            root.at(PURGED).write(f"{record.model_dump_json(indent=2)}\n".encode())
        for name in OF_PICTURES:
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


def _written_figures(root: Place, url: str, result: PurgeResult, feedback: Feedback) -> _Purged:
    """Write the figures, without names of images and of people, and return the record of the purge."""
    content = f"{as_json(_report(url, feedback), indent=1)}\n".encode()
    root.at(REPORT).write(content)
    return _Purged(
        on=date.today().isoformat(),
        privsieve=__version__,
        run_sha256=hashlib.sha256(root.at(RUN_RECORD).read()).hexdigest(),
        deleted=result.deleted,
        figures={REPORT: hashlib.sha256(content).hexdigest()},
    )


def _report(url: str, feedback: Feedback) -> Mapping[str, Any]:
    """Return what `report --format json` says of a run, without the most severe images."""
    return report_facts(replace(run_report(ReportRequest(url), feedback), severest=()))
