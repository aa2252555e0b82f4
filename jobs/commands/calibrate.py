"""The verb `calibrate`: whether probabilities mean what they say, and thresholds that follow from labels."""

from typing import Annotated, Literal

import click
import pyarrow as pa

from ingest.errors import LabelsError
from ingest.sample import printable
from ingest.storage.place import place
from jobs.console.request_options import TEXT_OR_JSON, takes
from jobs.console.requests import Option, RunUrl, Url, checked_request, refuse_existing
from jobs.console.terminal import write_document, write_line, wrote_json
from reports.calibration.compute import calibrated
from reports.calibration.results import CalibrationReport, thresholds_file
from reports.calibration.words import document, use_of
from reports.evaluation.answers import ROW_COLUMNS, truth_of
from reports.evaluation.compute import engine_name
from reports.labels.agreed import agreed, num_undecided_of
from reports.labels.joining import labelled_rows
from reports.report.opened import open_run
from scoring.labels.table import contradictions, read_judged


@checked_request
class CalibrateRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    labels: Annotated[Url, Option(metavar="FILE")]
    """Labels as Parquet or CSV, of one or several people."""

    out: Annotated[Url | None, Option(metavar="FILE")] = None
    """Write the thresholds of the attributes to this file, for scan --thresholds."""

    drawn: Literal["audit", "evenly"] | None = None
    """How the labelled pictures were drawn. [default: audit if all are of the audit sample]"""


def run_calibrate(request: CalibrateRequest) -> CalibrationReport:
    """Compare the probabilities of the run with labels. LabelsError if the labels are wrong, belong to no picture of
    the run, or are too few for the thresholds file that is asked for. RunError, StorageError of the run."""
    if request.out is not None:
        refuse_existing(request.out)
    judged = read_judged(request.labels)
    labels = agreed(judged)
    run = place(request.run)
    with open_run(request.run) as opened:
        record, cautions = opened.record, tuple(map(printable, opened.cautions))
    rows = labelled_rows(run, record, labels, ROW_COLUMNS, request.drawn)
    subjects, without = calibrated(rows, record)
    report = CalibrationReport(
        run=printable(request.run),
        engine=engine_name(record.engine),
        cautions=tuple(filter(None, (*cautions, contradictions(judged.labels)))),
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
    if request.out is not None:
        thresholds = thresholds_file(report)
        if thresholds is None:
            raise LabelsError(_nothing_to_write(report))
        place(request.out).write(thresholds.encode())
    return report


def _nothing_to_write(report: CalibrationReport) -> str:
    if report.has_attributes:
        return "no attribute has a threshold, so there is nothing to write; leave out --out to see what was found"
    first = "--out writes thresholds of attributes, and this run judges none: its protocol asks for the whole picture"
    threshold = report.subjects[0].threshold
    if threshold is None:
        return f"{first}; leave out --out to see what was found"
    return f"{first}; leave out --out, and {use_of(threshold)}"


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
    if request.out is not None:
        write_line(f"thresholds written to {request.out}")
