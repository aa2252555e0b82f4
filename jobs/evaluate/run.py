"""`evaluate` from start to end. Nothing is written."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ingest.errors import LabelsError, PrivsieveError
from ingest.sample import printable
from ingest.storage.place import place
from jobs.evaluate.errors import MAX_ERRORS, may_be_named
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.hash_list import NOTHING, hash_list_of
from jobs.runtime.requests import STRICT, Name
from reports.evaluation.comparing import compare, spread_of
from reports.evaluation.errors import wrong_answers
from reports.evaluation.evaluate import EvaluationOptions, evaluation_of, judged
from reports.evaluation.results import Evaluation
from scoring.labels.contradictions import contradictions
from scoring.labels.table import read_labels_and_origin
from scoring.runs.reviews import caution_of_chosen

MAX_DRAWS = 100_000


@checked_dataclass(frozen=True, config=STRICT)
class EvaluateRequest:
    run_url: Name
    """Folder or fsspec URL of the run that is evaluated."""

    labels_url: Name
    """File of labels (`scoring.labels.table`), one row per picture."""

    split: str | None = None
    """Only labels of this split: train, validation or test; None for all."""

    compare_url: Name | None = None
    """A second run on the same pictures, for paired differences."""

    further_urls: tuple[Name, ...] = ()
    """More runs on the same pictures, such as one per wording: the spread of the metrics over all."""

    by: Literal["class", "category"] | None = None
    """Also per class of the labels, or per category of the corpus."""

    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    """A picture is private from this prob_private on; None for the answers as they are."""

    ambiguous: Literal["absent", "present"] = "absent"
    """What an attribute's 0.5 counts as, in labels and answers."""

    num_draws: Annotated[int, Field(ge=0, le=MAX_DRAWS)] = 1000
    """Of the bootstrap; 0 for no intervals."""

    num_errors: Annotated[int, Field(ge=0, le=MAX_ERRORS)] = 0
    """Wrong answers to name, those first of which the run was most sure."""

    hash_list_url: Name | None = None
    """File of hashes of pictures that are not named; see jobs/runtime/hash_list.py."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of the bootstrap, of the batches per class and of the parts of the benchmark."""

    def __post_init__(self) -> None:
        if self.run_url in (self.compare_url, *self.further_urls):
            raise PrivsieveError(f"{self.run_url} is given twice; compare it with another run")


def run_evaluate(request: EvaluateRequest, feedback: Feedback = SILENT) -> Evaluation:
    """LabelsError if the labels are wrong or belong to no picture of a run; RunError, StorageError of the runs.

    SourceError if pictures must be compared with a hash list and cannot be read.
    """
    hash_list = hash_list_of(request.hash_list_url) if request.num_errors else NOTHING
    labels, origin = read_labels_and_origin(request.labels_url)
    if request.split is not None:
        import pyarrow.compute as pc

        found = labels["split"].unique().drop_null().to_pylist()
        labels = labels.filter(pc.equal(labels["split"], request.split))
        if not labels.num_rows:
            there = f"there are: {', '.join(sorted(found))}" if found else "the labels name no split"
            raise LabelsError(f'{request.labels_url}: no label is of the split "{request.split}"; {there}')
    options = EvaluationOptions(request.seed, request.num_draws, request.threshold, request.by, request.ambiguous)
    one = judged(request.run_url, labels, options)
    evaluation = evaluation_of(one, options)
    of_labels = filter(None, (contradictions(labels), caution_of_chosen(place(request.labels_url))))
    evaluation = replace(evaluation, cautions=(*evaluation.cautions, *of_labels))
    if origin is not None and origin.notes:
        notes = tuple(f"Of the labels: {printable(note)}" for note in origin.notes)
        evaluation = replace(evaluation, notes=(*evaluation.notes, *notes))
    if request.num_errors:
        errors, left_out = may_be_named(request.run_url, wrong_answers(one), request.num_errors, hash_list, feedback)
        evaluation = replace(evaluation, errors=errors, errors_note=left_out)
    if request.further_urls:
        without_draws = replace(options, num_draws=0, by=None)
        others = (judged(url, labels, without_draws) for url in request.further_urls)
        spread = spread_of([evaluation, *(evaluation_of(other, without_draws) for other in others)])
        evaluation = replace(evaluation, spread=spread)
    if request.compare_url is not None:
        comparison = compare(one, judged(request.compare_url, labels, options), options)
        evaluation = replace(evaluation, comparison=comparison)
    return evaluation
