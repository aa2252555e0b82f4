"""The verb `evaluate`: how good the answers of a run are, judged by labels."""

import io
import posixpath
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from PIL import Image
from pydantic import Field

from ingest.errors import LabelsError, PrivsieveError
from ingest.images.pixels import Pixels
from ingest.sample import printable
from ingest.storage.place import place
from jobs.console.requests import HashListUrl, Option, PagePath, RunUrl, Seed, Url, checked_request
from jobs.runtime.hash_list import NOTHING, HashList, hash_list_of
from jobs.runtime.pictures import COLUMNS, PictureRef, clear_of, first_frames
from jobs.runtime.progress import SILENT, Feedback
from reports.evaluation.answers import wrong_answers
from reports.evaluation.compute import EvaluationOptions, compare, evaluation_of, judged
from reports.evaluation.page import render
from reports.evaluation.results import Evaluation, WrongAnswer
from reports.pages import write_page
from reports.report.opened import open_run
from scoring.labels.reviews import caution_of_chosen
from scoring.labels.table import contradictions, of_split, read_labels, read_labels_and_origin
from scoring.runs.audit_files import has_sample, read_sample

MAX_DRAWS = 100_000
MAX_ERRORS = 60
SIDE_PX = 288


@checked_request
class EvaluateRequest:
    run: RunUrl
    """Folder or fsspec URL of the run that is evaluated."""

    labels: Annotated[Url, Option(metavar="FILE")]
    """Labels as Parquet or CSV, one row per picture."""

    split: Annotated[str | None, Option(metavar="NAME")] = None
    """Use only the labels of this split, such as test."""

    compare: Annotated[Url | None, Option(metavar="BEFORE")] = None
    """The run before, on the same pictures: what changed, and by how much. Gains of RUN are positive."""

    by: Literal["class", "category"] | None = None
    """Also per class of the labels, or category."""

    groups: Annotated[Url | None, Option(metavar="FILE")] = None
    """Also per group of people: labels whose class is the group, such as skin tone, age, gender or script."""

    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    """Take a picture as private from this prob_private on."""

    ambiguous: Literal["absent", "present"] = "absent"
    """What an attribute's 0.5 counts as, in labels and answers."""

    num_draws: Annotated[Annotated[int, Field(ge=0, le=MAX_DRAWS)], Option("--draws")] = 1000
    """Draws for the intervals of metrics that are no shares; 0 for none of these."""

    seed: Seed = 0
    """Seed of these draws, of the batches per class and of the parts of the benchmark."""

    errors: Annotated[int, Field(ge=0, le=MAX_ERRORS)] = 0
    """Name this many wrong answers, those first of which the run was most sure; --html shows their pictures, blurred
    until held."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is not among the errors."""

    html: PagePath | None = None
    """Write one self-contained page as well, to this file."""

    def __post_init__(self) -> None:
        if self.run == self.compare:
            raise PrivsieveError(f"{self.run} is given twice; compare it with another run")
        if self.groups is not None and self.by is not None:
            raise PrivsieveError("--by and --groups exclude each other: give one of them")


def run_evaluate(request: EvaluateRequest, feedback: Feedback = SILENT) -> Evaluation:
    """Evaluate a run. Nothing is written but the page.

    LabelsError if the labels are wrong, belong to no picture of a run, or judge none of its answers; RunError,
    StorageError of the runs. SourceError if pictures must be compared with a hash list and cannot be read.
    """
    hash_list = hash_list_of(request.hash_list) if request.errors else NOTHING
    labels, origin = read_labels_and_origin(request.labels)
    if request.split is not None:
        labels = of_split(labels, request.split, request.labels)
    grouped = groups_of(request.groups)
    options = EvaluationOptions(
        request.seed, request.num_draws, request.threshold, request.by, grouped, request.ambiguous
    )
    _refuse_audit_sample(request, labels)
    judged_run = judged(request.run, labels, options)
    evaluation = evaluation_of(judged_run, options)
    if evaluation.private is None and evaluation.score is None and not evaluation.attributes:
        said = " ".join(evaluation.notes)
        raise LabelsError(
            f"{request.labels}: no label can be compared with an answer of {request.run}, so there is nothing to "
            "judge; fill in the labels, or give those of the run's question (private or public, attributes, or a score)"
            f"{f'. {said}' if said else ''}"
        )
    of_labels = filter(None, (contradictions(labels), caution_of_chosen(place(request.labels))))
    evaluation = replace(evaluation, cautions=(*evaluation.cautions, *of_labels))
    if origin is not None and origin.notes:
        notes = tuple(f"Of the labels: {printable(note)}" for note in origin.notes)
        evaluation = replace(evaluation, notes=(*evaluation.notes, *notes))
    if request.errors:
        errors, left_out = may_be_named(request.run, wrong_answers(judged_run), request.errors, hash_list, feedback)
        evaluation = replace(evaluation, errors=errors, errors_note=left_out)
    if request.compare is not None:
        comparison = compare(judged_run, judged(request.compare, labels, options), options)
        evaluation = replace(evaluation, comparison=comparison)
    if request.html is not None:
        pictures = pictures_of(request.run, evaluation.errors, feedback)
        write_page(render(evaluation, pictures), request.html)
    return evaluation


def _refuse_audit_sample(request: EvaluateRequest, labels: pa.Table) -> None:
    """Raise LabelsError for labels of the run's audit sample only: it was drawn with unequal probabilities, so that
    recall and specificity of its pictures are not those of the run."""
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


def groups_of(url: str | None) -> tuple[str, pa.Table] | None:
    """Read the labels of --groups. Return the name of the file without its ending, and the table. LabelsError if they
    name no group."""
    if url is None:
        return None
    labels = read_labels(url)
    if labels["class"].null_count == labels.num_rows:
        raise LabelsError(f"--groups {url}: the column class, which is the group of a picture, is empty or not there")
    return printable(posixpath.splitext(place(url).name)[0]), labels


def may_be_named(
    run_url: str, wrong: Sequence[WrongAnswer], most: int, hash_list: HashList, feedback: Feedback
) -> tuple[tuple[WrongAnswer, ...], str | None]:
    """Return the first answers that the hash list allows, and how many it leaves out. SourceError, StorageError."""
    if hash_list is NOTHING or not wrong:
        return tuple(wrong[:most]), None
    first = wrong[: 2 * most]  # enough, unless most of them are listed
    rows = pa.table({name: [getattr(answer, name) for answer in first] for name in COLUMNS})
    with open_run(run_url) as run:
        is_clear, left_out = clear_of(run, rows, hash_list, "picture", feedback)
    clear = tuple(answer for answer, may_name in zip(first, is_clear, strict=True) if may_name)
    return clear[:most], left_out


def pictures_of(run_url: str, wrong: Sequence[WrongAnswer], feedback: Feedback) -> dict[str, bytes]:
    """Return sha256 -> a small JPEG of each that the source still holds as scanned. SourceError, StorageError."""
    if not wrong:
        return {}
    with open_run(run_url) as run:
        record = run.record
    places = [PictureRef(answer.shard, answer.index, answer.sha256, answer.key) for answer in wrong]
    frames = zip(places, first_frames(record, places, 4 * SIDE_PX, feedback), strict=True)
    return {where.sha256: thumbnail(pixels) for where, pixels in frames if pixels is not None and where.sha256}


def thumbnail(pixels: Pixels) -> bytes:
    """Return a JPEG of at most `SIDE_PX`, encoded anew, so that no metadata of a file is included."""
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.thumbnail((SIDE_PX, SIDE_PX))
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=65, subsampling=0, optimize=True)
    return encoded.getvalue()
