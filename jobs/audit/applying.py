"""`audit apply`: corrects the rates of a run by labels, and stores them in it."""

import posixpath
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import PrivsieveError
from jobs.audit.request import AuditApplyRequest
from jobs.report.run import category_sizes
from reports.audit.compute import audit_of_sample
from reports.audit.other_run import audit_of_other_run
from reports.audit.population import audit_of_source, drawn_fractions
from reports.audit.results import Audit, as_table
from reports.report.opened import OpenRun
from reports.run.design import SAMPLES, SourceSizes, design_of
from reports.run.warehouse import open_run
from scoring.labels.contradictions import contradictions
from scoring.labels.table import LABELS_SCHEMA, JudgedLabels, checked, read_judged
from scoring.runs.audit_files import LabelGaps, State, read_sample, write_corrected_rates


def run_audit_apply(request: AuditApplyRequest) -> Audit:
    """Correct the rates of the images that the run is a sample of, and store those of the scored images in the run.

    Raise errors in one line; the run then keeps the rates of an earlier audit.
    """
    labels = _read(request.labels, is_drawn=request.sensitivity_from is None)
    sizes = None if request.category_sizes is None else category_sizes(request.category_sizes)
    run = open_run(request.run)
    with OpenRun(run) as opened:
        if sizes is not None and not run.record.per_category:
            raise PrivsieveError("--category-sizes is for a run of scan --sample N --per-category; leave it out")
        if sizes is not None and not opened.coverage.is_complete:
            raise PrivsieveError("--category-sizes: the run is not finished, or its source cannot be listed; scan on")
        num_rows = run.num_rows()
        cautions = tuple(filter(None, (*opened.cautions, contradictions(labels.labels))))
        if request.sensitivity_from is None:
            audit = audit_of_sample(run, read_sample(run.root), labels, sizes, cautions)
        else:
            other = open_run(request.sensitivity_from)
            with OpenRun(other):
                audit = audit_of_other_run(run, other, labels, request.private, cautions)
        coverage = opened.coverage
        kind = design_of(run.record, audit.num_images, coverage.is_complete, coverage.has_all, SourceSizes()).kind
        fractions = drawn_fractions(run, audit.private)
    state = State(
        settings=run.record.settings_hash(),
        num_rows=num_rows,
        rows_sha256=run.rows_sha256,
        private=audit.private,
        date=datetime.now(UTC).date().isoformat(),
        gaps=_gaps(audit, is_of_sample=request.sensitivity_from is None),
        category_sizes=sizes or {},
        has_source_intervals=True,
    )
    corrected = audit_of_source(audit, kind, fractions)
    write_corrected_rates(run.root, as_table(audit, corrected if kind in SAMPLES else None), state)
    return corrected


def _read(urls: Sequence[str], is_drawn: bool) -> JudgedLabels:
    """Read the labels of all files together. LabelsError if a person is in two of them with the same picture."""
    every = [read_judged(url, is_drawn) for url in urls]
    if len(every) == 1:
        return every[0]
    tables = [_with_annotator(judged.labels, url) for judged, url in zip(every, urls, strict=True)]
    parts = zip(*((judged.is_unclear, judged.is_complete, judged.is_skipped) for judged in every), strict=True)
    return JudgedLabels(checked(pa.concat_tables(tables), "the labels together"), *map(np.concatenate, parts))


def _with_annotator(labels: pa.Table, url: str) -> pa.Table:
    """Name the annotator after the file if it names none: such a file is taken for one person."""
    stem = pa.scalar(posixpath.splitext(posixpath.basename(url.rstrip("/")))[0])
    names = labels["annotator"]
    index = LABELS_SCHEMA.names.index("annotator")
    named = pc.if_else(pc.equal(names, "labels"), stem, names)
    return labels.set_column(index, LABELS_SCHEMA.field(index), named)


def _gaps(audit: Audit, is_of_sample: bool) -> LabelGaps:
    counts = audit.labels
    num_undecided = {subject.subject: subject.num_undecided for subject in audit.subjects if subject.num_undecided}
    if not is_of_sample:  # any picture of the other run can have a label, so none lacks one
        return LabelGaps(num_undecided=num_undecided)
    looks = audit.subjects[0].second_looks
    return LabelGaps(
        num_drawn=counts.num_drawn,
        num_without_label=counts.num_empty + counts.num_without_row,
        num_undecided=num_undecided,
        num_judged_twice=looks.num_pictures,
        share_differing=looks.share_differing,
        kappa=looks.kappa,
        allows_for_errors=bool(looks.reach_high),
    )
