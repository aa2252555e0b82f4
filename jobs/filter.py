"""`privsieve filter RUN --policy POLICY --out DEST`: the corpus again, without what the policy drops."""

from collections.abc import Mapping

import click

from ingest.formats.members import Members
from jobs.console.completion import offering
from jobs.console.executor_options import executor_options
from jobs.console.terminal import write_line
from jobs.releasing.plan import Counts
from jobs.releasing.run import (
    INLINE_BYTES,
    INLINE_IMAGES,
    FilterRequest,
    FilterResources,
    carry_out,
    check_destination,
    plan_filter,
)
from jobs.runtime.executors import Executor
from jobs.runtime.feedback import on_terminal
from jobs.runtime.last_word import command_session
from scoring.policies.shipped import SHIPPED

MEANINGS: dict[Members, str] = {
    "listed": "text and JSON go with an image, of a table columns of text, numbers and times",
    "image-only": "an image goes alone, of a table with its key and category",
    "all": "whatever is no picture goes with an image",
}

MAX_KINDS_PRINTED = 8
"""Of members and columns that were left out."""

DEFAULT_EXECUTOR = (
    f"ray where a cluster is named or the release is above {INLINE_BYTES / 1e9:g} GB or {INLINE_IMAGES:,} images, "
    "else inline"
)


@click.command()
@click.argument("run_url", metavar="RUN")
@click.option(
    "--policy",
    required=True,
    shell_complete=offering(SHIPPED),
    help="YAML file of rules, or one that is shipped: strict, identity-documents-only, research.",
)
@click.option(
    "--out",
    "out_url",
    required=True,
    help="Folder or fsspec URL of the release; a new one, unless --resume or --overwrite is given.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be dropped and any problem with --out; write nothing.")
@click.option("--resume", is_flag=True, help="Continue an interrupted filter into the same --out.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier release.")
@executor_options(DEFAULT_EXECUTOR)
@click.option("--quiet", is_flag=True, help="No progress.")
def filter(
    run_url: str,
    policy: str,
    out_url: str,
    dry_run: bool,
    resume: bool,
    overwrite: bool,
    executor: Executor | None,
    ray_address: str | None,
    quiet: bool,
) -> None:
    """Write the corpus of RUN again, in its own layout, without what a policy drops."""
    resources = FilterResources(executor, ray_address)
    planned = plan_filter(FilterRequest(run_url, policy, out_url, resume, overwrite))
    if not dry_run:
        check_destination(planned)
    for line in planned.cautions:
        write_line(line)
    if dry_run:
        _print(planned.counts, planned.policy.name, planned.policy.members, "would be")
        check_destination(planned)
        return
    with command_session():
        result = carry_out(planned, resources, on_terminal(quiet))
    _print(result.counts, result.policy, result.members, "were")
    _print_left_out(result.left_out)


def _print(counts: Counts, policy: str, members: Members, verb: str) -> None:
    for (action, rule), count in sorted(counts.by_rule.items(), key=lambda item: (-item[1], item[0])):
        write_line(f"  {action:4}  {count:8}  {rule}")
    actions = counts.actions()
    write_line(
        f'policy "{policy}": of {counts.num_images} images {actions["keep"]} {verb} kept, '
        f"{actions['flag']} kept and flagged, {actions['drop']} dropped"
    )
    write_line(f"members: {members} ({MEANINGS[members]})")


def _print_left_out(left_out: Mapping[str, int]) -> None:
    if left_out:
        first = [f"{count} {kind}" for kind, count in left_out.items()][:MAX_KINDS_PRINTED]
        more = f" and {len(left_out) - len(first)} more kinds" if len(left_out) > len(first) else ""
        write_line(f"left out beside the images: {', '.join(first)}{more}")
