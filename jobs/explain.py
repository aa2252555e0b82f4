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
    from jobs.reporting.explaining import ExplainRequest, run_explain
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
    size = f"{found.width} x {found.height} px" if found.width else None
    num_bytes = None if found.num_bytes is None else f"{found.num_bytes:,} bytes"
    lines = [
        ("image", found.key),
        ("where", f"shard {found.shard}, index {found.index}"),
        ("category", found.category),
        ("file", ", ".join(filter(None, (found.format, size, num_bytes)))),
        ("sha256", found.sha256),
        ("not scanned", ", ".join(found.unseen)),
        ("quarantined", found.reason),
        ("private", found.private),
        ("level", _level(found)),
        ("shows", ", ".join(found.present)),
        ("doubtful", ", ".join(found.doubtful)),
        ("absent", ", ".join(found.absent)),
        ("not judged", ", ".join(found.not_judged)),
        ("evidence", "not shown: it may hold a model's own words" if found.rationale is None else found.rationale),
        ("boxes", "; ".join(found.boxes)),
    ]
    for name, value in lines:
        if value:
            write_line(f"{name:12} {value}")
    write_line()
    for decision in found.decisions:
        write_line(f"policy {decision.policy}: {decision.action}, by the rule {decision.rule}")
        write_line(f"             {decision.reason}")
        if decision.condition:
            here = ", ".join(f"{name} = {value}" for name, value in decision.values)
            write_line(f"             when {decision.condition}{f'; here {here}' if here else ''}")


def _level(found: "Explanation") -> str | None:
    if found.level is None or found.score is None:
        return None
    more = ""
    if found.score_high is not None and found.score_high > found.score:
        more = f", {found.score_high:.3f} with what is doubtful"
    return f"{found.level} {found.level_name}, severity score {found.score:.3f}{more}"
