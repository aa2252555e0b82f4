"""`privsieve filter RUN --policy POLICY --out DEST`: the corpus again, without what the policy drops.

Decisions are made for every row before a byte is written; then each shard is copied by a task of its own, its
kept samples byte for byte; `release.json` is written last and only when all counts agree.
"""

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from ingest.errors import IncompleteError, PolicyError, RunError, StorageError
from ingest.formats import FORMATS, Source, open_source
from ingest.sample import printable
from ingest.slices import by_shard, finished, result_names
from ingest.storage import Place, place
from jobs.run import RECORD, SCORES, RunRecord, open_run, score_rows
from scoring.policy import Policy, load_policy

RELEASE = "release.json"
UNFINISHED = "release.unfinished.json"
"""Written first and removed last: what --resume continues."""
DECISIONS = "decisions.parquet"


@dataclass(frozen=True)
class _Plan:
    """kept: shard -> indices to write. decisions: every row's decision. counts: (action, rule) -> rows."""

    kept: dict[str, frozenset[int]]
    decisions: pa.Table
    counts: Counter[tuple[str, str]]


@click.command()
@click.argument("run_url", metavar="RUN")
@click.option("--policy", "policy_path", required=True, help="YAML file of rules; see jobs/policies for examples.")
@click.option("--out", "out_url", required=True, help="Folder or fsspec URL of the release; must not exist.")
@click.option("--dry-run", is_flag=True, help="Print the counts and write nothing.")
@click.option("--resume", is_flag=True, help="Continue a filter into DEST that was interrupted.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier release in DEST.")
@click.option("--ray-address", help="Ray cluster to use; default RAY_ADDRESS, else one of its own.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
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
    policy = load_policy(_policy_bytes(policy_path))
    run, record = open_run(run_url)
    corpus = open_source(record.source, record.format, record.category)
    plan = _decide(run, record, corpus, policy)
    if not dry_run:
        out = place(out_url)
        identity = _identity(run, record, policy)
        _prepare(out, out_url, corpus, identity, resume, overwrite)
        hashes = _write(corpus, plan, out, resume, ray_address, quiet)
        _finish(out, identity, plan, hashes)
    _print(plan, policy, "would be" if dry_run else "were")


def _policy_bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise PolicyError(f"cannot read the policy {path}: {(error.strerror or 'unknown').lower()}") from None


def _decide(run: Place, record: RunRecord, corpus: Source, policy: Policy) -> _Plan:
    """A decision for every row of a complete run. RunError where rows are missing."""
    scores = run.at(SCORES)
    done = by_shard(scores.names())
    whole = record.sample is None and record.limit is None
    kept: dict[str, frozenset[int]] = {}
    tables: list[pa.Table] = []
    for shard in corpus.shards:
        names = result_names(shard, done)
        if not names and not whole:
            continue
        if not finished(shard, done):
            raise RunError(f"{printable(shard)} is not scanned to its end; run the same scan again, then filter")
        decisions = policy.decide(score_rows(scores, names))
        mask = pa.compute.not_equal(decisions["action"], "drop")
        kept[shard] = frozenset(decisions["index"].filter(mask).to_pylist())
        tables.append(decisions)
    decisions = pa.concat_tables(tables)
    counts = Counter(zip(decisions["action"].to_pylist(), decisions["rule"].to_pylist(), strict=True))
    return _Plan(kept, decisions, counts)


def _identity(run: Place, record: RunRecord, policy: Policy) -> dict[str, Any]:
    return {
        "privsieve": record.privsieve,
        "source": record.source,
        "run_sha256": hashlib.sha256(run.at(RECORD).read()).hexdigest(),
        "policy": policy.name,
        "policy_sha256": policy.sha256,
    }


def _prepare(out: Place, url: str, corpus: Source, identity: dict[str, Any], resume: bool, overwrite: bool) -> None:
    """Refuses a DEST that would lose data; marks the release as unfinished."""
    if f"{out.path}/".startswith(f"{corpus.root.path.rstrip('/')}/") and out.fs == corpus.root.fs:
        raise StorageError(f"{url} lies in the source; write the release to a folder outside of it")
    is_release = out.at(RELEASE).exists() or out.at(UNFINISHED).exists()
    if out.exists() and overwrite:
        if not is_release:
            raise StorageError(
                f"{url} holds no release of privsieve, so --overwrite leaves it alone; remove it yourself"
            )
        out.fs.rm(out.path, recursive=True)
    elif out.exists() and not resume:
        raise StorageError(f"{url} exists; give a new folder, or --resume, or --overwrite")
    elif resume and out.at(RELEASE).exists():
        raise StorageError(f"{url} is finished already; use --overwrite to write it again")
    elif resume and out.at(UNFINISHED).exists() and json.loads(out.at(UNFINISHED).read()) != identity:
        raise StorageError(f"{url} was begun with another run or policy; use --overwrite")
    elif resume and out.exists() and not is_release:
        raise StorageError(f"{url} holds no release of privsieve to resume; give a new folder")
    out.at(UNFINISHED).write(_json(identity))


def _write(
    corpus: Source, plan: _Plan, out: Place, resume: bool, ray_address: str | None, quiet: bool
) -> dict[str, str]:
    """Copies every shard that keeps something; returns file name -> sha256 of what was written."""
    from jobs.cluster import ray_session
    from jobs.progress import meter

    shards = [shard for shard, indices in plan.kept.items() if indices]
    kept = [plan.kept[shard] for shard in shards]

    def copy(row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["number"])
        names = FORMATS[corpus.format].write(corpus.root, shards[number], kept[number], out)
        return {"num_images": len(kept[number]), "files": json.dumps({name: _sha256(out.at(name)) for name in names})}

    hashes: dict[str, str] = {}
    if not shards:
        return hashes
    with ray_session(ray_address), meter("filter", sum(len(k) for k in kept), quiet) as progress:
        import ray.data

        numbers = [{"number": n} for n in range(len(shards))]
        copies = ray.data.from_items(numbers, override_num_blocks=min(len(shards), 1000)).map(copy)
        for row in copies.iter_rows():
            hashes |= json.loads(row["files"])
            progress.advance(int(row["num_images"]))
    return hashes


def _finish(out: Place, identity: dict[str, Any], plan: _Plan, hashes: dict[str, str]) -> None:
    actions = _actions(plan)
    if sum(actions.values()) != plan.decisions.num_rows:
        raise IncompleteError(
            f"{sum(actions.values())} decisions for {plan.decisions.num_rows} rows: nothing is released"
        )
    buffer = io.BytesIO()
    pq.write_table(plan.decisions, buffer, compression="zstd")
    out.at(DECISIONS).write(buffer.getvalue())
    rules: dict[str, dict[str, int]] = {}
    for (action, rule), count in sorted(plan.counts.items()):
        rules.setdefault(rule, {})[action] = count
    summary = {"num_images": plan.decisions.num_rows, "actions": actions, "rules": rules}
    out.at(RELEASE).write(_json(identity | summary | {"sha256": dict(sorted(hashes.items()))}))
    out.fs.rm(out.at(UNFINISHED).path)


def _actions(plan: _Plan) -> dict[str, int]:
    by_action = Counter(plan.decisions["action"].to_pylist())
    return {action: by_action.get(action, 0) for action in ("keep", "flag", "drop")}


def _print(plan: _Plan, policy: Policy, verb: str) -> None:
    for (action, rule), count in sorted(plan.counts.items(), key=lambda item: -item[1]):
        click.echo(f"  {action:4}  {count:8}  {rule}")
    actions = _actions(plan)
    click.echo(
        f'policy "{policy.name}": of {plan.decisions.num_rows} images {actions["keep"]} {verb} kept, '
        f"{actions['flag']} kept and flagged, {actions['drop']} dropped"
    )


def _sha256(written: Place) -> str:
    digest = hashlib.sha256()
    with written.open() as stream:
        for block in _blocks(stream):
            digest.update(block)
    return digest.hexdigest()


def _blocks(stream: Any) -> Iterator[bytes]:
    while block := stream.read(2**22):
        yield block


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()
