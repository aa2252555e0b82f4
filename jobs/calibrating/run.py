"""`calibrate` from start to end."""

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ingest.errors import LabelsError
from ingest.sample import printable
from ingest.storage.place import place
from jobs.runtime.requests import STRICT, Name
from reports.calibrating.calibrated import calibrated
from reports.calibrating.results import CalibrationReport
from reports.calibrating.thresholds_file import thresholds_file
from reports.evaluation.answers import ROW_COLUMNS, truth_of
from reports.evaluation.evaluate import engine_name
from reports.labelled_rows import Drawn, labelled_rows
from reports.opened import open_run
from scoring.labels.table import read_drawn_labels

Share = Annotated[float, Field(gt=0, lt=1)]


@checked_dataclass(frozen=True, config=STRICT)
class CalibrateRequest:
    run_url: Name
    """Folder or fsspec URL of the run."""

    labels_url: Name
    """File of labels (`scoring.labels.table`), one row per picture."""

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
    labels = read_drawn_labels(request.labels_url)
    run = place(request.run_url)
    with open_run(request.run_url) as opened:
        record, cautions = opened.record, tuple(map(printable, opened.cautions))
    found = labelled_rows(run, record, labels, ROW_COLUMNS, request.drawn)
    subjects, without = calibrated(found, record, request.at, request.seed)
    report = CalibrationReport(
        run=printable(request.run_url),
        engine=engine_name(record.engine),
        cautions=cautions,
        join=found.joined.counts,
        drawn=found.drawn,
        num_drawn=found.num_drawn,
        num_labelled=len(found.one_per_picture),
        num_partly=truth_of(found.joined.labels.take(pa.array(found.one_per_picture))).num_partly,
        at=request.at,
        seed=request.seed,
        subjects=subjects,
        without=without,
    )
    thresholds = thresholds_file(report)
    if request.out_url is not None:
        if thresholds is None:
            raise LabelsError(
                "no attribute has a threshold, so there is nothing to write; leave out --out to see what was found"
            )
        place(request.out_url).write(thresholds.encode())
    return CalibrateResult(report, thresholds)
