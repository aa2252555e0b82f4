"""The verb `explain`: one image in words, and what policies do with it and why."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from jobs.console.hash_list_option import hash_list_option
from jobs.console.terminal import write_cautions, write_json, write_line

if TYPE_CHECKING:
    from reports.explaining import Explanation


@click.command()
@click.argument("run")
@click.argument("key")
@click.option("--shard", help="Look in this shard only.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    help="Policies to apply, a file or a shipped one; may be repeated.  [default: all that are shipped]",
)
@hash_list_option("is not explained")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain(
    run: str, key: str, shard: str | None, policies: tuple[str, ...], hash_list: str | None, output: str
) -> None:
    """Say in words what RUN knows of the image with this KEY, and what policies do with it and why.

    KEY is the image's key. If several images have it, write SHARD/KEY, or SHARD#INDEX as in the report; its sha256 will
    do as well. The picture is not opened, unless a hash list has PDQ hashes. No found text is shown: none is stored.
    """
    from jobs.report.explaining import ExplainRequest, run_explain
    from jobs.runtime.feedback import on_terminal
    from jobs.runtime.requests import refused_in_one_line
    from scoring.policies.shipped import SHIPPED
    from scoring.sql.limits import limits_of_command

    with refused_in_one_line():
        request = ExplainRequest(run, key, shard, policies or SHIPPED, hash_list)
    found, cautions = run_explain(request, on_terminal(quiet=True), limits_of_command(600))
    if output == "json":
        write_json(asdict(found), indent=1)
    else:
        _write_text(found)
    write_cautions(cautions)


def _write_text(found: "Explanation") -> None:
    from reports.explaining import facts_in_words

    for name, value in facts_in_words(found):
        write_line(f"{name:12} {value}")
    write_line()
    for decision in found.decisions:
        write_line(f"policy {decision.policy}: {decision.action}, by the rule {decision.rule}")
        write_line(f"             {decision.reason}")
        if decision.condition:
            write_line(f"             {decision.condition_in_words}")
