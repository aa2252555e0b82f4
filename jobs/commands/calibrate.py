"""The verb `calibrate`: whether probabilities mean what they say, and thresholds that follow from labels."""

from typing import Annotated, Literal

import click
import pyarrow as pa

from ingest.sample import printable
from ingest.storage.place import place
from jobs.console.request_options import TEXT_OR_JSON, takes
from jobs.console.requests import Option, RunUrl, Url, checked_request
from jobs.console.terminal import write_document, wrote_json
from reports.calibration.compute import calibrated
from reports.calibration.results import CalibrationReport
from reports.calibration.words import document
from reports.evaluation.answers import ROW_COLUMNS, truth_of
from reports.evaluation.compute import engine_name
from reports.labels.agreed import agreed, num_undecided_of
from reports.labels.joining import labelled_rows
from reports.report.opened import open_run
from scoring.labels.table import read_judged


@checked_request
class CalibrateRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    labels: Annotated[Url, Option(metavar="FILE")]
    """Labels as Parquet or CSV, of one or several people."""

    drawn: Literal["audit", "evenly"] | None = None
    """How the labelled pictures were drawn. [default: audit if all are of the audit sample]"""


def run_calibrate(request: CalibrateRequest) -> CalibrationReport:
    """Compare the probabilities of the run with labels. LabelsError if the labels are wrong or belong to no
    picture of the run. RunError, StorageError of the run."""
    labels = agreed(read_judged(request.labels))
    run = place(request.run)
    with open_run(request.run) as opened:
        record, cautions = opened.record, tuple(map(printable, opened.cautions))
    rows = labelled_rows(run, record, labels, ROW_COLUMNS, request.drawn)
    subjects, without = calibrated(rows, record)
    return CalibrationReport(
        run=printable(request.run),
        engine=engine_name(record.engine),
        cautions=cautions,
        has_attributes=bool(record.engine["assessed"]),
        join=rows.joined.counts,
        drawn=rows.drawn,
        num_drawn=None if rows.sample is None else rows.sample.table.num_rows,
        num_labelled=len(rows.one_per_picture),
        num_open=truth_of(rows.joined.labels.take(pa.array(rows.one_per_picture))).num_open,
        num_undecided=num_undecided_of(rows.undecided[rows.one_per_picture]),
        subjects=subjects,
        without=without,
    )


@click.command()
@takes(CalibrateRequest)
@TEXT_OR_JSON
def calibrate(request: CalibrateRequest, output: str) -> None:
    """Compare the probabilities of RUN with labels, and choose thresholds.

    Brier score and expected calibration error, before and after a map that is fitted on the labels.

    RUN must hold probabilities: those of vision-language models read with slots, json or binary. The engine detectors
    gives none; evaluate judges its answers, and audit corrects its rates.
    """
    report = run_calibrate(request)
    if wrote_json(report, output):
        return
    write_document(document(report))
