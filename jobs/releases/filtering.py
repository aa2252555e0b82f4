"""A release from start to end: `plan_filter` reads and decides, `carry_out` writes, `run_filter` does both.

The plan is made from all rows before a byte is written. Then each shard is copied by itself. Its kept pictures are
copied byte for byte, cleaned or covered, together with what may go with them, if they are still the scanned ones. A
sample that cannot be released safely is dropped then, and its decision says so.

`release.json` is written last, and only when all counts agree. Until then `release.unfinished.json` exists, and
`release.unfinished/` holds what --resume need not copy again. `release.lease.json` keeps a second filter out meanwhile.
"""

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from ingest.errors import IncompleteError, PolicyError, PrivsieveError, StorageError, number_of
from ingest.formats import Source
from ingest.formats.released import RELEASE_LEASE, UNFINISHED, Written
from ingest.storage.place import Place, place
from ingest.storage.removal import remove_half_written
from jobs.console.requests import Count, HashListUrl, Option, RunUrl, Url, checked_request
from jobs.releases.copying import Copied, ShardCopier, copied_inline, copied_on_ray
from jobs.releases.decider import Decider
from jobs.releases.destination import refuse_loss, refuse_misplaced, refuse_own_names
from jobs.releases.files import as_json
from jobs.releases.finishing import finish
from jobs.releases.guaranteeing import Guarantee, guarantee
from jobs.releases.overruling import decided_rows
from jobs.releases.plan import Counts, Plan, Share, cautions, plan_release, unanswered_in
from jobs.releases.previous import PreviousRelease, previous_release
from jobs.releases.record import GroupCounts, GuaranteeRecord, ReleaseIdentity, ReleaseRecord, UrlCounts
from jobs.releases.rewriting import (
    ReviewedBoxes,
    boxes_of_people,
    boxes_sha256,
    notes_of_looks,
    processes_for,
    refuse_gpu,
    refuse_uncoverable,
    shown_engine,
)
from jobs.releases.url_list import count_urls, kind_of, refuse_unlistable
from jobs.runtime.cluster import Executor, inline_session, names_cluster, refuse_address
from jobs.runtime.hash_list import NOTHING, hash_list_of
from jobs.runtime.pictures import READS_AGAIN, reads_pictures, withheld
from jobs.runtime.processes import FURTHER_AFTER_S
from jobs.runtime.progress import SILENT, Feedback
from reports.report.opened import open_run
from scoring.engines.detectors.covering import examiner
from scoring.openvino import in_use
from scoring.policies.policy import Policy
from scoring.policies.policy_file import SHIPPED, load_policy, policy_bytes
from scoring.policies.reserved import ReservedRule
from scoring.runs import RUN_RECORD
from scoring.runs.lease import Lease, lease
from scoring.runs.record import RunRecord, read_record
from scoring.runs.source import source_of
from scoring.sql.limits import spilling_database

AT_ONCE_BYTES = 2 * 10**8
"""A release of at least this many bytes is copied by all processes from the start; of a smaller one, less would be left
once they are ready."""


@checked_request
class FilterRequest:
    run: RunUrl
    """Folder or fsspec URL of a finished run."""

    policy: Annotated[Url, Option(offers=SHIPPED)]
    """YAML file of rules, or one that is shipped: strict, identity-documents-only, research, redacted."""

    out: Url
    """Folder or fsspec URL of the release; a new one, unless --resume is given."""

    resume: bool = False
    """Continue an interrupted filter into the same --out."""

    labels: Annotated[Url | None, Option(metavar="FILE")] = None
    """Labels that prove the guarantee of the policy."""

    urls: Annotated[Url | None, Option(metavar="METADATA")] = None
    """Release the rows of this table of URLs instead of pictures."""

    hash_list: HashListUrl = None
    """File of hashes of pictures that no release may have."""

    previous: Annotated[Url | None, Option(metavar="RELEASE")] = None
    """The release before: what was taken down stays away, and changes are listed."""

    boxes: Annotated[Url | None, Option(metavar="RUN/reviews")] = None
    """Boxes as people left them, for rules that cover."""


@checked_request
class FilterResources:
    processes: Count | None = None
    """Processes without Ray; default one per core, and one alone for a second engine with a GPU or an endpoint."""

    executor: Executor | None = None
    """Where the work runs: on Ray, or in this process and further ones that it starts; default inline, unless a cluster
    is named."""

    ray_address: str | None = None
    """Ray cluster to use; default RAY_ADDRESS."""

    def __post_init__(self) -> None:
        refuse_address(self.executor, self.ray_address)
        if self.processes is not None and (self.executor == "ray" or self.ray_address is not None):
            raise PrivsieveError(
                f"--processes {self.processes} works only with --executor inline: leave it out for Ray"
            )

    @property
    def on_ray(self) -> bool:
        """What the user chose; else whether a cluster is named."""
        if self.executor is None:
            return self.processes is None and names_cluster(self.ray_address)
        return self.executor == "ray"


@dataclass(frozen=True)
class FilterPlan:
    """What a filter would do; nothing is written yet."""

    request: FilterRequest
    run: Place
    out: Place
    record: RunRecord
    corpus: Source
    decider: Decider
    plan: Plan
    cautions: tuple[str, ...]
    """Lines to read before the counts: of which images they are, and rules that may not do what was meant."""

    guarantee: GuaranteeRecord | None
    """What it promises, what it costs and what proves it."""

    reviewed: ReviewedBoxes
    """Boxes as people left them, of --boxes."""

    previous: PreviousRelease | None
    groups: GroupCounts | None
    """Groups of near duplicates that share a decision."""

    urls: UrlCounts | None
    """What becomes of the rows of the table of URLs; None for a release of pictures."""

    @property
    def policy(self) -> Policy:
        return self.decider.policy


@dataclass(frozen=True)
class FilterResult:
    """What was written."""

    counts: Counts
    """As they were carried out: what could not be released safely is dropped."""

    release: ReleaseRecord
    """What `release.json` says."""

    cautions: tuple[str, ...]
    """As in the plan."""


def run_filter(
    request: FilterRequest, resources: FilterResources | None = None, feedback: Feedback = SILENT
) -> FilterResult:
    """Write the corpus of a run again, in its own layout, without what a policy drops.

    IncompleteError where the source changed since the scan, or a copy failed (continue with --resume); PolicyError,
    RunError, SourceError, StorageError before anything is written.
    """
    return carry_out(plan_filter(request, feedback), resources or FilterResources(), feedback)


def plan_filter(request: FilterRequest, feedback: Feedback = SILENT) -> FilterPlan:
    """Decide for every row, and write nothing."""
    policy = load_policy(policy_bytes(request.policy), request.policy)
    if (policy.guarantee is None) != (request.labels is None):
        raise PolicyError(f"{policy.file}: guarantee and --labels go together: the labels prove the guarantee")
    (run, record), out = read_record(request.run), place(request.out)
    corpus = source_of(record)
    previous = previous_release(request.previous, out)
    reviewed = boxes_of_people(request.boxes, policy)
    unanswered = unanswered_in(request.run, record, policy)
    if (refusal := policy.refusal(unanswered, record.engine)) is not None:
        raise PolicyError(refusal)
    refuse_uncoverable(policy)
    if record.screen is not None:
        policy.refuse_unnamed_stage()
    decider = Decider(policy, record.engine, removed=frozenset() if previous is None else previous.removed)
    hash_list = hash_list_of(request.hash_list)
    if hash_list is not NOTHING or record.hash_list is not None:
        if reads_pictures(record, hash_list):
            feedback.notice(READS_AGAIN)
        with open_run(request.run) as opened:
            listed, not_compared = withheld(opened, hash_list)
        decider = replace(decider, listed=listed, not_compared=not_compared)
    proven = None
    if request.labels is not None:
        proven = guarantee(request.labels, run, record, decider)
        decider = replace(decider, threshold=proven.threshold)
    decider, groups, urls = _overruled(request, run, record, corpus, decider)
    plan = plan_release(run, record, corpus, decider)
    notes = [*cautions(record, plan, policy, unanswered), *notes_of_looks(reviewed, policy.verify)]
    if groups is not None:
        notes.append(
            f"  {number_of(groups.num_pictures, 'picture')} in {number_of(groups.num_groups, 'group')} of near "
            f"duplicates ({groups.by}): {number_of(groups.num_overruled, 'picture')} with a stricter decision than of "
            "their own"
        )
    if proven is not None and (caution := _refuse_nothing_left(proven, plan, policy)):
        notes.append(caution)
    promised = None if proven is None else proven.record
    return FilterPlan(
        request, run, out, record, corpus, decider, plan, tuple(notes), promised, reviewed, previous, groups, urls
    )


def _overruled(
    request: FilterRequest, run: Place, record: RunRecord, corpus: Source, decider: Decider
) -> tuple[Decider, GroupCounts | None, UrlCounts | None]:
    """Return the decider with the decisions that follow from other pictures, and the counts of groups and of a list."""
    by = decider.policy.groups
    if request.urls is None and by is None:
        return decider, None, None
    if request.urls is not None:
        refuse_unlistable(decider.policy)
    with spilling_database("the pass over all rows") as connection:
        decided = decided_rows(connection, run, record, corpus, decider, by)
        groups = decided.group(by) if by is not None else None
        urls = None
        if request.urls is not None:
            decided.settle({"url_sha256": "same URL"} | ({"near": "group"} if groups is not None else {}))
            urls = count_urls(request.urls, decided)
        return replace(decider, overruled=decided.overruled()), groups, urls


def _refuse_nothing_left(proven: Guarantee, plan: Plan, policy: Policy) -> str | None:
    """Raise PolicyError if the guarantee drops every image with a score; return a caution if that was accepted."""
    if plan.num_scored_left or not plan.counts.by_rule["drop", ReservedRule.GUARANTEE]:
        return None
    if policy.guarantee is not None and policy.guarantee.accept_all:
        return proven.all_dropped()
    raise PolicyError(
        f"{proven.all_dropped()}; more labels, a lower recall or an engine that sees why these are private can "
        "keep some images; accept_all: true below guarantee goes on all the same"
    )


def check_destination(planned: FilterPlan) -> None:
    """Raise StorageError if the release cannot be written to where the request wants it."""
    request, corpus, out = planned.request, planned.corpus, planned.out
    refuse_misplaced(out, request.out, planned.run, corpus.root, corpus.is_folder)
    if kind_of(planned.urls).has_pictures:
        refuse_own_names(planned.plan)
    refuse_loss(out, request.out, _identity(planned), request.resume)


def carry_out(planned: FilterPlan, resources: FilterResources, feedback: Feedback) -> FilterResult:
    """Write the planned release. IncompleteError if the source or the run has changed since."""
    check_destination(planned)
    if planned.policy.verify is not None and resources.on_ray:
        refuse_gpu(planned.policy.verify)
    request, out = planned.request, planned.out
    kind = kind_of(planned.urls)
    identity = _identity(planned)
    if not kind.has_pictures and resources.executor is None:
        resources = replace(resources, executor="inline")  # nothing is copied
    with (
        _executor(planned, resources) as copy,  # first: a cluster that cannot be joined leaves nothing behind
        lease(out.at(RELEASE_LEASE), request.out, takeover=None) as own_lease,
        _failures_say_how_to_go_on(request.out, own_lease),
    ):
        _remove_half_written(out, own_lease)
        out.at(UNFINISHED).write(as_json(identity))
        copier = ShardCopier(
            corpus=planned.corpus,
            run=planned.run,
            decider=planned.decider,
            out=out,
            resume=request.resume,
            reviewed=planned.reviewed,
            copies_pictures=kind.has_pictures,
        )
        try:
            counts, written = _copy_all(copier, planned.plan, copy, feedback, own_lease)
            written += kind.written_last(request.urls, out, planned.run, planned.plan, planned.decider)
        except BaseException:
            with suppress(IncompleteError, StorageError):  # the first error says more
                _remove_half_written(out, own_lease)
            raise
        _remove_half_written(out, own_lease)
        release = finish(out, identity, planned.record, planned.plan, counts, written, planned.previous)
    return FilterResult(counts, release, planned.cautions)


@contextmanager
def _failures_say_how_to_go_on(url: str, own_lease: Lease) -> Iterator[None]:
    """Add the remedy to an error, unless another command has taken over: then the files are of that one."""
    try:
        yield
    except IncompleteError as error:
        if not own_lease.is_lost:
            error.args = (f"{error}; {url} holds an unfinished release: continue with --resume, or delete it",)
        raise


def _remove_half_written(out: Place, own_lease: Lease) -> None:
    """Remove half-written files. IncompleteError if another filter has taken over: they may be its own."""
    own_lease.confirm()
    if out.is_local:
        remove_half_written(out)


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
        second_look=", OpenVINO ".join(filter(None, (examiner().protocol, in_use()))) if policy.redacts else None,
        verified_by=None if policy.verify is None else shown_engine(policy.verify),
        residual_max_level=policy.residual_max_level,
        previous_sha256=None if planned.previous is None else planned.previous.sha256,
        boxes_sha256=boxes_sha256(planned.reviewed),
        guarantee=planned.guarantee,
        groups=planned.groups,
        urls=planned.urls,
    )


Copy = Callable[[ShardCopier, Sequence[Share]], Generator[Copied, None, None]]
"""A function that copies the shards, and yields each copy as it is done."""


@contextmanager
def _executor(planned: FilterPlan, resources: FilterResources) -> Iterator[Copy]:
    """Yield the function that copies, in processes of this machine or on a Ray that ends with the block."""
    if not resources.on_ray or not planned.plan.shares:
        is_large = resources.processes is not None or planned.plan.num_kept_bytes >= AT_ONCE_BYTES
        number = resources.processes or processes_for(planned.policy)
        with inline_session():
            yield partial(copied_inline, num_processes=number, further_after_s=0 if is_large else FURTHER_AFTER_S)
        return
    from jobs.runtime.cluster import ray_session

    with ray_session(resources.ray_address):
        yield copied_on_ray


def _copy_all(
    copier: ShardCopier, plan: Plan, copy: Copy, feedback: Feedback, own_lease: Lease
) -> tuple[Counts, list[Written]]:
    """Copy every shard. Return the counts after the copy, and what was written. If a shard has changed, the others are
    copied all the same, and IncompleteError is raised at the end. A StorageError is raised at once, and so is the error
    that another filter has taken the release over."""
    counts, written, changed = Counts(), dict[int, Written](), dict[int, str]()
    with feedback.meter("filter", plan.num_kept) as meter, closing(copy(copier, plan.shares)) as copies:
        for copied in copies:
            own_lease.check()
            if copied.failure:
                raise IncompleteError(copied.failure)
            if copied.changed:
                changed[copied.number] = copied.changed
                continue
            written[copied.number] = copied.written
            counts += copied.counts
            meter.advance(plan.shares[copied.number].num_kept)
    if changed:
        num_others = len(changed) - 1
        have = "has" if num_others == 1 else "have"
        others = f" ({number_of(num_others, 'more shard')} {have} such an error)" if num_others else ""
        raise IncompleteError(f"{changed[min(changed)]}{others}")
    return counts, [written[number] for number in sorted(written)]
