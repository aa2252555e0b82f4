"""`changes.parquet`: how a release differs from the one before it, picture by picture."""

import hashlib
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import PrivsieveError
from ingest.formats.released import CHANGES, RELEASE
from ingest.storage.place import Place, place
from jobs.filter.decisions import read_decisions
from jobs.filter.record import TAKEDOWN_JOURNAL
from scoring.policies.policy import HASH_LIST, NOT_COMPARED

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
    with out.at(CHANGES).create() as stream:
        pq.write_table(changes, stream, compression="zstd", write_page_checksum=True)
    kinds = changes["change"].to_pylist()
    added, removed, changed = (kinds.count(kind) for kind in ("added", "removed", "changed"))
    return Changes(added, removed, changed, stream.sha256)
