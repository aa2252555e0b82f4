"""The verb `explain`: one image in words, and what policies do with it and why."""

import click

from jobs.console.request_options import TEXT_OR_JSON, takes
from jobs.console.terminal import write_line, wrote_json
from jobs.reporting.explaining import ExplainRequest, run_explain
from reports.report.explaining import Explanation, facts_in_words
from scoring.sql.limits import limits_of_command


@click.command()
@takes(ExplainRequest)
@TEXT_OR_JSON
def explain(request: ExplainRequest, output: str) -> None:
    """Say in words what RUN knows of the image with this KEY, and what policies do with it and why.

    KEY is the image's key. If several images have it, write SHARD/KEY, or SHARD#INDEX as in the report; its sha256 will
    do as well. The picture is not opened, unless a hash list has PDQ hashes. No found text is shown: none is stored.
    """
    explained = run_explain(request, limits_of_command(600))
    if not wrote_json(explained, output):
        _write_text(explained)


def _write_text(explained: Explanation) -> None:
    for name, value in facts_in_words(explained):
        write_line(f"{name:12} {value}")
    write_line()
    for decision in explained.decisions:
        write_line(f"policy {decision.policy}: {decision.action}, by the rule {decision.rule}")
        write_line(f"             {decision.reason}")
        if decision.condition:
            write_line(f"             {decision.condition_in_words}")
