"""`privsieve purge RUN`: deletes what a run knows of single pictures, and keeps its figures.

The figures are written first, then `purged.json`; then the rest is deleted. Once `purged.json` exists, no command reads
the folder. The same command again deletes what an interruption has left.
"""

import os
from collections import Counter
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated

from ingest import __version__
from ingest.errors import RunError
from ingest.formats.shard import files_below
from ingest.sample import printable
from ingest.storage.place import place
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
from scoring.runs.record import read_record

OF_PICTURES = (REVIEWS, AUDIT, AUDIT_LEASE, CANARY, ATTEMPTS, MANIFEST, COMPACT, SCORES)
"""Files and folders of a run that say something of single pictures or of the people who judged them."""

STAYS = (RUN_RECORD, PURGED, FIGURES, ENGINE_TIME, RUN_LEASE)
REPORT = f"{FIGURES}/report.json"


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

    was_begun: bool
    """Whether an earlier purge has begun, which this one finishes."""


def run_purge(request: PurgeRequest, feedback: Feedback = SILENT) -> PurgeResult:
    """Purge a run. RunError if there is none, if a command works on it, or if one of its folders is a link; the errors
    of a report."""
    root = place(request.run)
    was_begun = root.at(PURGED).exists()
    if not was_begun:
        read_record(request.run)
    deleted = Counter(name.partition("/")[0] for name in files_below(root))
    of_pictures = {name: deleted[name] for name in OF_PICTURES if deleted[name]}
    names_left = tuple(sorted(printable(name) for name in deleted.keys() - {*STAYS, *OF_PICTURES}))
    result = PurgeResult(of_pictures, names_left, was_begun)
    linked = [
        root.at(name).path for name in (FIGURES, *OF_PICTURES) if root.is_local and os.path.islink(root.at(name).path)
    ]
    if linked:
        raise RunError(f"{linked[0]} is a link, and purge changes nothing elsewhere; put what it leads to in its place")
    if not request.yes:
        return result
    with lease(root.at(RUN_LEASE), request.run, takeover=None) as own_lease:
        if not was_begun:
            report = replace(run_report(ReportRequest(request.run), feedback), severest=())  # which names images
            root.at(REPORT).write(f"{as_json(report_facts(report), indent=1)}\n".encode())
            own_lease.confirm()
            record = {"on": date.today().isoformat(), "privsieve": __version__, "deleted": of_pictures}
            root.at(PURGED).write(f"{as_json(record, indent=1)}\n".encode())
        for name in OF_PICTURES:
            if root.at(name).is_dir():
                remove_tree(root.at(name))
            elif root.at(name).exists():
                root.at(name).remove()
    return result
