"""`privsieve filter RUN --policy POLICY --out DEST`: the corpus again, without what the policy drops.

Decisions are made for every row before a byte is written (`jobs.releasing.decisions`). Then each shard is copied by a
task of its own: the kept pictures byte for byte, if they are still those that were scanned, and what may go with
them. A sample that cannot be released safely is dropped then, and its decision says so. `release.json` is written last
and only when all counts agree; until then `release.unfinished.json` is there, and below `release.unfinished/` a record
per shard that is done, so that --resume need not copy it again. `release.lease.json` keeps a second filter out
meanwhile.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import IncompleteError, PolicyError, PrivsieveError, StorageError
from ingest.formats import FORMATS, Source, open_source
from ingest.formats.members import Members, name_fault
from ingest.formats.released import DECISIONS, RELEASE, Kept, Written
from ingest.formats.tree import ROOT
from ingest.sample import printable
from ingest.storage.place import Place, place, reason_of
from ingest.storage.removal import remove_half_written, remove_tree
from jobs.console.terminal import write_line
from jobs.releasing.decisions import Plan, Share, decide, decisions_of, hash_of, kept_of
from jobs.releasing.record import (
    DONE,
    OWN_NAMES,
    RELEASE_LEASE,
    UNFINISHED,
    ReleaseRecord,
    refuse_misplaced,
    release_record,
)
from scoring.made_up import made_up
from scoring.policies.level_zero import ADVICE, matches_level_0_too
from scoring.policies.policy import Policy, load_policy
from scoring.policies.shipped import policy_bytes
from scoring.runs.layout import RUN_RECORD
from scoring.runs.lease import STALE_S, Lease, holder, lease
from scoring.runs.record import WHOLE, RunRecord, open_run
from scoring.runs.rows import rows_at

MEANINGS: dict[Members, str] = {
    "listed": "text and JSON go with an image, of a table columns of text, numbers and times",
    "image-only": "an image goes alone, of a table with its key and category",
    "all": "whatever is no picture goes with an image",
}

MAX_KINDS, MAX_KINDS_PRINTED = 100, 8
"""Of members and columns that were left out: so many are counted by themselves."""


@click.command()
@click.argument("run_url", metavar="RUN")
@click.option(
    "--policy",
    "policy_path",
    required=True,
    help="YAML file of rules, or one that is shipped: strict, identity-documents-only, research.",
)
@click.option("--out", "out_url", required=True, help="Folder or fsspec URL of the release; must not exist.")
@click.option("--dry-run", is_flag=True, help="Print the counts, tell what stands against DEST, write nothing.")
@click.option("--resume", is_flag=True, help="Continue a filter into DEST that was interrupted.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier release in DEST.")
@click.option("--ray-address", help="Ray cluster to use; default RAY_ADDRESS, else one of its own.")
@click.option("--quiet", is_flag=True, help="No progress.")
def filter(
    run_url: str,
    policy_path: str,
    out_url: str,
    dry_run: bool,
    resume: bool,
    overwrite: bool,
    ray_address: str | None,
    quiet: bool,
) -> None:
    """Write the corpus of RUN again, in its own layout, without what a policy drops."""
    if resume and overwrite:
        raise click.UsageError("--resume and --overwrite exclude each other: give one of them")
    policy = load_policy(policy_bytes(policy_path), policy_path)
    run, record = open_run(run_url)
    corpus = open_source(record.source, record.format, record.category)
    policy = policy.for_engine(record.engine)
    blind = _blind(policy, record)
    plan = decide(run, record, corpus, policy)
    out = place(out_url)
    identity = _identity(run, record, policy, plan)
    for line in _cautions(record, plan, policy, blind):
        write_line(line)
    if dry_run:
        _print(plan, policy, "would be")
    refuse_misplaced(out, out_url, run, corpus.root, is_folder=place(record.source).is_dir())
    _refuse_own_names(plan, corpus)
    _refuse_loss(out, out_url, identity, resume, overwrite)
    if dry_run:
        return
    if overwrite:
        remove_tree(out)
    with lease(out.at(RELEASE_LEASE), out_url, takeover=None) as held:
        _begin(out, identity)
        written = _write(_Copier(corpus, run, policy, out, resume), plan, ray_address, quiet, held)
        plan = plan.after(written)
        held.confirm()
        _finish(out, identity, record, plan, written.values())
    _print(plan, policy, "were")
    _print_left_out(written.values())


def _blind(policy: Policy, record: RunRecord) -> dict[str, str]:
    """Rules that look only at what the run's engine does not judge. PolicyError where every rule does."""
    found = {name: ", ".join(used) for name, used in policy.inapplicable_rules(record.engine["assessed"]).items()}
    if policy.is_blind(record.engine["assessed"]):
        raise PolicyError(
            f"{policy.file}: this policy can decide nothing about this run: no rule looks at anything that the "
            f"{record.engine['name']} engine judges (protocol {record.engine['protocol']})"
        )
    return found


def _scope(record: RunRecord, plan: Plan) -> str:
    """Which images of the source the decisions are of; all where `--limit` asked for more than there are."""
    return WHOLE if record.limit is not None and plan.decisions.num_rows < record.limit else record.scope


def _cautions(record: RunRecord, plan: Plan, policy: Policy, blind: dict[str, str]) -> Iterator[str]:
    """What to know before the counts: of which images they are, and rules that may not do what was meant."""
    yield _scope(record, plan)
    if fake := made_up(record.engine):
        yield fake
    for rule, columns in blind.items():
        yield f'  rule "{rule}" decided nothing: the {record.engine["name"]} engine does not judge {columns}'
    for one, sql in zip(policy.rules, policy.sql, strict=True):
        if one.then != "keep" and matches_level_0_too(sql):
            yield f'  rule "{one.name}" {ADVICE}'
    if plan.num_older:
        yield (
            f"  {plan.num_older} rows were scanned by an older version that did not record unseen content; "
            "scan again to have it judged"
        )


def _identity(run: Place, record: RunRecord, policy: Policy, plan: Plan) -> ReleaseRecord:
    return ReleaseRecord(
        privsieve=record.privsieve,
        source=record.source,
        sample=record.sample,
        limit=record.limit,
        run_sha256=hashlib.sha256(run.at(RUN_RECORD).read()).hexdigest(),
        policy=policy.name,
        policy_sha256=policy.sha256,
        kept_sha256=plan.kept_sha256(),
        members=policy.members,
    )


def _refuse_own_names(plan: Plan, corpus: Source) -> None:
    """Refuses a source of which something would lie in DEST where a release has a file of its own."""
    names = {share.shard.partition("/")[0] for share in plan.shares if share.num_kept}
    if ROOT in names:  # the loose files of a tree, and their sidecars
        rows = plan.decisions.filter(pc.equal(plan.decisions["shard"], ROOT))
        keys = rows.filter(pc.not_equal(rows["action"], "drop"))["key"].to_pylist()
        beside = OWN_NAMES & {f"{Path(key).stem}.json" for key in keys}
        names |= {*keys} | {name for name in beside if corpus.root.at(name).exists()}
    for name in sorted(names & OWN_NAMES):
        raise StorageError(f"the source holds {name}, which a release has of its own; rename it and scan again")


def _refuse_loss(out: Place, url: str, identity: ReleaseRecord, resume: bool, overwrite: bool) -> None:
    """Refuses a DEST that would lose data."""
    begun, finished_one = release_record(out.at(UNFINISHED)), release_record(out.at(RELEASE))
    is_release = begun is not None or finished_one is not None
    if out.exists() and not resume and not overwrite:
        raise StorageError(f"{url} exists; give a new folder, or --resume, or --overwrite")
    if out.exists() and not is_release:
        foreign = [name for name in (RELEASE, UNFINISHED) if out.at(name).exists()]
        why = f" (its {foreign[0]} is of something else)" if foreign else ""
        left = ", so --overwrite leaves it alone; remove it yourself" if overwrite else " to resume; give a new folder"
        raise StorageError(f"{url} holds no release of privsieve{why}{left}")
    held = holder(out.at(RELEASE_LEASE)) if is_release else None
    if held is not None and not held.is_stale():
        raise StorageError(
            f"{url} is being written by {held}; wait for it, or stop it "
            f"(one that was killed on another machine is given up after {STALE_S} s)"
        )
    if resume and is_release and begun is None:
        raise StorageError(f"{url} is finished already; use --overwrite to write it again")
    if resume and begun not in (None, identity):
        raise StorageError(
            f"{url} was begun with another run or policy, by another version, or images were scanned again since; "
            "use --overwrite"
        )


def _begin(out: Place, identity: ReleaseRecord) -> None:
    """Marks the release as unfinished."""
    if out.is_local and out.exists():  # what a killed filter left
        remove_half_written(out)
    out.at(UNFINISHED).write(_json(identity.model_dump()))


@dataclass(frozen=True)
class _Copier:
    """Copies shards, in the workers."""

    corpus: Source
    run: Place
    policy: Policy
    out: Place
    resume: bool

    def copy(self, share: Share) -> Written:
        """What is kept of a shard, and a record of it; IncompleteError where the source has changed."""
        record = self.out.at(DONE, f"{hashlib.sha256(share.shard.encode('utf-8', 'surrogateescape')).hexdigest()}.json")
        before = self._before(record) if self.resume else None
        if before is not None:
            return before
        kept = kept_of(decisions_of(rows_at(self.run, share.rows), self.policy), share.is_whole)
        if hash_of(kept) != share.kept_sha256:
            raise IncompleteError(
                f"{printable(share.shard)} was scanned again since the decisions were made; nothing is released; "
                "filter again with --overwrite"
            )
        fault = None if share.shard == ROOT else name_fault(share.shard)
        if fault is not None:
            why = f"its shard has {fault}"
            written = Written(0, {}, dict.fromkeys(kept.sha256, why), {})
        else:
            written = self._written(share, replace(kept, members=self.policy.members, category=self.corpus.category))
        record.write(f"{written.to_json()}\n".encode())
        return written

    def _written(self, share: Share, kept: Kept) -> Written:
        try:
            return FORMATS[self.corpus.format].write(self.corpus.root, share.shard, kept, self.out)
        except OSError as error:
            raise IncompleteError(f"{printable(share.shard)} cannot be copied: {reason_of(error)}") from None

    def _before(self, record: Place) -> Written | None:
        """What an earlier filter wrote of the shard, if every file is there and still what it was."""
        try:
            written = Written.from_json(record.read()) if record.exists() else None
        except ValueError:
            return None
        files = [(self.out.at(name), sha256) for name, sha256 in written.files.items()] if written else []
        return written if all(file.exists() and _sha256(file) == sha256 for file, sha256 in files) else None


def _write(copier: _Copier, plan: Plan, ray_address: str | None, quiet: bool, held: Lease) -> dict[str, Written]:
    """Copies every shard that keeps something; returns what was written, by shard.

    Where a shard has changed, the others are copied all the same, and IncompleteError comes at the end; a StorageError
    comes at once, and so does one where another filter has taken DEST over.
    """
    from jobs.runtime.cluster import ray_session
    from jobs.runtime.progress import meter

    shares = [share for share in plan.shares if share.num_kept]

    def copy(row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["number"])
        copied = {"number": number, "written": "", "changed": "", "failure": ""}
        try:  # an error that leaves the worker would arrive without its message
            return copied | {"written": copier.copy(shares[number]).to_json()}
        except IncompleteError as error:
            return copied | {"changed": str(error)}
        except PrivsieveError as error:
            return copied | {"failure": str(error)}

    done = dict[str, Written]()
    if not shares:
        return done
    changed: dict[int, str] = {}
    with ray_session(ray_address), meter("filter", sum(s.num_kept for s in shares), quiet) as progress:
        import ray.data

        numbers = [{"number": n} for n in range(len(shares))]
        copies = ray.data.from_items(numbers, override_num_blocks=min(len(shares), 1000)).map(copy)
        for row in copies.iter_rows():
            held.check()
            if row["failure"]:
                raise StorageError(row["failure"])
            if row["changed"]:
                changed[int(row["number"])] = row["changed"]
                continue
            share = shares[int(row["number"])]
            done[share.shard] = Written.from_json(row["written"])
            progress.advance(share.num_kept)
    if changed:
        others = f" ({len(changed) - 1} more shards have such an error)" if len(changed) > 1 else ""
        raise IncompleteError(f"{changed[min(changed)]}{others}")
    return done


def _finish(out: Place, identity: ReleaseRecord, record: RunRecord, plan: Plan, written: Iterable[Written]) -> None:
    """The decisions and `release.json`. IncompleteError where the counts do not add up."""
    actions = plan.actions()
    if sum(actions.values()) != plan.decisions.num_rows:
        raise IncompleteError(f"{actions} for {plan.decisions.num_rows} rows: nothing is released")
    with out.at(DECISIONS).create() as file:
        pq.write_table(plan.decisions, file, compression="zstd")
    rules: dict[str, dict[str, int]] = {}
    for (action, rule), count in sorted(plan.counts.items()):
        rules.setdefault(rule, {})[action] = count
    summary = {
        "scope": _scope(record, plan),
        "made_up": made_up(record.engine),
        "num_images": plan.decisions.num_rows,
        "actions": actions,
        "rules": rules,
        "num_unseen_not_recorded": plan.num_older,
        "members_left_out": _left_out(written),
    }
    hashes = {name: sha256 for done in written for name, sha256 in done.files.items()}
    out.at(RELEASE).write(_json(identity.model_dump() | summary | {"sha256": dict(sorted(hashes.items()))}))
    remove_tree(out.at(DONE))
    out.at(UNFINISHED).remove()


def _left_out(written: Iterable[Written]) -> dict[str, int]:
    """How many of each kind, the most frequent first; rare kinds are added up."""
    found = Counter[str]()
    for done in written:
        found.update(done.left_out)
    kinds = dict(found.most_common(MAX_KINDS))
    others = found.total() - sum(kinds.values())
    return kinds | ({"(other)": kinds.get("(other)", 0) + others} if others else {})


def _print(plan: Plan, policy: Policy, verb: str) -> None:
    for (action, rule), count in sorted(plan.counts.items(), key=lambda item: -item[1]):
        write_line(f"  {action:4}  {count:8}  {rule}")
    actions = plan.actions()
    write_line(
        f'policy "{policy.name}": of {plan.decisions.num_rows} images {actions["keep"]} {verb} kept, '
        f"{actions['flag']} kept and flagged, {actions['drop']} dropped"
    )
    write_line(f"members: {policy.members} ({MEANINGS[policy.members]})")


def _print_left_out(written: Iterable[Written]) -> None:
    left_out = _left_out(written)
    if left_out:
        first = [f"{count} {kind}" for kind, count in left_out.items()][:MAX_KINDS_PRINTED]
        more = f" and {len(left_out) - len(first)} more kinds" if len(left_out) > len(first) else ""
        write_line(f"left out beside the images: {', '.join(first)}{more}")


def _sha256(written: Place) -> str:
    digest = hashlib.sha256()
    with written.open() as stream:
        for block in iter(lambda: stream.read(2**22), b""):
            digest.update(block)
    return digest.hexdigest()


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()
