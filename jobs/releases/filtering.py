"""A release from start to end: `plan_filter` reads and decides, `carry_out` writes, `run_filter` does both.

The plan is made from all rows before a byte is written. Then each shard is copied by itself. Its kept pictures are
copied byte for byte, cleaned or covered, together with what may go with them, if they are still the scanned ones. A
sample that cannot be released safely is dropped then, and its decision says so.

`release.json` is written last, and only when all counts agree. Until then `release.unfinished.json` exists, and
`release.unfinished/` holds what --resume need not copy again. `release.lease.json` keeps a second filter out meanwhile.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count

from ingest.errors import IncompleteError, PolicyError, number_of
from ingest.formats import Source
from ingest.formats.members import Members
from ingest.formats.released import RELEASE_LEASE, UNFINISHED, Written
from ingest.storage.place import Place, place
from ingest.storage.removal import remove_half_written
from jobs.releases.contents import failures_say_what_is_left, removed_release
from jobs.releases.copying import Copied, ShardCopier, copied_on_ray
from jobs.releases.decider import Decider
from jobs.releases.files import as_json
from jobs.releases.finishing import finish
from jobs.releases.guaranteeing import GUARANTEE_ONLY, Guarantee, guarantee
from jobs.releases.kind import kind_of
from jobs.releases.overruling import decided_rows
from jobs.releases.plan import Counts, Plan, counts_of, plan_release
from jobs.releases.plan import Share as ShardShare
from jobs.releases.previous import PreviousRelease, previous_release
from jobs.releases.record import ChangeCounts, GroupCounts, GuaranteeRecord, ReleaseIdentity, UrlCounts
from jobs.releases.refusals import (
    cautions,
    notes_of_groups,
    refuse_loss,
    refuse_misplaced,
    refuse_own_names,
    unanswered_in,
)
from jobs.releases.request import INLINE_BYTES, INLINE_IMAGES, FilterRequest, FilterResources
from jobs.releases.rewriting import (
    ReviewedBoxes,
    VerifyEngine,
    boxes_of_people,
    boxes_sha256,
    clears_what_is_private,
    notes_of_looks,
    refuse_uncoverable,
    verify_engine,
)
from jobs.releases.signing import signed
from jobs.releases.url_list import count_urls, refuse_unlistable
from jobs.runtime.cluster import Executor, inline_session
from jobs.runtime.hash_list import NOTHING, hash_list_of
from jobs.runtime.pictures import READS_AGAIN, reads_pictures, withheld
from jobs.runtime.progress import SILENT, Feedback
from reports.report.opened import open_run
from scoring.engines.detectors.covering import examiner
from scoring.policies.policy import Policy
from scoring.policies.policy_file import load_policy, policy_bytes
from scoring.runs import RUN_RECORD
from scoring.runs.lease import Lease, lease
from scoring.runs.record import RunRecord, read_record
from scoring.sql.limits import spilling_database


@dataclass(frozen=True)
class FilterPlan:
    """What a filter would do; nothing is written yet."""

    request: FilterRequest
    run: Place
    record: RunRecord
    corpus: Source
    decider: Decider
    plan: Plan
    cautions: tuple[str, ...]
    """Lines to read before the counts: of which images they are, and rules that may not do what was meant."""

    guarantee: GuaranteeRecord | None
    """What it promises, what it costs and what proves it."""

    reviewed: ReviewedBoxes = field(default_factory=dict)
    """Boxes as people left them, of --boxes."""

    verify: VerifyEngine | None = None
    """The other engine of the second look."""

    previous: PreviousRelease | None = None

    groups: GroupCounts | None = None
    """Groups of near duplicates that share a decision."""

    urls: UrlCounts | None = None
    """What becomes of the rows of the table of URLs; None for a release of pictures."""

    @property
    def policy(self) -> Policy:
        return self.decider.policy

    @property
    def counts(self) -> Counts:
        return self.plan.counts


@dataclass(frozen=True)
class FilterResult:
    """What was written. Fields without a docstring are those of the plan."""

    counts: Counts
    """As they were carried out: what could not be released safely is dropped."""

    policy: str
    """The name in its file."""

    members: Members
    """What may go with an image."""

    left_out: Mapping[str, int]
    """Kind of file or column that was next to the images and not copied -> how many, the most frequent first."""

    cautions: tuple[str, ...]
    guarantee: GuaranteeRecord | None = None

    num_without_origin: int = 0
    """Pictures written again whose texts lost what leads to the original."""

    changes: ChangeCounts | None = None
    """Since the release before."""

    urls: UrlCounts | None = None


def run_filter(
    request: FilterRequest, resources: FilterResources | None = None, feedback: Feedback = SILENT
) -> FilterResult:
    """Write a release. Raise the errors of `ingest.errors`."""
    return carry_out(plan_filter(request, feedback), resources or FilterResources(), feedback)


def plan_filter(request: FilterRequest, feedback: Feedback = SILENT) -> FilterPlan:
    """Decide for every row, and write nothing."""
    policy = _policy(request.policy)
    run, record = read_record(request.run)
    corpus = record.open_source()
    previous = previous_release(request.previous, request.out)
    reviewed = boxes_of_people(request.boxes, policy)
    verify = verify_engine(request.verify_engine, request.options, policy)
    unanswered = unanswered_in(request.run, record, policy)
    if (refusal := policy.refusal(unanswered, record.engine)) is not None:
        raise PolicyError(refusal)
    refuse_uncoverable(policy)
    if record.screen is not None:
        policy.refuse_unnamed_stage()
    decider = Decider(
        policy,
        record.engine,
        removed=frozenset() if previous is None else previous.removed,
        covered_counts=clears_what_is_private(policy, verify, reviewed),
    )
    hash_list = hash_list_of(request.hash_list)
    if hash_list is not NOTHING or record.hash_list is not None:
        if reads_pictures(record, hash_list):
            feedback.notice(READS_AGAIN)
        with open_run(request.run) as opened:
            listed, not_compared = withheld(opened, hash_list)
        decider = replace(decider, listed=listed, not_compared=not_compared)
    promise = request.promise
    proven = guarantee(promise, run, record, decider) if promise is not None else None
    if proven is not None:
        decider = replace(decider, threshold=proven.threshold)
    decider, groups, urls = _overruled(request, run, record, corpus, decider)
    plan = plan_release(run, record, corpus, decider)
    notes = [*cautions(record, plan, policy, unanswered), *notes_of_looks(reviewed, verify), *notes_of_groups(groups)]
    if proven is not None:
        proven = proven.with_price(plan.counts)
        notes += filter(None, [proven.caution, _refuse_nothing_left(proven, plan, request.accept_all)])
    return FilterPlan(
        request=request,
        run=run,
        record=record,
        corpus=corpus,
        decider=decider,
        plan=plan,
        cautions=tuple(notes),
        guarantee=None if proven is None else proven.record,
        reviewed=reviewed,
        verify=verify,
        previous=previous,
        groups=groups,
        urls=urls,
    )


def _overruled(
    request: FilterRequest,
    run: Place,
    record: RunRecord,
    corpus: Source,
    decider: Decider,
) -> tuple[Decider, GroupCounts | None, UrlCounts | None]:
    """Return the decider with the decisions that follow from other pictures, and the counts of groups and of a list."""
    if request.urls is None and request.groups is None:
        return decider, None, None
    if request.urls is not None:
        refuse_unlistable(decider.policy)
    with spilling_database("the pass over all rows") as connection:
        decided = decided_rows(connection, run, record, corpus, decider, request.groups)
        groups = decided.group(request.groups) if request.groups is not None else None
        urls = None
        if request.urls is not None:
            decided.settle({"url_sha256": "same URL"} | ({"near": "group"} if groups is not None else {}))
            urls = count_urls(request.urls, decided)
        return replace(decider, overruled=decided.overruled()), groups, urls


def _refuse_nothing_left(guarantee_: Guarantee, plan: Plan, is_accepted: bool) -> str | None:
    """Raise PolicyError if the guarantee drops every image with a score; return a caution if that was accepted."""
    if plan.num_scored_left or not guarantee_.record.num_dropped:
        return None
    if is_accepted:
        return guarantee_.all_dropped()
    raise PolicyError(
        f"{guarantee_.all_dropped()}; more labels, a lower recall or an engine that sees why these are private can "
        "keep some images; --accept-all goes on all the same"
    )


def _policy(name: str | None) -> Policy:
    if name is None:
        return load_policy(GUARANTEE_ONLY, "the policy of --guarantee alone")
    return load_policy(policy_bytes(name), name)


def check_destination(planned: FilterPlan) -> None:
    """Raise StorageError if the release cannot be written to where the request wants it."""
    request, corpus, out = planned.request, planned.corpus, place(planned.request.out)
    refuse_misplaced(out, request.out, planned.run, corpus.root, corpus.is_folder)
    if kind_of(planned.urls).has_pictures:
        refuse_own_names(planned.plan)
    refuse_loss(out, request.out, corpus.root, _identity(planned), request.resume, request.overwrite)
    if request.sign_key is not None:
        signed(b"", request.sign_key)  # before anything is copied: a key that cannot sign is of no use at the end


def carry_out(planned: FilterPlan, resources: FilterResources, feedback: Feedback) -> FilterResult:
    """Write the planned release. IncompleteError if the source or the run has changed since."""
    check_destination(planned)
    if planned.verify is not None and executor_for(planned.plan, resources) == "ray":
        planned.verify.refuse_gpu()
    request, policy, out = planned.request, planned.policy, place(planned.request.out)
    kind = kind_of(planned.urls)
    identity = _identity(planned)
    if not kind.has_pictures and resources.executor is None:
        resources = replace(resources, executor="inline")  # nothing is copied
    with _executor(planned.plan, resources) as copy:  # first: a cluster that cannot be joined leaves nothing behind
        is_replaced = request.overwrite and removed_release(out)
        with (
            lease(out.at(RELEASE_LEASE), request.out, takeover=None) as own_lease,
            failures_say_what_is_left(out, request.out, own_lease, is_replaced),
        ):
            if out.is_local and out.exists():  # what a killed filter left
                remove_half_written(out)
            out.at(UNFINISHED).write(as_json(identity))
            copier = ShardCopier(
                corpus=planned.corpus,
                run=planned.run,
                decider=planned.decider,
                out=out,
                resume=request.resume,
                reviewed=planned.reviewed,
                verify=planned.verify,
                copies_pictures=kind.has_pictures,
            )
            counts, written = _copy_all(copier, planned.plan, copy, feedback, own_lease)
            written += kind.written_last(request.urls, out, planned.run, planned.plan, planned.decider)
            own_lease.confirm()
            release = finish(
                out, identity, planned.record, planned.plan, counts, written, request.sign_key, planned.previous
            )
    return FilterResult(
        counts=counts,
        policy=policy.name,
        members=policy.members,
        left_out=release.members_left_out,
        cautions=planned.cautions,
        guarantee=planned.guarantee,
        num_without_origin=release.num_without_origin,
        changes=release.changes,
        urls=planned.urls,
    )


def _identity(planned: FilterPlan) -> ReleaseIdentity:
    record, policy = planned.record, planned.policy
    return ReleaseIdentity(
        privsieve=record.privsieve,
        sample=record.sample,
        limit=record.limit,
        run_sha256=hashlib.sha256(planned.run.at(RUN_RECORD).read()).hexdigest(),
        policy=policy.name,
        policy_sha256=policy.sha256,
        kept_sha256=planned.plan.kept_sha256(),
        members=policy.members,
        files=policy.files,
        texts=policy.texts,
        origins=policy.origins if policy.writes_again else None,
        second_look=examiner().protocol if policy.redacts else None,
        verified_by=None if planned.verify is None else planned.verify.shown,
        residual_max_level=policy.residual_max_level,
        previous_sha256=None if planned.previous is None else planned.previous.sha256,
        boxes_sha256=boxes_sha256(planned.reviewed),
        guarantee=planned.guarantee,
        groups=planned.groups,
        urls=planned.urls,
    )


def executor_for(plan: Plan, resources: FilterResources) -> Executor:
    """Return what the user chose; else Ray if a cluster is named or the release is large."""
    if resources.executor is not None:
        return resources.executor
    if resources.ray_address or os.environ.get("RAY_ADDRESS"):
        return "ray"
    is_small = plan.num_kept_bytes <= INLINE_BYTES and plan.num_kept <= INLINE_IMAGES
    return "inline" if is_small else "ray"


Copy = Callable[[ShardCopier, Sequence[ShardShare]], Iterator[Copied]]
"""A function that copies the shards, and yields each copy as it is done."""


@contextmanager
def _executor(plan: Plan, resources: FilterResources) -> Iterator[Copy]:
    """Yield the function that copies, in this process or on Ray, which runs for the length of the block."""
    if executor_for(plan, resources) == "inline" or not plan.shares:
        with inline_session():
            yield lambda copier, shares: map(copier.outcome, count(), shares)
        return
    from jobs.runtime.cluster import ray_session

    with ray_session(resources.ray_address):
        yield copied_on_ray


def _copy_all(
    copier: ShardCopier, plan: Plan, copy: Copy, feedback: Feedback, own_lease: Lease
) -> tuple[Counts, list[Written]]:
    """Copy every shard. Return the counts after the copy, and what was written.

    If a shard has changed, the others are copied all the same, and IncompleteError is raised at the end. A StorageError
    is raised at once, and so is the error that another filter has taken the release over.
    """
    by_rule, written, changed = Counter[tuple[str, str]](), dict[int, Written](), dict[int, str]()
    num_unseen, unseen_kinds = 0, Counter[str]()
    with feedback.meter("filter", plan.num_kept) as meter:
        for copied in copy(copier, plan.shares):
            own_lease.check()
            if copied.failure:
                raise IncompleteError(f"{copied.failure}; run the same command with --resume to continue")
            if copied.changed:
                changed[copied.number] = copied.changed
                continue
            written[copied.number] = copied.written
            by_rule.update(copied.by_rule)
            num_unseen += copied.num_unseen
            unseen_kinds.update(copied.unseen_kinds)
            meter.advance(plan.shares[copied.number].num_kept)
    if changed:
        num_others = len(changed) - 1
        have = "has" if num_others == 1 else "have"
        others = f" ({number_of(num_others, 'more shard')} {have} such an error)" if num_others else ""
        raise IncompleteError(f"{changed[min(changed)]}{others}")
    counts = counts_of(by_rule, num_unseen, unseen_kinds)
    return counts, [written[number] for number in sorted(written)]
