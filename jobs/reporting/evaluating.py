"""The verb `evaluate`: how good the answers of a run are, judged by labels."""

import posixpath
from dataclasses import replace
from typing import Annotated

import pyarrow as pa

from ingest.errors import LabelsError, PrivsieveError
from ingest.sample import printable
from ingest.storage.place import place
from jobs.console.requests import Option, PagePath, RunUrl, Url, checked_request
from reports.evaluation.compute import Groups, compare, evaluation_of, judged
from reports.evaluation.results import Evaluation
from reports.evaluation.words import render
from reports.pages import write_page
from scoring.labels.reviews import caution_of_chosen
from scoring.labels.table import read_labels, read_labels_and_origin
from scoring.runs.audit_files import has_sample, read_sample


@checked_request
class EvaluateRequest:
    run: RunUrl
    """Folder or fsspec URL of the run that is evaluated."""

    labels: Annotated[Url, Option(metavar="FILE")]
    """Labels as Parquet or CSV, one row per picture."""

    compare: Annotated[Url | None, Option(metavar="BEFORE")] = None
    """The run before, on the same pictures: what changed, and by how much. Gains of RUN are positive."""

    groups: Annotated[Url | None, Option(metavar="FILE")] = None
    """Also per group: labels whose class is the group, such as skin tone, age, gender, script or category."""

    html: PagePath | None = None
    """Write one self-contained page as well, to this file."""

    def __post_init__(self) -> None:
        if self.run == self.compare:
            raise PrivsieveError(f"{self.run} is given twice; compare it with another run")


def run_evaluate(request: EvaluateRequest) -> Evaluation:
    """Evaluate a run. Nothing is written but the page.

    LabelsError if the labels are wrong, belong to no picture of a run, or judge none of its answers; RunError,
    StorageError of the runs.
    """
    labels, origin = read_labels_and_origin(request.labels)
    groups = _groups(request.groups)
    _refuse_audit_sample(request, labels)
    judged_run = judged(request.run, labels)
    evaluation = evaluation_of(judged_run, groups)
    if evaluation.private is None and evaluation.score is None and not evaluation.attributes:
        said = " ".join(evaluation.notes)
        raise LabelsError(
            f"{request.labels}: no label can be compared with an answer of {request.run}, so there is nothing to "
            "judge; fill in the labels, or give those of the run's question (private or public, attributes, or a score)"
            f"{f'. {said}' if said else ''}"
        )
    of_chosen = caution_of_chosen(place(request.labels))
    notes = [f"Of the labels: {printable(note)}" for note in (origin.notes if origin is not None else ())]
    evaluation = replace(
        evaluation,
        cautions=evaluation.cautions + ((of_chosen,) if of_chosen else ()),
        notes=(*evaluation.notes, *notes),
        comparison=None if request.compare is None else compare(judged_run, judged(request.compare, labels)),
    )
    if request.html is not None:
        write_page(render(evaluation), request.html)
    return evaluation


def _refuse_audit_sample(request: EvaluateRequest, labels: pa.Table) -> None:
    """Raise LabelsError for labels of the audit sample only: its unequal probabilities skew recall and specificity."""
    root = place(request.run)
    if not has_sample(root):
        return
    sample = read_sample(root)
    drawn, hashes = set(sample.table["sha256"].to_pylist()), set(labels["sha256"].drop_null().to_pylist())
    if hashes and hashes <= drawn and sample.table.num_rows < sample.design.num_scored:
        raise LabelsError(
            f"{request.labels}: all labels are of the audit sample of {request.run}, which has hard pictures more "
            f"often than others; privsieve audit apply {request.run} {request.labels} has the figures of the run"
        )


def _groups(url: str | None) -> Groups | None:
    if url is None:
        return None
    labels = read_labels(url)
    if labels["class"].null_count == labels.num_rows:
        raise LabelsError(f"--groups {url}: the column class, which is the group of a picture, is empty or not there")
    return Groups(printable(posixpath.splitext(place(url).name)[0]), labels)
