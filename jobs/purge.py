"""`privsieve purge RUN`: deletes what a run knows of single pictures, and keeps its figures.

The figures are written first, then `purged.json`; then the rest is deleted. Once `purged.json` exists, no command reads
the run. The same command again deletes what an interruption has left.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from datetime import date

import click
from pydantic import BaseModel, ConfigDict

from ingest import __version__
from ingest.errors import RunError, number_of
from ingest.formats.shard import files_below
from ingest.sample import printable
from ingest.storage.place import Place, place
from ingest.storage.removal import remove_tree
from jobs.console.request_options import QUIET, takes
from jobs.console.requests import RunUrl, checked_request
from jobs.console.terminal import as_json, write_line
from jobs.report.request import ReportRequest
from jobs.report.run import report_facts, run_report
from jobs.runtime.progress import SILENT, Feedback, on_terminal
from scoring.runs.layout import (
    ATTEMPTS,
    AUDIT,
    AUDIT_LEASE,
    CANARY,
    COMPACT,
    COMPACT_SHARDS,
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
from scoring.runs.record import open_run, parsed

OF_PICTURES = (REVIEWS, AUDIT, AUDIT_LEASE, CANARY, ATTEMPTS, MANIFEST, COMPACT_SHARDS, COMPACT, SCORES)
"""Files and folders of a run that say something of single pictures or of the people who judged them."""

STAYS = (RUN_RECORD, PURGED, FIGURES, ENGINE_TIME, RUN_LEASE)

REPORT = "report.json"


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
    """File below the run -> sha256 in hex."""


@checked_request
class PurgeRequest:
    run: RunUrl
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
    """Purge a run. RunError if there is no such run, or if a command works on it; the errors of a report."""
    root = place(request.run)
    before = _purged(root)
    if before is None:
        open_run(request.run)
    deleted = Counter(name.partition("/")[0] for name in files_below(root))
    of_pictures = {name: deleted[name] for name in OF_PICTURES if deleted[name]}
    left = tuple(sorted(printable(name) for name in deleted if name not in {*OF_PICTURES, *STAYS}))
    result = PurgeResult(of_pictures, left, None if before is None else before.on)
    if not request.yes:
        return result
    with lease(root.at(RUN_LEASE), request.run, takeover=None) as held:
        if before is None:
            record = _written_figures(root, request.run, of_pictures, feedback)
            held.confirm()
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
        raise RunError(f"{root.at(PURGED).path} is damaged or of another version; delete the run yourself") from None


def _written_figures(root: Place, url: str, deleted: dict[str, int], feedback: Feedback) -> _Purged:
    """Write the report, without names of images, and return the record of the purge."""
    report = run_report(ReportRequest(url, no_images=True), feedback).report
    if report.coverage is not None:
        report = replace(report, coverage=replace(report.coverage, scanner=None))  # the lease is that of this purge
    content = f"{as_json(report_facts(report), indent=1)}\n".encode()
    root.at(FIGURES, REPORT).write(content)
    return _Purged(
        on=date.today().isoformat(),
        privsieve=__version__,
        run_sha256=hashlib.sha256(root.at(RUN_RECORD).read()).hexdigest(),
        deleted=deleted,
        figures={f"{FIGURES}/{REPORT}": hashlib.sha256(content).hexdigest()},
    )


@click.command()
@takes(PurgeRequest)
@QUIET
def purge(request: PurgeRequest, quiet: bool) -> None:
    """Delete what RUN knows of single pictures: rows with their boxes and keys, reviews, audit samples, canary answers.

    The figures stay: what `report --format json` says is written to RUN/figures/report.json, without the names of
    images, and RUN/purged.json says when and what was deleted. No other command reads the run afterwards. Releases,
    exported labels and backups are not touched. May be interrupted; the same command continues.
    """
    result = run_purge(request, on_terminal(quiet))
    verb = "deleted" if request.yes else "would be deleted"
    for name, num_files in result.deleted.items():
        write_line(f"  {verb}  {name}  {number_of(num_files, 'file')}")
    for name in result.left:
        write_line(f"  not of privsieve, so it stays: {name}")
    if result.purged_before is not None and not result.deleted:
        write_line(f"{request.run} was purged on {result.purged_before}")
    elif not request.yes:
        write_line("nothing is deleted; --yes does it, and the run cannot be read then")
    else:
        write_line(f"{request.run} is purged; its figures are in {FIGURES}/{REPORT}, the record is {PURGED}")
