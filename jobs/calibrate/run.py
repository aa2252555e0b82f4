"""`calibrate` from start to end."""

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ingest.errors import LabelsError
from ingest.sample import printable
from ingest.storage.place import place
from jobs.runtime.output_file import refuse_existing
from jobs.runtime.requests import STRICT, Name
from reports.agreed_labels import agreed, num_undecided_of
from reports.calibrating.calibrated import calibrated
from reports.calibrating.results import CalibrationReport
from reports.calibrating.tables import use_of
from reports.calibrating.thresholds_file import thresholds_file
from reports.evaluation.answers import ROW_COLUMNS, truth_of
from reports.evaluation.evaluate import engine_name
from reports.labelled_rows import Drawn, labelled_rows
from reports.opened import open_run
from scoring.labels.contradictions import contradictions
from scoring.labels.table import read_judged

Share = Annotated[float, Field(gt=0, lt=1)]


@checked_dataclass(frozen=True, config=STRICT)
class CalibrateRequest:
    run_url: Name
    """Folder or fsspec URL of the run."""

    labels_url: Name
    """Labels (`scoring.labels.table`), of one or several people."""

    out_url: Name | None = None
    """Where the thresholds go; None for nowhere."""

    at: Share = 0.5
    """Calibrated probability from which an attribute is present."""

    drawn: Drawn | None = None
    """How the labelled pictures were drawn; None: `audit` if all are of the audit sample, else `evenly`."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of the folds."""


@dataclass(frozen=True)
class CalibrateResult:
    report: CalibrationReport
    thresholds: str | None
    """Content of the file; None if no attribute has a threshold."""


def run_calibrate(request: CalibrateRequest) -> CalibrateResult:
    """LabelsError if the labels are wrong, too few for a file of thresholds that is asked for, or belong to no picture
    of the run; RunError, StorageError of the run."""
    if request.out_url is not None:
        refuse_existing(request.out_url)
    given = read_judged(request.labels_url)
    labels = agreed(given)
    run = place(request.run_url)
    with open_run(request.run_url) as opened:
        record, cautions = opened.record, tuple(map(printable, opened.cautions))
    found = labelled_rows(run, record, labels, ROW_COLUMNS, request.drawn)
    subjects, without = calibrated(found, record, request.at, request.seed)
    report = CalibrationReport(
        run=printable(request.run_url),
        engine=engine_name(record.engine),
        cautions=tuple(filter(None, (*cautions, contradictions(given.labels)))),
        has_attributes=bool(record.engine["assessed"]),
        join=found.joined.counts,
        drawn=found.drawn,
        num_drawn=None if found.sample is None else found.sample.table.num_rows,
        num_labelled=len(found.one_per_picture),
        num_open=truth_of(found.joined.labels.take(pa.array(found.one_per_picture))).num_open,
        num_undecided=num_undecided_of(found.undecided[found.one_per_picture]),
        at=request.at,
        seed=request.seed,
        subjects=subjects,
        without=without,
    )
    thresholds = thresholds_file(report)
    if request.out_url is not None:
        if thresholds is None:
            raise LabelsError(_nothing_to_write(report))
        place(request.out_url).write(thresholds.encode())
    return CalibrateResult(report, thresholds)


def _nothing_to_write(report: CalibrationReport) -> str:
    if report.has_attributes:
        return "no attribute has a threshold, so there is nothing to write; leave out --out to see what was found"
    first = "--out writes thresholds of attributes, and this run judges none: its protocol asks for the whole picture"
    threshold = report.subjects[0].threshold
    if threshold is None:
        return f"{first}; leave out --out to see what was found"
    return f"{first}; leave out --out, and {use_of(threshold)}"
