"""`privsieve filter RUN --policy POLICY --out DEST`: the corpus again, without what the policy drops.

Decisions are made for every row before a byte is written. Then each shard is copied by a task of its own, its kept
samples byte for byte, if they are still the pictures that were scanned. `release.json` is written last and only when
all counts agree; until then `release.unfinished.json` is there, and below `release.unfinished/` a record per shard
that is done, so that --resume need not copy it again. `release.lease.json` keeps a second filter out meanwhile.
"""

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import IncompleteError, PolicyError, PrivsieveError, RunError, StorageError
from ingest.footers import refuse_foreign
from ingest.formats import FORMATS, Source, open_source
from ingest.formats.tree import ROOT
from ingest.record import RECORD, RunRecord, open_run
from ingest.release import (
    DECISIONS,
    DONE,
    LEASE,
    OWN_NAMES,
    RELEASE,
    UNFINISHED,
    Kept,
    ReleaseRecord,
    Written,
    refuse_misplaced,
    release_record,
)
from ingest.results import RowRange, results
from ingest.sample import printable
from ingest.slices import begun, finished, stems_of_others
from ingest.storage import PART, Place, place, reason_of
from jobs.coverage import has_all_chosen
from jobs.lease import STALE_S, Lease, holder, lease
from jobs.removal import remove_tree
from jobs.run import rows_at
from scoring.policy import UNREADABLE, Policy, load_policy


@dataclass(frozen=True)
class _Share:
    """What is released of one shard. rows: where its rows lie. num_kept: samples to write, flagged ones too.

    is_whole: all samples of the shard were scanned. kept_sha256: of the `Kept` that the decisions give.
    """

    shard: str
    rows: list[RowRange]
    num_kept: int
    is_whole: bool
    kept_sha256: str


@dataclass(frozen=True)
class _Plan:
    """shares: one per shard that has rows. decisions: every row's decision. counts: (action, rule) -> rows."""

    shares: list[_Share]
    decisions: pa.Table
    counts: Counter[tuple[str, str]]

    def actions(self) -> dict[str, int]:
        by_action = Counter[str]()
        for (action, _), count in self.counts.items():
            by_action[action] += count
        return {action: by_action[action] for action in ("keep", "flag", "drop")}

    def kept_sha256(self) -> str:
        """Of what is kept of the whole corpus."""
        return hashlib.sha256("".join(share.kept_sha256 for share in self.shares).encode()).hexdigest()


@click.command()
@click.argument("run_url", metavar="RUN")
@click.option("--policy", "policy_path", required=True, help="YAML file of rules; see jobs/policies for examples.")
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
    policy = load_policy(_policy_bytes(policy_path), policy_path)
    run, record = open_run(run_url)
    corpus = open_source(record.source, record.format, record.category)
    policy = policy.for_engine(record.engine)
    blind = _blind(policy, record)
    plan = _decide(run, record, corpus, policy)
    out = place(out_url)
    identity = _identity(run, record, policy, plan)
    for rule, columns in blind.items():
        click.echo(f'  rule "{rule}" decided nothing: the {record.engine["name"]} engine does not judge {columns}')
    if dry_run:
        _print(plan, policy, "would be")
    refuse_misplaced(out, out_url, run, corpus.root, is_folder=place(record.source).is_dir())
    _refuse_own_names(plan, corpus)
    _refuse_loss(out, out_url, identity, resume, overwrite)
    if dry_run:
        return
    if overwrite:
        remove_tree(out)
    with lease(out.at(LEASE), out_url, takeover=None) as held:
        _begin(out, identity)
        hashes = _write(_Copier(corpus, run, policy, out, resume), plan, ray_address, quiet, held)
        held.confirm()
        _finish(out, identity, plan, hashes)
    _print(plan, policy, "were")


def _blind(policy: Policy, record: RunRecord) -> dict[str, str]:
    """Rules that look only at what the run's engine does not judge. PolicyError where every rule does."""
    found = {name: ", ".join(used) for name, used in policy.blind_rules(record.engine["assessed"]).items()}
    if found and len(found) == len(policy.rules):
        raise PolicyError(
            f"{policy.file}: this policy can decide nothing about this run: no rule looks at anything that the "
            f"{record.engine['name']} engine judges (protocol {record.engine['protocol']})"
        )
    return found


def _policy_bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise PolicyError(f"cannot read the policy {path}: {reason_of(error)}") from None


def _decide(run: Place, record: RunRecord, corpus: Source, policy: Policy) -> _Plan:
    """A decision for every row of a complete run. RunError where rows are missing."""
    refuse_foreign(run, record.settings_hash())
    found = results(run)
    is_whole = record.sample is None and record.limit is None
    shares, tables = list[_Share](), list[pa.Table]()
    for shard in corpus.shards:
        if not is_whole and not begun(shard, found.done):
            continue
        if not finished(shard, found.done):
            raise RunError(f"{printable(shard)} is not scanned to its end; run the same scan again, then filter")
        rows = found.of(shard)
        tables.append(_decisions(run, rows, policy))
        kept = _kept(tables[-1], is_whole)
        shares.append(_Share(shard, rows, len(kept.sha256), is_whole, _hash_of(kept)))
    gone = stems_of_others(corpus.shards, found.done)
    if gone:
        raise IncompleteError(
            f"{record.source} has changed since it was scanned: {len(gone)} shards of the run are gone; nothing is "
            "released; restore them, or scan the source into a new run"
        )
    decisions = pa.concat_tables(tables) if tables else pa.table({name: [] for name in ("action", "rule")})
    if not has_all_chosen(record, decisions.num_rows, corpus.shards, found.done):
        wanted = record.sample or record.limit
        raise RunError(
            f"{decisions.num_rows} of {wanted} chosen images are scanned; run the same scan again, then filter"
        )
    counts = Counter(zip(decisions["action"].to_pylist(), decisions["rule"].to_pylist(), strict=True))
    return _Plan(shares, decisions, counts)


def _decisions(run: Place, rows: list[RowRange], policy: Policy) -> pa.Table:
    """The decisions of a policy for the rows of one shard; what has no bytes is always dropped."""
    decided = policy.decide(rows_at(run, rows))
    lost = pc.and_(pc.is_null(decided["sha256"]), pc.not_equal(decided["action"], "drop"))
    told = pc.binary_join_element_wise("there is nothing that could be copied", decided["reason"], ": ")
    for name, value in (("reason", told), ("rule", UNREADABLE), ("action", "drop")):
        column = decided.schema.get_field_index(name)
        decided = decided.set_column(column, name, pc.if_else(lost, value, decided[name]))
    return decided


def _kept(decisions: pa.Table, is_whole: bool) -> Kept:
    """What the decisions for one shard leave of it."""
    rows = decisions.filter(pc.not_equal(decisions["action"], "drop"))
    hashes = dict(zip(rows["index"].to_pylist(), rows["sha256"].to_pylist(), strict=True))
    return Kept(hashes, decisions.num_rows if is_whole else None)


def _hash_of(kept: Kept) -> str:
    return hashlib.sha256(json.dumps([sorted(kept.sha256.items()), kept.num_samples]).encode()).hexdigest()


def _identity(run: Place, record: RunRecord, policy: Policy, plan: _Plan) -> ReleaseRecord:
    return ReleaseRecord(
        privsieve=record.privsieve,
        source=record.source,
        sample=record.sample,
        limit=record.limit,
        run_sha256=hashlib.sha256(run.at(RECORD).read()).hexdigest(),
        policy=policy.name,
        policy_sha256=policy.sha256,
        kept_sha256=plan.kept_sha256(),
    )


def _refuse_own_names(plan: _Plan, corpus: Source) -> None:
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
    held = holder(out.at(LEASE)) if is_release else None
    if held is not None and not held.is_stale():
        raise StorageError(
            f"{url} is being written by {held}; wait for it, or stop it "
            f"(one that was killed on another machine is given up after {STALE_S} s)"
        )
    if resume and is_release and begun is None:
        raise StorageError(f"{url} is finished already; use --overwrite to write it again")
    if resume and begun not in (None, identity):
        raise StorageError(
            f"{url} was begun with another run or policy, or images were scanned again since; use --overwrite"
        )


def _begin(out: Place, identity: ReleaseRecord) -> None:
    """Marks the release as unfinished."""
    if out.is_local:  # what a killed filter left
        for aside in Path(out.path).rglob(f"*{PART}"):
            aside.unlink()
    out.at(UNFINISHED).write(_json(identity.model_dump()))


@dataclass(frozen=True)
class _Copier:
    """Copies shards, in the workers."""

    corpus: Source
    run: Place
    policy: Policy
    out: Place
    resume: bool

    def copy(self, share: _Share) -> Written:
        """What is kept of a shard, and a record of it; IncompleteError where the source has changed."""
        record = self.out.at(DONE, f"{hashlib.sha256(share.shard.encode('utf-8', 'surrogateescape')).hexdigest()}.json")
        before = self._before(record) if self.resume else None
        if before is not None:
            return before
        kept = _kept(_decisions(self.run, share.rows, self.policy), share.is_whole)
        if _hash_of(kept) != share.kept_sha256:
            raise IncompleteError(
                f"{printable(share.shard)} was scanned again since the decisions were made; nothing is released; "
                "filter again with --overwrite"
            )
        try:
            written = FORMATS[self.corpus.format].write(self.corpus.root, share.shard, kept, self.out)
        except OSError as error:
            raise IncompleteError(f"{printable(share.shard)} cannot be copied: {reason_of(error)}") from None
        record.write(_json(asdict(written)))
        return written

    def _before(self, record: Place) -> Written | None:
        """What an earlier filter wrote of the shard, if every file is there and still what it was."""
        try:
            written = Written(**((_record(record) if record.exists() else None) or {}))
        except TypeError:  # damaged
            return None
        files = [(self.out.at(name), sha256) for name, sha256 in written.files.items()]
        return written if all(file.exists() and _sha256(file) == sha256 for file, sha256 in files) else None


def _write(copier: _Copier, plan: _Plan, ray_address: str | None, quiet: bool, held: Lease) -> dict[str, str]:
    """Copies every shard that keeps something; returns file name -> sha256.

    Where a shard has changed, the others are copied all the same, and IncompleteError comes at the end; a StorageError
    comes at once, and so does one where another filter has taken DEST over.
    """
    from jobs.cluster import ray_session
    from jobs.progress import meter

    shares = [share for share in plan.shares if share.num_kept]

    def copy(row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["number"])
        copied = {"number": number, "written": "", "changed": "", "failure": ""}
        try:  # an error that leaves the worker would arrive without its message
            return copied | {"written": json.dumps(asdict(copier.copy(shares[number])))}
        except IncompleteError as error:
            return copied | {"changed": str(error)}
        except PrivsieveError as error:
            return copied | {"failure": str(error)}

    hashes: dict[str, str] = {}
    if not shares:
        return hashes
    changed: dict[int, str] = {}
    with ray_session(ray_address), meter("filter", sum(s.num_kept for s in shares), quiet) as progress:
        import ray.data

        numbers = [{"number": n} for n in range(len(shares))]
        copies = ray.data.from_items(numbers, override_num_blocks=min(len(shares), 1000)).map(copy)
        for row in copies.iter_rows():
            held.check()
            if row["failure"]:
                raise StorageError(row["failure"])
            share = shares[int(row["number"])]
            if row["changed"]:
                changed[int(row["number"])] = row["changed"]
                continue
            written = Written(**json.loads(row["written"]))
            if written.num_samples != share.num_kept:
                told = f"{written.num_samples} samples written of {share.num_kept} that are kept; nothing is released"
                raise IncompleteError(f"{printable(share.shard)}: {told}")
            hashes |= written.files
            progress.advance(written.num_samples)
    if changed:
        others = f" ({len(changed) - 1} more shards have such an error)" if len(changed) > 1 else ""
        raise IncompleteError(f"{changed[min(changed)]}{others}")
    return hashes


def _finish(out: Place, identity: ReleaseRecord, plan: _Plan, hashes: dict[str, str]) -> None:
    """The decisions and `release.json`. IncompleteError where the counts do not add up."""
    actions = plan.actions()
    num_kept = sum(share.num_kept for share in plan.shares)
    if num_kept + actions["drop"] != plan.decisions.num_rows or num_kept != actions["keep"] + actions["flag"]:
        raise IncompleteError(f"{actions} for {plan.decisions.num_rows} rows: nothing is released")
    with out.at(DECISIONS).create() as file:
        pq.write_table(plan.decisions, file, compression="zstd")
    rules: dict[str, dict[str, int]] = {}
    for (action, rule), count in sorted(plan.counts.items()):
        rules.setdefault(rule, {})[action] = count
    summary = {"num_images": plan.decisions.num_rows, "actions": actions, "rules": rules}
    out.at(RELEASE).write(_json(identity.model_dump() | summary | {"sha256": dict(sorted(hashes.items()))}))
    remove_tree(out.at(DONE))
    out.at(UNFINISHED).remove()


def _print(plan: _Plan, policy: Policy, verb: str) -> None:
    for (action, rule), count in sorted(plan.counts.items(), key=lambda item: -item[1]):
        click.echo(f"  {action:4}  {count:8}  {rule}")
    actions = plan.actions()
    click.echo(
        f'policy "{policy.name}": of {plan.decisions.num_rows} images {actions["keep"]} {verb} kept, '
        f"{actions['flag']} kept and flagged, {actions['drop']} dropped"
    )


def _sha256(written: Place) -> str:
    digest = hashlib.sha256()
    with written.open() as stream:
        for block in iter(lambda: stream.read(2**22), b""):
            digest.update(block)
    return digest.hexdigest()


def _record(written: Place) -> dict[str, Any] | None:
    """The content of a JSON file of ours, None where it is damaged."""
    try:
        content = json.loads(written.read())
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()
