"""The previous release: how a new one differs from it, and which of its shards the new one takes over.

A shard is taken over if it was made from the same bytes of the source, decisions and settings: `made_from.parquet` has
a hash of these. What was taken down from the previous release never comes back.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from shutil import copyfileobj
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats.released import CHANGES, MADE_FROM, RELEASE, RELEASE_LEASE, REMOVED, TAKEDOWN_JOURNAL, Written
from ingest.storage.parquet_tables import refuse_damage, write_checked
from ingest.storage.place import Place, place
from jobs.releases.decisions import read_decisions
from jobs.releases.record import BLOCK_BYTES, facts_of, sha256_of, urls_of
from jobs.releases.tombstones import tombstones_of
from scoring.policies.policy import HASH_LIST, NOT_COMPARED
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

SHARDS_PER_GROUP = 8
"""A shard that was written again has 150 bytes per picture here."""


@dataclass(frozen=True)
class ShardsBefore:
    """The shards of the previous release."""

    root: Place

    sha256: Mapping[str, str]
    """File -> its hash, as `release.json` says."""

    groups: Mapping[str, int]
    """What a shard was made from -> its row group in `made_from.parquet`."""

    def take_over(self, made_from: str, out: Place) -> Written | None:
        """Give the files of a shard to a new release. None if none was made from the same. If a file is not
        what was released, `Written.taken_over` says so, and the caller writes the shard."""
        written = self._written(made_from)
        if written is None:
            return None
        written = replace(written, taken_over="yes")
        for name, sha256 in written.files.items():
            if self.sha256.get(name) != sha256 or not _taken_over(self.root.at(name), out.at(name), sha256):
                return replace(written, taken_over="damaged")
        return written

    def _written(self, made_from: str) -> Written | None:
        group = self.groups.get(made_from)
        if group is None:
            return None
        file = self.root.at(MADE_FROM)
        with refuse_damage(file.path, "was changed meanwhile", IncompleteError), file.open() as stream:
            shards = pq.ParquetFile(stream, pre_buffer=False, page_checksum_verification=True)
            if group >= shards.num_row_groups:  # a takedown has written it again since
                return None
            rows = shards.read_row_group(group, use_threads=False)
            text = next((text for name, text in _shards_of(rows) if name == made_from), None)
            return None if text is None else Written.from_json(text)


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
    """The previous release."""

    root: Place

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

    def refuse_changed(self) -> None:
        """Raise IncompleteError if a command has changed the release since it was read, or is about to."""
        release = self.root.at(RELEASE)
        is_same = release.exists() and hashlib.sha256(release.read()).hexdigest() == self.sha256
        if not is_same or self.root.at(TAKEDOWN_JOURNAL).exists():
            raise IncompleteError(
                f"--previous {self.root.path} was changed meanwhile; nothing is released; filter again with --overwrite"
            )


@dataclass(frozen=True)
class Changes:
    """How many pictures differ from the previous release."""

    num_added: int
    num_removed: int
    num_changed: int
    """Same shard and key, other bytes."""

    sha256: str
    """Hash of `changes.parquet`."""


def previous_release(url: str | None, out: str) -> PreviousRelease | None:
    """Read the previous release. PrivsieveError if there is no such release, or if it would be overwritten."""
    if url is None:
        return None
    root = place(url)
    if root.is_same(place(out)):
        raise PrivsieveError(
            "--previous is --out; write the new release to another folder, so that both can be compared"
        )
    if root.is_within(place(out)) or place(out).is_within(root):
        raise PrivsieveError(
            f"--out {out} holds --previous {url}, or is inside of it; write the new release to a folder of its own"
        )
    if not root.at(RELEASE).exists():
        raise PrivsieveError(f"--previous {url} is no finished release: it has no {RELEASE}")
    if root.at(TAKEDOWN_JOURNAL).exists():
        raise PrivsieveError(f"--previous {url}: a takedown is unfinished; run the same takedown again")
    worker = holder(root.at(RELEASE_LEASE))
    if worker is not None and not worker.is_stale():
        raise PrivsieveError(f"--previous {url} is being worked on by {worker}; wait for it, or stop it")
    content = root.at(RELEASE).read()
    facts = facts_of(content, f"--previous {url}")
    tombstones = root.at(REMOVED).read() if root.at(REMOVED).exists() else None
    if facts.get("removed_sha256") != (None if tombstones is None else hashlib.sha256(tombstones).hexdigest()):
        raise IncompleteError(f"--previous {url}: {REMOVED} is not what was released; privsieve verify {url} says more")
    rows = tombstones_of(tombstones, root.at(REMOVED).path) if tombstones is not None else []
    pictures = {row[name] for row in rows for name in ("sha256", "released_sha256")} - {None}
    return PreviousRelease(
        root,
        hashlib.sha256(content).hexdigest(),
        read_decisions(root, url).select(_RELEASED),
        _shards_before(root, url, facts),
        tombstones,
        frozenset(pictures),
        frozenset(row["url_sha256"] for row in rows) - {None},
        len(rows),
    )


def _shards_before(root: Place, url: str, facts: Mapping[str, Any]) -> ShardsBefore | None:
    if facts.get("made_from_sha256") is None or urls_of(root) is not None:
        return None
    file = root.at(MADE_FROM)
    if not file.exists() or sha256_of(file) != facts["made_from_sha256"]:
        raise IncompleteError(f"--previous {url}: {MADE_FROM} cannot be read; privsieve verify {url} says more")
    groups = dict[str, int]()
    with refuse_damage(file.path, "is damaged", IncompleteError):
        for number, rows in enumerate(_row_groups(file, ["made_from"])):
            groups |= {name: number for name in rows["made_from"].to_pylist() if name}
    return ShardsBefore(root, facts["sha256"], groups)


def write_made_from(out: Place, written: Iterable[Written]) -> str:
    """Write `made_from.parquet`, and return its hash. written: of each shard; few are in memory at once."""
    rows = ((shard.made_from, replace(shard, taken_over="no").to_json()) for shard in written if shard.files)
    return _write_shards(out, rows)


def write_rest_made_from(root: Place, staged: Place, gone: Sequence[str], sha256: str) -> str | None:
    """Write `made_from.parquet` without the shards of these files, and return its hash. If it is damaged,
    write nothing and return None: it holds no picture, so a takedown goes on without it.

    sha256: its hash, as `release.json` says.
    """
    file, names = root.at(MADE_FROM), frozenset(gone)
    if sha256_of(file) != sha256:
        return None
    try:
        with refuse_damage(file.path, "is damaged", IncompleteError):
            rows = (row for group in _row_groups(file) for row in _shards_of(group))
            remaining = ((name, text) for name, text in rows if names.isdisjoint(Written.from_json(text).files))
            return _write_shards(staged, remaining)
    except IncompleteError:
        return None


def _row_groups(file: Place, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Yield the row groups of `made_from.parquet`. Damage is as in `read_table`."""
    with file.open() as stream:
        shards = pq.ParquetFile(stream, pre_buffer=False, page_checksum_verification=True)
        for number in range(shards.num_row_groups):
            yield shards.read_row_group(number, columns, use_threads=False)


def _shards_of(rows: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield what each shard was made from, and the JSON of its `Written`."""
    return zip(*(map(str, rows[name].to_pylist()) for name in MADE_FROM_SCHEMA.names), strict=True)


def _write_shards(out: Place, rows: Iterable[tuple[str, str]]) -> str:
    """Write `made_from.parquet`, and return its hash. rows: of `MADE_FROM_SCHEMA`."""
    with (
        out.at(MADE_FROM).create() as stream,
        pq.ParquetWriter(stream, MADE_FROM_SCHEMA, compression="zstd", write_page_checksum=True) as writer,
    ):
        waiting = iter(rows)
        while group := list(islice(waiting, SHARDS_PER_GROUP)):
            columns = [list(column) for column in zip(*group, strict=True)]
            writer.write_table(pa.table(columns, schema=MADE_FROM_SCHEMA))
    return stream.sha256


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
