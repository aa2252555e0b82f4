"""`privsieve filter RUN --policy POLICY --out DEST`: the corpus again, without what the policy drops."""

from collections.abc import Mapping
from shlex import quote

import click

from ingest.errors import number_of
from ingest.formats.members import Members
from jobs.console.completion import offering
from jobs.console.executor_options import executor_options
from jobs.console.hash_list_option import hash_list_option
from jobs.console.option_types import FiniteRange, Recall
from jobs.console.terminal import write_line
from jobs.filter.bar import readable
from jobs.filter.guaranteeing import BY, GuaranteeRequest, percent
from jobs.filter.plan import Counts
from jobs.filter.record import GuaranteeRecord
from jobs.filter.run import (
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
from reports.labelled_rows import Drawn
from scoring.policies.policy import Policy
from scoring.policies.shipped import SHIPPED
from scoring.sql.expressions import shown

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
@click.option(
    "--guarantee",
    "recall",
    type=Recall(),
    metavar="recall=SHARE",
    help="Drop at least this share of the private pictures, too, such as recall=0.95; the labels prove it.",
)
@click.option(
    "--confidence",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="Probability with which the guarantee holds.",
)
@click.option("--labels", metavar="FILE", help="For --guarantee: labels of a random sample, or of the audit sample.")
@click.option(
    "--guarantee-by",
    metavar="COLUMN",
    help=f"Number that the guarantee has its threshold on: column or SQL expression.  [default: {', else '.join(BY)}]",
)
@click.option(
    "--drawn",
    type=click.Choice(["audit", "evenly"]),
    help="How the labelled images were drawn.  [default: audit if all are of the audit sample]",
)
@click.option("--accept-all", is_flag=True, help="With --guarantee: go on although every scored image is dropped.")
@hash_list_option("is in no release, whatever the policy says")
@executor_options(DEFAULT_EXECUTOR)
@click.option("--quiet", is_flag=True, help="No progress.")
def filter(
    run_url: str,
    policy: str | None,
    out_url: str,
    dry_run: bool,
    resume: bool,
    overwrite: bool,
    recall: float | None,
    confidence: float,
    labels: str | None,
    guarantee_by: str | None,
    drawn: Drawn | None,
    accept_all: bool,
    hash_list: str | None,
    executor: Executor | None,
    ray_address: str | None,
    quiet: bool,
) -> None:
    """Write the corpus of RUN again, in its own layout, without what a policy drops.

    With --guarantee, images from a threshold on are dropped beside those of the policy.
    """
    resources = FilterResources(executor, ray_address)
    if (recall is None) != (labels is None):
        raise click.UsageError("--guarantee and --labels go together: the labels prove the guarantee")
    if recall is None and (guarantee_by or drawn or accept_all):
        message = "--guarantee-by, --drawn and --accept-all are of --guarantee; give it, or leave them out"
        raise click.UsageError(message)
    guarantee = None
    if recall is not None and labels is not None:
        guarantee = GuaranteeRequest(labels, recall, confidence, guarantee_by, drawn, accept_all)
    request = FilterRequest(run_url, policy, out_url, resume, overwrite, guarantee, hash_list)
    planned = plan_filter(request, on_terminal(quiet))
    if not dry_run:
        check_destination(planned)
    for line in planned.cautions:
        write_line(line)
    if dry_run:
        _print(planned.counts, planned.policy.name, planned.policy.members, "would be")
        _print_guarantee(planned.guarantee, planned.counts)
        _print_unseen(planned.counts, planned.policy)
        check_destination(planned)
        return
    with command_session():
        result = carry_out(planned, resources, on_terminal(quiet))
    _print(result.counts, result.policy, result.members, "were")
    _print_guarantee(result.guarantee, result.counts)
    _print_unseen(result.counts, planned.policy)
    _print_left_out(result.left_out)
    write_line(f"release written to {out_url}: decisions.parquet says why of each image, release.json has the counts")
    write_line(f"next: privsieve scan {quote(out_url)} --run NEW_RUN, to check the release as a corpus of its own")


def _print(counts: Counts, policy: str, members: Members, verb: str) -> None:
    for (action, rule), count in sorted(counts.by_rule.items(), key=lambda item: (-item[1], item[0])):
        write_line(f"  {action:4}  {count:8}  {rule}")
    actions = counts.actions()
    write_line(
        f'policy "{policy}": of {counts.num_images} images {actions["keep"]} {verb} kept, '
        f"{actions['flag']} kept and flagged, {actions['drop']} dropped"
    )
    write_line(f"members: {members} ({MEANINGS[members]})")


def _print_guarantee(promised: GuaranteeRecord | None, counts: Counts) -> None:
    if promised is None:
        return
    by = shown(promised.by)
    rule = "the policy alone drops enough" if promised.threshold is None else f"{by} >= {readable(promised.threshold)}"
    write_line(f"guarantee: {promised.promise}")
    write_line(f"  threshold  {rule}")
    drawn = ""
    if promised.drawn == "audit":
        drawn = f" (of {promised.num_private_drawn:,} of the audit, thinned to equal probabilities)"
    missed = f"{promised.num_missed:,} {'was' if promised.num_missed == 1 else 'were'} missed"
    write_line(
        f"  proof      {promised.num_private_labelled:,} private labelled pictures{drawn}: {missed} "
        f"({promised.num_missed_allowed:,} allowed). If the true recall were below {percent(promised.recall)}, a "
        f"result this good would occur in at most {100 * promised.failure_probability:.1f} % of samples."
    )
    if promised.num_undecided:
        write_line(
            f"  undecided  {number_of(promised.num_undecided, 'labelled picture')}: people differ, or cannot say. The "
            f"promise holds whichever are private; the proof takes {promised.num_undecided_as_private:,} as private"
        )
    write_line(
        f"  price      {promised.num_dropped:,} of {counts.num_images:,} images ({percent(promised.share_dropped)}) "
        f"beside those that the policy drops"
    )
    write_line(f"  assumes    {promised.assumption}")


def _print_unseen(counts: Counts, policy: Policy) -> None:
    """The rule that would have found them is named unless the policy has one."""
    if counts.num_unseen:
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in counts.unseen_kinds.items())
        rule = "" if policy.has_rule_about("unseen") else "; rule: len(unseen) > 0"
        hold = "hold" if counts.num_unseen > 1 else "holds"
        images = number_of(counts.num_unseen, "kept image")
        write_line(f"{images} {hold} content that was not scanned ({kinds}){rule}")


def _print_left_out(left_out: Mapping[str, int]) -> None:
    if left_out:
        first = [f"{count} {kind}" for kind, count in left_out.items()][:MAX_KINDS_PRINTED]
        more = f" and {len(left_out) - len(first)} more kinds" if len(left_out) > len(first) else ""
        write_line(f"left out beside the images: {', '.join(first)}{more}")
