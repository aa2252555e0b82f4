"""The verb `explain`: one image in words, and what policies do with it and why."""

from typing import Annotated

import click

from jobs.console.request_options import TEXT_OR_JSON, takes
from jobs.console.requests import HashListUrl, Option, RunUrl, Urls, checked_request
from jobs.console.terminal import write_cautions, write_line, wrote_json
from jobs.runtime.hash_list import hash_list_of
from jobs.runtime.pictures import clear_rows, refuse_listed
from jobs.runtime.progress import SILENT, Feedback, on_terminal
from reports.report.explaining import Explanation, explanation, facts_in_words, row_named
from reports.report.opened import open_run
from scoring.policies.policy_file import SHIPPED, load_policy, policy_bytes
from scoring.sql.limits import NO_LIMITS, Limits, limits_of_command


@checked_request
class ExplainRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    key: Annotated[str, Option(argument="KEY")]
    """Key of the image, SHARD/KEY, SHARD#INDEX or its sha256."""

    shard: str | None = None
    """Look in this shard only."""

    policies: Annotated[Urls, Option("--policy")] = SHIPPED
    """Policies to apply, a file or a shipped one; may be repeated. [default: all that are shipped]"""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is not explained."""


def run_explain(
    request: ExplainRequest, feedback: Feedback = SILENT, limits: Limits = NO_LIMITS
) -> tuple[Explanation, tuple[str, ...]]:
    """Return the explanation, and the cautions of the run. QueryError where no image, or several, have that key."""
    loaded = [load_policy(policy_bytes(name), name) for name in request.policies]
    listed = hash_list_of(request.hash_list)
    may_name = clear_rows(listed, feedback)
    with open_run(request.run, limits) as opened:
        row = row_named(opened, request.key, request.shard, may_name)
        refuse_listed(opened, row, listed)
        return explanation(opened, row, loaded), tuple(opened.cautions)


@click.command()
@takes(ExplainRequest)
@TEXT_OR_JSON
def explain(request: ExplainRequest, output: str) -> None:
    """Say in words what RUN knows of the image with this KEY, and what policies do with it and why.

    KEY is the image's key. If several images have it, write SHARD/KEY, or SHARD#INDEX as in the report; its sha256 will
    do as well. The picture is not opened, unless a hash list has PDQ hashes. No found text is shown: none is stored.
    """
    explained, cautions = run_explain(request, on_terminal(quiet=True), limits_of_command(600))
    if not wrote_json(explained, output):
        _write_text(explained)
    write_cautions(cautions)


def _write_text(explained: Explanation) -> None:
    for name, value in facts_in_words(explained):
        write_line(f"{name:12} {value}")
    write_line()
    for decision in explained.decisions:
        write_line(f"policy {decision.policy}: {decision.action}, by the rule {decision.rule}")
        write_line(f"             {decision.reason}")
        if decision.condition:
            write_line(f"             {decision.condition_in_words}")
