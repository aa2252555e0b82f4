"""The end of a release: the decisions for all shards in one file, the checksums, then `release.json`.

`changes.parquet` says how it differs from the release before it, picture by picture.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats.released import (
    CHANGES,
    DECISIONS,
    DONE,
    REDACTIONS,
    RELEASE,
    SIGNATURE,
    TAKEDOWN_JOURNAL,
    UNFINISHED,
    Written,
)
from ingest.sample import printable
from ingest.storage.parquet_tables import in_row_groups, write_checked
from ingest.storage.place import Place, place
from ingest.storage.removal import remove_tree
from jobs.filter.copying import table_of
from jobs.filter.decisions import DECISIONS_SCHEMA, REDACTIONS_SCHEMA, read_decisions
from jobs.filter.documents import write_documents
from jobs.filter.plan import Counts, Plan, Share
from jobs.filter.record import ReleaseRecord, write_sums
from jobs.filter.refusals import scope
from jobs.filter.shift import Shift
from scoring.policies.policy import HASH_LIST, NOT_COMPARED
from scoring.runs.record import RunRecord

_RELEASED = ("shard", "index", "key", "released_sha256")

_CHANGES = f"""
    WITH
        before AS (
            SELECT *, row_number() OVER (PARTITION BY shard, "key" ORDER BY "index") AS n
            FROM previous WHERE released_sha256 IS NOT NULL
        ),
        decided AS (SELECT *, row_number() OVER (PARTITION BY shard, "key" ORDER BY "index") AS n FROM decisions),
        after AS (SELECT * FROM decided WHERE released_sha256 IS NOT NULL),
        withheld AS (SELECT DISTINCT shard FROM decisions WHERE "rule" IN ('{HASH_LIST}', '{NOT_COMPARED}'))
    SELECT
        coalesce(before.shard, after.shard) AS shard,
        CASE
            WHEN after.shard IS NULL AND decided.shard IS NULL AND withheld.shard IS NOT NULL THEN ''
            ELSE coalesce(before."key", after."key")
        END AS "key",
        CASE WHEN before.shard IS NULL THEN 'added' WHEN after.shard IS NULL THEN 'removed' ELSE 'changed' END
            AS change,
        CASE WHEN after.shard IS NULL THEN decided."rule" END AS "rule",
        before.released_sha256 AS previous_sha256,
        after.released_sha256
    FROM before
    FULL JOIN after ON (before.shard, before."key", before.n) = (after.shard, after."key", after.n)
    LEFT JOIN decided ON (before.shard, before."key", before.n) = (decided.shard, decided."key", decided.n)
    LEFT JOIN withheld ON before.shard = withheld.shard
    WHERE before.released_sha256 IS DISTINCT FROM after.released_sha256
    ORDER BY 1, coalesce(before."index", after."index")
"""
"""A picture counts as the same in both releases if shard and key are the same. One that left without a decision that
names it may be on a hash list: then it is not named."""


MAX_KINDS = 100
"""Limit on the kinds of members and columns that are counted one by one."""

ROWS_PER_GROUP = 131_072
READ_AT_ONCE = 16
"""Files with the decisions for one shard each. An object store takes its time for each file."""


@dataclass(frozen=True)
class PreviousRelease:
    """The release before."""

    sha256: str
    """Hash of its `release.json`."""

    decisions: pa.Table
    """`shard`, `index`, `key` and `released_sha256` of each of its decisions."""


@dataclass(frozen=True)
class Changes:
    """How many pictures differ from the release before."""

    num_added: int
    num_removed: int
    num_changed: int
    """Same shard and key, other bytes."""

    sha256: str
    """Hash of `changes.parquet`."""


def previous_release(url: str | None, out: str) -> PreviousRelease | None:
    """Read what is compared. PrivsieveError if there is no such release, or if it would be overwritten."""
    if url is None:
        return None
    root = place(url)
    if root.is_same(place(out)):
        raise PrivsieveError(
            "--previous is --out; write the new release to another folder, so that both can be compared"
        )
    if not root.at(RELEASE).exists():
        raise PrivsieveError(f"--previous {url} is no finished release: it has no {RELEASE}")
    if root.at(TAKEDOWN_JOURNAL).exists():
        raise PrivsieveError(f"--previous {url}: a takedown is unfinished; run the same takedown again")
    sha256 = hashlib.sha256(root.at(RELEASE).read()).hexdigest()
    return PreviousRelease(sha256, read_decisions(root, url).select(_RELEASED))


def write_changes(out: Place, url: str, previous: PreviousRelease) -> Changes:
    """Compare the decisions of both releases, and write `changes.parquet`. out: has `decisions.parquet`."""
    with duckdb.connect() as connection:
        connection.execute("SET enable_external_access = false")
        connection.register("previous", previous.decisions)
        connection.register("decisions", read_decisions(out, url).select([*_RELEASED, "rule"]))
        changes = connection.sql(_CHANGES).to_arrow_table()
    sha256 = write_checked(out.at(CHANGES), changes)
    kinds = changes["change"].to_pylist()
    added, removed, changed = (kinds.count(kind) for kind in ("added", "removed", "changed"))
    return Changes(added, removed, changed, sha256)


def finish(
    out: Place,
    identity: ReleaseRecord,
    record: RunRecord,
    plan: Plan,
    counts: Counts,
    written: Sequence[Written],
    shift: Shift,
    sign_key: str | None,
    previous: PreviousRelease | None,
) -> Changes | None:
    """Finish a release. Return what changed since the one before. IncompleteError if the counts do not add up."""
    decisions_sha256 = join_decisions(out, plan.shares, counts.num_images + counts.num_damaged_parts)
    redactions_sha256 = None
    if identity.second_look is not None:
        redactions_sha256 = _joined(out, plan.shares, REDACTIONS, REDACTIONS_SCHEMA)
    changes = write_changes(out, out.path, previous) if previous is not None else None
    rules: dict[str, dict[str, int]] = {}
    for (action, rule), count in sorted(counts.by_rule.items()):
        rules.setdefault(rule, {})[action] = count
    is_clean = identity.files == "clean"
    summary = {
        "scope": scope(record, plan),
        "damaged_shards": {"num_shards": plan.damage.num_shards, "parts": dict(plan.damage.parts)},
        "made_up": record.made_up,
        "num_images": counts.num_images,
        "actions": counts.actions(),
        "rules": rules,
        "num_unseen_kept": 0 if is_clean else counts.num_unseen,
        "unseen_kept": {} if is_clean else dict(counts.unseen_kinds),
        "num_unseen_removed": counts.num_unseen if is_clean else 0,
        "num_unseen_not_recorded": plan.num_older,
        "members_left_out": left_out(written),
        "shift": shift.as_json(),
        "num_texts_masked": sum(done.num_masked for done in written),
        "decisions_sha256": decisions_sha256,
        "redactions_sha256": redactions_sha256,
        **(_counts_of_changes(changes) if changes is not None else {}),
        "format": record.format,
        "engine": {name: record.engine[name] for name in ("name", "protocol", "assessed")},
    }
    hashes = {name: sha256 for done in written for name, sha256 in done.files.items()}
    facts = identity.model_dump() | summary | {"sha256": dict(sorted(hashes.items()))}
    facts["documents"] = write_documents(out, facts)
    content = as_json(facts)
    if sign_key is None:
        out.at(SIGNATURE).remove()  # that of an interrupted filter
    write_sums(out, content, sign_key)
    out.at(RELEASE).write(content)
    remove_tree(out.at(DONE))
    out.at(UNFINISHED).remove()
    return changes


def _counts_of_changes(changes: Changes) -> dict[str, Any]:
    counts = {"num_added": changes.num_added, "num_removed": changes.num_removed, "num_changed": changes.num_changed}
    return {"changes": counts, "changes_sha256": changes.sha256}


def join_decisions(out: Place, shares: Sequence[Share], num_counted: int) -> str:
    """Write `decisions.parquet` from the files of the shards, in their order, and return its hash."""
    num_planned = sum(share.num_rows for share in shares)

    def check(num_joined: int) -> None:
        if not num_planned == num_joined == num_counted:
            raise IncompleteError(
                f"{num_joined} decisions written and {num_counted} counted of {num_planned} rows; nothing is released; "
                "filter again with --overwrite"
            )

    return _joined(out, shares, DECISIONS, DECISIONS_SCHEMA, check)


def _joined(
    out: Place, shares: Sequence[Share], name: str, schema: pa.Schema, check: Callable[[int], None] | None = None
) -> str:
    """Join the tables of the shards and return the hash of the file. Few rows are in memory at once.

    check: takes the number of rows; there is no file if it raises.
    """
    num_rows = 0
    with (
        out.at(name).create() as stream,
        pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for group in in_row_groups(_parts(out, shares, name, schema), ROWS_PER_GROUP):
            writer.write_table(group, ROWS_PER_GROUP)
            num_rows += group.num_rows
        if check is not None:
            check(num_rows)
    return stream.sha256


def _parts(out: Place, shares: Sequence[Share], name: str, schema: pa.Schema) -> Iterator[pa.Table]:
    left = iter(shares)
    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        while window := list(islice(left, READ_AT_ONCE)):
            yield from threads.map(lambda share: _part(out, share, name, schema), window)


def _part(out: Place, share: Share, name: str, schema: pa.Schema) -> pa.Table:
    try:
        with table_of(out, share, name).open() as stream:
            return pq.read_table(stream, schema=schema, page_checksum_verification=True)
    except (pa.ArrowException, FileNotFoundError):
        raise IncompleteError(
            f"the decisions for {printable(share.shard)} are damaged or gone from {out.at(DONE).path}; "
            "nothing is released; run the same command with --resume"
        ) from None


def left_out(written: Iterable[Written]) -> dict[str, int]:
    """Return kind of file or column that was next to the images and not copied -> how many, the most frequent first.

    Rare kinds are added up.
    """
    counts = Counter[str]()
    for done in written:
        counts.update(done.left_out)
    kinds = dict(counts.most_common(MAX_KINDS))
    others = counts.total() - sum(kinds.values())
    return kinds | ({"(other)": kinds.get("(other)", 0) + others} if others else {})


def as_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()
