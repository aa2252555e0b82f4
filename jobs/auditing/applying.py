"""`audit apply`: corrects the rates of a run by labels, and stores them in it."""

from datetime import UTC, datetime

from pydantic.dataclasses import dataclass as checked_dataclass

from ingest.errors import PrivsieveError
from ingest.storage.place import place
from jobs.runtime.requests import STRICT, Name
from reports.audit.correcting import audit_of_sample
from reports.audit.other_run import audit_of_other_run
from reports.audit.results import Audit, as_table
from reports.opened import OpenRun
from reports.warehouse import open_run
from scoring.labels.contradictions import contradictions
from scoring.labels.table import read_judged
from scoring.runs.audit_sample import read_sample
from scoring.runs.corrected_rates import LabelGaps, State, write_corrected_rates


@checked_dataclass(frozen=True, config=STRICT)
class AuditApplyRequest:
    run_url: Name
    """Folder or fsspec URL of the run."""

    labels_url: Name
    """Labels (`scoring.labels.table`), of one or several people."""

    sensitivity_from: Name | None = None
    """Another run of the same engine, of whose pictures the labels are; None if they are of this run's sample."""

    private: str | None = None
    """With `sensitivity_from`: SQL condition of what counts as the answer "private"; None for what the protocol asks.
    The sample of a run has its own."""

    def __post_init__(self) -> None:
        if self.private is not None and self.sensitivity_from is None:
            raise PrivsieveError("--private is chosen with audit sample; here it goes with --sensitivity-from only")
        if self.sensitivity_from is not None and place(self.sensitivity_from).is_same(place(self.run_url)):
            raise PrivsieveError(f"--sensitivity-from {self.sensitivity_from} is the audited run; give another one")


def run_audit_apply(request: AuditApplyRequest) -> Audit:
    """Errors in one line; the rates that the run has from an earlier audit stay as they are then."""
    labels = read_judged(request.labels_url, is_drawn=request.sensitivity_from is None)
    run = open_run(request.run_url)
    with OpenRun(run) as opened:
        num_rows = run.num_rows()
        cautions = tuple(filter(None, (*opened.cautions, contradictions(labels.labels))))
        if request.sensitivity_from is None:
            audit = audit_of_sample(run, read_sample(run.root), labels, cautions)
        else:
            other = open_run(request.sensitivity_from)
            with OpenRun(other):
                audit = audit_of_other_run(run, other, labels, request.private, cautions)
    state = State(
        settings=run.record.settings_hash(),
        num_rows=num_rows,
        rows_sha256=run.rows_sha256,
        private=audit.private,
        date=datetime.now(UTC).date().isoformat(),
        gaps=_gaps(audit, is_of_sample=request.sensitivity_from is None),
    )
    write_corrected_rates(run.root, as_table(audit), state)
    return audit


def _gaps(audit: Audit, is_of_sample: bool) -> LabelGaps:
    counts = audit.labels
    num_undecided = {one.subject: one.num_undecided for one in audit.subjects if one.num_undecided}
    if not is_of_sample:  # any picture of the other run can have a label, so none lacks one
        return LabelGaps(num_undecided=num_undecided)
    num_without_label = counts.num_empty + counts.num_without_row
    return LabelGaps(num_drawn=counts.num_drawn, num_without_label=num_without_label, num_undecided=num_undecided)
