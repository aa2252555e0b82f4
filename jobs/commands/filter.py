"""`privsieve filter RUN --policy POLICY --out DEST`: the corpus again, without what the policy drops."""

from collections.abc import Mapping
from itertools import islice
from shlex import quote

import click

from ingest.errors import number_of
from ingest.formats.members import Members
from ingest.formats.released import CHANGES, DECISIONS, PRIVATE
from jobs.console.commands import Command
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.releases.decider import readable
from jobs.releases.filtering import (
    FilterPlan,
    FilterRequest,
    FilterResources,
    carry_out,
    check_destination,
    plan_filter,
)
from jobs.releases.guaranteeing import percent
from jobs.releases.plan import Counts
from jobs.releases.record import GuaranteeRecord, UrlCounts
from jobs.runtime.cluster import command_session
from jobs.runtime.progress import on_terminal
from scoring.policies.policy import Policy
from scoring.policies.reserved import ReservedRule
from scoring.sql.expressions import shown

MEANINGS: dict[Members, str] = {
    "listed": "text and JSON go with an image, of a table columns of text, numbers and times",
    "image-only": "an image goes alone, of a table with its key and category",
    "all": "whatever is no picture goes with an image",
}

MAX_KINDS_PRINTED = 8
"""Limit on the printed kinds of members and columns that were left out."""


@click.command(cls=Command)
@takes(FilterRequest, FilterResources)
@click.option("--dry-run", is_flag=True, help="Show what would be dropped; write nothing.")
@QUIET
def filter(request: FilterRequest, resources: FilterResources, dry_run: bool, quiet: bool) -> None:
    """Write the corpus of RUN again, in its own layout, without what a policy drops.

    The policy also says what is covered, how near duplicates are grouped and which recall is guaranteed: see privsieve
    help filter.
    """
    planned = plan_filter(request, on_terminal(quiet))
    if not dry_run:
        check_destination(planned)
    for line in planned.cautions:
        write_line(line)
    if dry_run:
        _print(planned, planned.plan.counts, "would be")
        check_destination(planned)
        return
    with command_session():
        result = carry_out(planned, resources, on_terminal(quiet))
    _print(planned, result.counts, "were")
    release = result.release
    _print_left_out(release.members_left_out)
    if release.num_without_origin:
        pictures = number_of(release.num_without_origin, "cleaned or covered picture")
        write_line(f"origins: removed (URLs, hashes and sizes of originals, from the texts of {pictures})")
    if (changes := release.changes) is not None:
        counts = f"{changes.num_added:,} added, {changes.num_removed:,} removed, {changes.num_changed:,} changed"
        write_line(f"since the release before: {counts} ({CHANGES})")
    write_line(f"release written to {request.out}: {DECISIONS} says why of each image, release.json has the counts")
    write_line(f"may be published: all but {PRIVATE}/, which names the dropped images and the path of the source")
    if release.urls is None:
        write_line(
            f"next: privsieve scan {quote(request.out)} --run NEW_RUN, to check the release as a corpus of its own"
        )


def _print(planned: FilterPlan, counts: Counts, verb: str) -> None:
    """Print what is released and why. counts: of the plan, or as they were carried out."""
    policy = planned.policy
    width = max((len(action) for action, _ in counts.by_rule), default=0)
    for (action, rule), count in sorted(counts.by_rule.items(), key=lambda item: (-item[1], item[0])):
        write_line(f"  {action:{width}}  {count:8,}  {rule}")
    actions = counts.actions()
    redacted = f"{actions['redact']:,} redacted, " if actions["redact"] else ""
    write_line(
        f'policy "{policy.name}": of {counts.num_images:,} images {actions["keep"]:,} {verb} kept, '
        f"{actions['flag']:,} kept and flagged, {redacted}{actions['drop']:,} dropped"
    )
    write_line(f"members: {policy.members} ({MEANINGS[policy.members]})")
    if policy.writes_again and policy.origins == "kept":
        write_line("origins: kept (texts of cleaned and covered pictures still lead to the originals)")
    _print_guarantee(planned.guarantee, counts)
    _print_urls(planned.urls)
    _print_unseen(counts, policy)


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
    num = counts.by_rule["drop", ReservedRule.GUARANTEE]
    share = percent(num / counts.num_images if counts.num_images else 0.0)
    write_line(
        f"  price      {num:,} of {counts.num_images:,} images ({share}) in addition to those that the policy drops"
    )
    write_line(f"  assumes    {promised.assumption}")


def _print_urls(counted: UrlCounts | None) -> None:
    if counted is None:
        return
    actions = ", ".join(f"{number:,} {action}" for action, number in counted.actions.items() if number) or "none judged"
    write_line(
        f"list: of {counted.num_listed:,} rows {actions}; without a judged picture: "
        f"{number_of(counted.num_failed, 'failed download')}, {counted.num_not_scanned:,} not scanned, "
        f"{counted.num_without_url:,} without a URL"
    )
    write_line(f"      {number_of(counted.num_released, 'row')} in the list")


def _print_unseen(counts: Counts, policy: Policy) -> None:
    """Print how many kept images hold unseen content. Name the rule that finds them, unless the policy has one."""
    if counts.num_unseen and policy.files == "clean":
        write_line(f"removed from {number_of(counts.num_unseen, 'kept image')}: content that was not scanned")
    elif counts.num_unseen:
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in counts.kinds().items())
        rule = "" if "unseen" in policy.asked else "; rule: len(unseen) > 0"
        hold = "hold" if counts.num_unseen > 1 else "holds"
        images = number_of(counts.num_unseen, "kept image")
        write_line(f"{images} {hold} content that may not have been scanned ({kinds}){rule}")


def _print_left_out(left_out: Mapping[str, int]) -> None:
    if left_out:
        kinds = (  # of files, or columns that hold values
            f"{number_of(count, 'value')} of the {kind}" if kind.startswith("column ") else f"{count:,} {kind}"
            for kind, count in left_out.items()
        )
        first = list(islice(kinds, MAX_KINDS_PRINTED))
        more = f" and {len(left_out) - len(first)} more kinds" if len(left_out) > len(first) else ""
        write_line(f"left out next to the images: {', '.join(first)}{more}")
