"""The release before: in what a new one differs from it, and which of its shards the new one takes over.

A shard is taken over if it was made from the same: the same bytes of the source, decisions and settings. What it was
made from is in `made_from.parquet`, as a hash. What was taken down from the release before never comes back.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from shutil import copyfileobj
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats.members import name_fault
from ingest.formats.released import CHANGES, MADE_FROM, RELEASE, REMOVED, TAKEDOWN_JOURNAL, Written
from ingest.storage.parquet_tables import read_checked, write_checked
from ingest.storage.place import Place, place
from jobs.filter.decisions import read_decisions
from jobs.filter.record import BLOCK_BYTES, sha256_of, urls_of
from jobs.filter.tombstones import tombstones_of
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

MADE_FROM_SCHEMA = pa.schema({"made_from": pa.string(), "written": pa.string()})
"""One row per shard of a release. `written`: JSON of `Written`."""

SHARDS_PER_GROUP = 100


@dataclass(frozen=True)
class ShardsBefore:
    """The shards of the release before."""

    root: Place

    sha256: Mapping[str, str]
    """File -> its hash, as `release.json` says."""

    rows: Mapping[str, int]
    """What a shard was made from -> its row in `made_from.parquet`."""

    def take_over(self, made_from: str, out: Place) -> Written | None:
        """Give the files of a shard to a new release. None if no shard was made from the same. If a file is not what
        was released, `Written.taken_over` says so, and the shard is to be written."""
        row = self.rows.get(made_from) if made_from else None
        if row is None:
            return None
        written = replace(self._written(row), taken_over="yes")
        for name, sha256 in written.files.items():
            if self.sha256.get(name) != sha256 or not _taken_over(self.root.at(name), out.at(name), sha256):
                return replace(written, taken_over="damaged")
        return written

    def _written(self, row: int) -> Written:
        group, number = divmod(row, SHARDS_PER_GROUP)
        with self.root.at(MADE_FROM).open() as stream:
            shards = pq.ParquetFile(stream, pre_buffer=False, page_checksum_verification=True)
            texts = shards.read_row_group(group, ["written"], use_threads=False)["written"]
        return Written.from_json(texts[number].as_py())


def _taken_over(before: Place, target: Place, sha256: str) -> bool:
    """Link or copy a file. Return whether it is what was released."""
    if not before.exists() or sha256_of(before) != sha256:
        return False
    if before.link(target):
        return True
    with before.open() as stream, target.create() as copy:
        copyfileobj(stream, copy, BLOCK_BYTES)
    return copy.sha256 == sha256


@dataclass(frozen=True)
class PreviousRelease:
    """The release before."""

    sha256: str
    """Hash of its `release.json`."""

    decisions: pa.Table
    """`shard`, `index`, `key` and `released_sha256` of each of its decisions."""

    shards: ShardsBefore | None
    """None if it does not say what its shards were made from: it is a list of URLs, or of an older version."""

    tombstones: bytes | None
    """Content of its `removed.parquet`; None if nothing was taken down from it."""

    removed: frozenset[str] = frozenset()
    """Hashes of the pictures in it, as scanned and as released."""

    removed_urls: frozenset[str] = frozenset()
    """Hashes of the URLs in it, of rows of a list whose picture was not judged."""

    num_removed: int = 0


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
    content = root.at(RELEASE).read()
    facts = _facts(content, url)
    tombstones = root.at(REMOVED).read() if root.at(REMOVED).exists() else None
    if facts.get("removed_sha256") != (None if tombstones is None else hashlib.sha256(tombstones).hexdigest()):
        raise IncompleteError(f"--previous {url}: {REMOVED} is not what was released; privsieve verify {url} says more")
    rows = tombstones_of(tombstones, root.at(REMOVED).path) if tombstones is not None else []
    pictures = {row[name] for row in rows for name in ("sha256", "released_sha256")} - {None}
    return PreviousRelease(
        hashlib.sha256(content).hexdigest(),
        read_decisions(root, url).select(_RELEASED),
        _shards_before(root, url, facts),
        tombstones,
        frozenset(pictures),
        frozenset(row["url_sha256"] for row in rows) - {None},
        len(rows),
    )


def _facts(release: bytes, url: str) -> dict[str, Any]:
    try:
        facts = json.loads(release)
        if isinstance(facts["sha256"], dict) and not any(map(name_fault, facts["sha256"])):
            return dict(facts)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise PrivsieveError(f"--previous {url}: {RELEASE} is damaged, or was not written by filter")


def _shards_before(root: Place, url: str, facts: Mapping[str, Any]) -> ShardsBefore | None:
    if facts.get("made_from_sha256") is None or urls_of(root) is not None:
        return None
    file = root.at(MADE_FROM)
    if not file.exists() or sha256_of(file) != facts["made_from_sha256"]:
        raise IncompleteError(f"--previous {url}: {MADE_FROM} cannot be read; privsieve verify {url} says more")
    names = read_checked(file, ("made_from",))["made_from"].to_pylist()
    return ShardsBefore(root, facts["sha256"], {name: row for row, name in enumerate(names) if name})


def write_made_from(out: Place, written: Iterable[Written]) -> str:
    """Write `made_from.parquet`, and return its hash. written: of each shard."""
    rows = [(done.made_from, replace(done, taken_over="no").to_json()) for done in written if done.files]
    table = pa.table([list(column) for column in zip(*rows, strict=True)] or [[], []], schema=MADE_FROM_SCHEMA)
    return write_checked(out.at(MADE_FROM), table, SHARDS_PER_GROUP)


def write_rest_made_from(root: Place, staged: Place, gone: Sequence[str]) -> str:
    """Write `made_from.parquet` without the shards of these files, and return its hash."""
    table, names = read_checked(root.at(MADE_FROM)), frozenset(gone)
    stays = [names.isdisjoint(Written.from_json(text).files) for text in table["written"].to_pylist()]
    return write_checked(staged.at(MADE_FROM), table.filter(pa.array(stays, pa.bool_())), SHARDS_PER_GROUP)


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
