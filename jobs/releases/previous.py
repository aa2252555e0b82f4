"""The previous release: how a new one differs from it. What was taken down from the previous one never comes back."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats.released import CHANGES, DECISIONS, RELEASE, RELEASE_LEASE, REMOVED, TAKEDOWN_JOURNAL, TAKEN_DOWN
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import Place, place
from jobs.releases.entries import Tombstones, tombstones_of
from jobs.releases.files import CHANGES_SCHEMA, content_of, read_own, read_release
from jobs.releases.record import ChangeCounts
from scoring.policies.reserved import ReservedRule
from scoring.runs.lease import holder

_RELEASED = ("shard", "index", "key", "released_sha256")

_CHANGES = f"""
    WITH
        before AS (
            SELECT *, row_number() OVER (PARTITION BY shard, "key" ORDER BY "index") AS n
            FROM previous WHERE released_sha256 IS NOT NULL
        ),
        decided AS (SELECT *, row_number() OVER (PARTITION BY shard, "key" ORDER BY "index") AS n FROM decisions),
        after AS (SELECT * FROM decided WHERE released_sha256 IS NOT NULL),
        withheld AS (
            SELECT DISTINCT shard FROM decisions
            WHERE "rule" IN ('{ReservedRule.HASH_LIST}', '{ReservedRule.NOT_COMPARED}')
        )
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


@dataclass(frozen=True)
class PreviousRelease:
    """The previous release."""

    root: Place

    sha256: str
    """Hash of its `release.json`."""

    decisions: pa.Table
    """`shard`, `index`, `key` and `released_sha256` of each of its decisions."""

    tombstones: Mapping[str, bytes]
    """Content of its `removed.parquet` and `taken_down.parquet`, by name; empty if nothing was taken down from it."""

    rows: Tombstones
    """Rows of the latter."""

    @property
    def removed(self) -> frozenset[str]:
        """Return the hashes of the pictures in it, as scanned and as released."""
        return frozenset(row[name] for row in self.rows for name in ("sha256", "released_sha256") if row[name])

    def refuse_changed(self) -> None:
        """Raise IncompleteError if a command has changed the release since it was read, or is about to."""
        release = self.root.at(RELEASE)
        is_same = release.exists() and hashlib.sha256(release.read()).hexdigest() == self.sha256
        if not is_same or self.root.at(TAKEDOWN_JOURNAL).exists():
            raise IncompleteError(f"--previous {self.root.path} was changed meanwhile; nothing is released")


def previous_release(url: str | None, out: Place) -> PreviousRelease | None:
    """Read the previous release. PrivsieveError if there is no such release, or if it would hold the new one."""
    if url is None:
        return None
    root = place(url)
    if out.is_within(root):
        raise PrivsieveError(f"--out {out.url} is inside of --previous {url}; write the new release to another folder")
    content = content_of(root, f"--previous {url}")
    if root.at(TAKEDOWN_JOURNAL).exists():
        raise PrivsieveError(f"--previous {url}: a takedown is unfinished; run the same takedown again")
    worker = holder(root.at(RELEASE_LEASE))
    if worker is not None and not worker.is_stale():
        raise PrivsieveError(f"--previous {url} is being worked on by {worker}; wait for it, or stop it")
    release = read_release(root, f"--previous {url}")
    decisions = read_own(root, DECISIONS, url).select(_RELEASED)
    tombstones = dict[str, bytes]()
    for name in {REMOVED, TAKEN_DOWN} & release.own_sha256.keys():
        tombstones[name] = root.at(name).read()
        if hashlib.sha256(tombstones[name]).hexdigest() != release.own_sha256[name]:
            raise IncompleteError(
                f"--previous {url}: {name} is not what was released; privsieve release verify {url} says more"
            )
    rows = tombstones_of(tombstones[TAKEN_DOWN], root.at(TAKEN_DOWN).path) if tombstones else []
    return PreviousRelease(root, hashlib.sha256(content).hexdigest(), decisions, tombstones, rows)


def write_changes(out: Place, url: str, previous: PreviousRelease) -> tuple[ChangeCounts, str]:
    """Compare the decisions of both releases, and write `changes.parquet`. Return the counts, and the hash of the file.
    out: has `decisions.parquet`."""
    with duckdb.connect() as connection:
        connection.execute("SET enable_external_access = false")
        connection.register("previous", previous.decisions)
        connection.register("decisions", read_own(out, DECISIONS, url).select([*_RELEASED, "rule"]))
        changes = connection.sql(_CHANGES).to_arrow_table().cast(CHANGES_SCHEMA)
    sha256 = write_checked(out.at(CHANGES), changes)
    kinds = changes["change"].to_pylist()
    added, removed, changed = (kinds.count(kind) for kind in ("added", "removed", "changed"))
    return ChangeCounts(num_added=added, num_removed=removed, num_changed=changed), sha256
