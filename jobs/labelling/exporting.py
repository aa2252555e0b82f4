"""`labels export`: labels or a run as Label Studio tasks or as CSV, for people to correct."""

import posixpath
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pydantic import dataclasses

from ingest.errors import LabelsError
from ingest.storage.place import place
from jobs.labelling.inputs import labels_of
from jobs.labelling.joining import refuse_as_output
from jobs.runtime.requests import STRICT, Name
from reports.opened import open_run
from scoring.labels.csv_cells import as_csv
from scoring.labels.label_studio import LOCAL_FILES, interface, tasks
from scoring.runs.reviews import is_reviews


@dataclasses.dataclass(frozen=True, config=STRICT)
class ExportRequest:
    source: Name
    """A labels file or a run."""

    out: Name
    format: Literal["label-studio", "csv"]
    image_prefix: str = LOCAL_FILES
    """Before the path of each picture in a Label Studio task."""


@dataclass(frozen=True)
class ExportResult:
    labels: pa.Table
    interface: str | None
    """The file with the labelling interface; None for CSV."""


def run_export(request: ExportRequest) -> ExportResult:
    """LabelsError or RunError in one line; nothing is written then."""
    refuse_as_output(request.out, (request.source,))
    labels = labels_of(request.source)
    if request.format == "csv":
        place(request.out).write(as_csv(labels))
        return ExportResult(labels, None)
    stem, extension = posixpath.splitext(request.out)
    if extension != ".json":
        raise LabelsError(f"--out {request.out}: Label Studio takes tasks from a file that ends in .json")
    content = tasks(labels, _paths(request.source), request.image_prefix)
    place(f"{stem}.xml").write(interface(labels))
    place(request.out).write(content)
    return ExportResult(labels, f"{stem}.xml")


def _paths(source: str) -> dict[str, str]:
    """sha256 or key -> path below the source, of a run of a folder tree; else nothing is known."""
    if not place(source).is_dir() or is_reviews(place(source)):
        return {}
    with open_run(source) as run:
        if run.record.format != "tree":
            return {}
        rows = run.rows(["shard", "key", "sha256"]).to_pylist()
    return {row["sha256"] or row["key"]: posixpath.normpath(posixpath.join(row["shard"], row["key"])) for row in rows}
