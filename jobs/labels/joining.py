"""`labels consensus`: runs and labels files become one label per picture."""

from dataclasses import replace

from ingest.errors import LabelsError
from ingest.storage.place import place
from jobs.labels.inputs import tables_of, warn_of_contradictions
from jobs.labels.request import ConsensusRequest
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.output_file import refuse_existing
from scoring.labels.consensus import Consensus, consensus
from scoring.labels.judgements import judgements
from scoring.labels.reviews import caution_of_chosen
from scoring.labels.table import write_labels


def run_consensus(request: ConsensusRequest, feedback: Feedback = SILENT) -> Consensus:
    """Nothing is written if anything is wrong."""
    refuse_as_output(request.out, request.inputs)
    refuse_existing(request.out)
    tables = tables_of(request.inputs)
    warn_of_contradictions(tables, feedback)
    joined = consensus(
        judgements(tables), request.method, paper_rule=request.paper_rule, min_posterior=request.min_posterior
    )
    cautions = tuple(filter(None, (caution_of_chosen(place(url)) for url in request.inputs)))
    origin = replace(joined.origin, notes=(*joined.origin.notes, *cautions))  # evaluate shows them
    write_labels(joined.labels, request.out, origin)
    return replace(joined, origin=origin)


def refuse_as_output(out: str, inputs: tuple[str, ...]) -> None:
    """Raise LabelsError if the output is one of the inputs, or inside a run."""
    for url in inputs:
        if place(out).is_within(place(url)):
            raise LabelsError(f"--out {out} is an input, or inside one; write to another file")
