"""The verb `evaluate`: how good the answers of a run are, judged by labels."""

import click

from jobs.console.request_options import TEXT_OR_JSON, takes
from jobs.console.terminal import write_document, write_json, write_line
from jobs.reporting.evaluating import EvaluateRequest, run_evaluate
from reports.evaluation.results import as_json
from reports.evaluation.words import document


@click.command()
@takes(EvaluateRequest)
@TEXT_OR_JSON
def evaluate(request: EvaluateRequest, output: str) -> None:
    """Judge the answers of RUN by labels: private or public, severity score, attributes.

    Labels are joined by sha256, else by key. A picture without an answer (quarantined, or unknown to the run) counts as
    answered wrong; a column shows the figures of the answered pictures alone. All intervals are 95 % intervals.
    """
    evaluation = run_evaluate(request)
    if output == "json":
        write_json(as_json(evaluation), indent=1)
        return

    write_document(document(evaluation))
    if request.html is not None:
        write_line(f"page written to {request.html}")
