"""`labels export`: labels or a run as Label Studio tasks or as CSV, for people to correct."""

import posixpath
from dataclasses import dataclass

import pyarrow as pa

from ingest.errors import LabelsError
from ingest.storage.place import place
from jobs.labels.inputs import labels_of, warn_of_contradictions
from jobs.labels.joining import refuse_as_output
from jobs.labels.request import ExportRequest
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.hash_list import NOTHING, HashList, Listing, hash_list_of
from jobs.runtime.listed import COLUMNS, READS_AGAIN, left_out_note, listings, reads_pictures
from jobs.runtime.output_file import refuse_existing
from reports.report.opened import open_run
from scoring.labels.csv_cells import as_csv
from scoring.labels.label_studio import LOCAL_FILES, interface, tasks
from scoring.labels.reviews import is_reviews
from scoring.table import Col


@dataclass(frozen=True)
class ExportResult:
    labels: pa.Table
    interface: str | None
    """The file with the labelling interface; None for CSV."""

    left_out: str | None = None
    """How many pictures the hash list left out, in words; None if none."""


def run_export(request: ExportRequest, feedback: Feedback = SILENT) -> ExportResult:
    """LabelsError or RunError in one line; nothing is written then."""
    refuse_as_output(request.out, (request.source,))
    stem, extension = posixpath.splitext(request.out)
    if request.format == "label-studio" and extension != ".json":
        raise LabelsError(f"--out {request.out}: Label Studio takes tasks from a file that ends in .json")
    refuse_existing(request.out, *([f"{stem}.xml"] if request.format == "label-studio" else []))
    hash_list = hash_list_of(request.hash_list)
    labels = labels_of(request.source)
    warn_of_contradictions([(request.source, labels)], feedback)
    listings_ = _listings(request.source, labels, hash_list, feedback)
    labels = labels.filter(pa.array([item == "clear" for item in listings_], pa.bool_()))
    left_out = left_out_note(listings_, "picture")
    if request.format == "csv":
        place(request.out).write(as_csv(labels))
        return ExportResult(labels, None, left_out)
    prefix = LOCAL_FILES if request.image_prefix is None else request.image_prefix
    content = tasks(labels, _paths(request.source), prefix)
    place(f"{stem}.xml").write(interface(labels))
    place(request.out).write(content)
    return ExportResult(labels, f"{stem}.xml", left_out)


def _listings(source: str, labels: pa.Table, hash_list: HashList, feedback: Feedback) -> list[Listing]:
    """Return for each label whether its picture is on the list."""
    hashes = labels["sha256"].to_pylist()
    if hash_list is NOTHING:
        return ["clear"] * len(hashes)
    if place(source).is_dir() and not is_reviews(place(source)):
        with open_run(source) as run:
            if reads_pictures(run.record, hash_list):
                feedback.notice(READS_AGAIN)
            rows = run.rows((*COLUMNS, Col.PDQ))
            by_hash = dict(zip(rows[Col.SHA256].to_pylist(), listings(run, rows, hash_list), strict=True))
        return [by_hash[sha256] for sha256 in hashes]
    if hash_list.needs_pdq:
        raise LabelsError(
            f"{source} holds no pictures, with which the PDQ hashes of --hash-list could be compared; export from the "
            "run, or write sha256 before each hash that is not one of PDQ"
        )
    return ["gone" if hash_ is None else "listed" if hash_ in hash_list.sha256 else "clear" for hash_ in hashes]


def _paths(source: str) -> dict[str, str]:
    """sha256 or key -> path below the source, of a run of a folder tree; else nothing is known."""
    if not place(source).is_dir() or is_reviews(place(source)):
        return {}
    with open_run(source) as run:
        if run.record.format != "tree":
            return {}
        rows = run.rows([Col.SHARD, Col.KEY, Col.SHA256]).to_pylist()
    return {
        row[Col.SHA256] or row[Col.KEY]: posixpath.normpath(posixpath.join(row[Col.SHARD], row[Col.KEY]))
        for row in rows
    }
