"""The end of a release: the decisions for all shards in one file, the checksums, then `release.json`."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import IncompleteError
from ingest.formats.released import (
    CHANGES,
    DECISIONS,
    DONE,
    REDACTIONS,
    RELEASE,
    SHA256SUMS,
    SOURCE,
    UNFINISHED,
    Written,
)
from ingest.sample import printable
from ingest.storage.parquet_tables import in_row_groups, read_checked
from ingest.storage.place import Place
from ingest.storage.removal import remove_tree
from jobs.releases.card import write_card
from jobs.releases.copying import table_of
from jobs.releases.croissant import write_croissant
from jobs.releases.files import SCHEMAS, as_json, sums
from jobs.releases.plan import Counts, Plan, Share, scope
from jobs.releases.previous import PreviousRelease, write_changes
from jobs.releases.record import DamagedShards, EngineFacts, ReleaseIdentity, ReleaseRecord
from scoring.runs.record import RunRecord
from scoring.table import presence_only

MAX_KINDS = 100
"""Limit on the kinds of members and columns that are counted one by one."""

ROWS_PER_GROUP = 131_072
READ_AT_ONCE = 16
"""Files about one shard each. An object store takes its time for each file."""


def finish(
    out: Place,
    identity: ReleaseIdentity,
    record: RunRecord,
    plan: Plan,
    counts: Counts,
    written: Sequence[Written],
    previous: PreviousRelease | None,
) -> ReleaseRecord:
    """Finish a release, and return what `release.json` says. IncompleteError if the counts do not add up."""
    own_sha256 = {DECISIONS: joined(out, plan.shares, DECISIONS, counts.num_images + counts.num_damaged_parts)}
    if identity.second_look is not None:
        own_sha256[REDACTIONS] = joined(out, plan.shares, REDACTIONS)
    changes = None
    if previous is not None:
        changes, own_sha256[CHANGES] = write_changes(out, out.path, previous)
        for name, content in previous.tombstones.items():
            out.at(name).write(content)
            own_sha256[name] = hashlib.sha256(content).hexdigest()
    out.at(SOURCE).write(as_json({"source": record.source}))
    hashes = {name: sha256 for done in written for name, sha256 in done.files.items()}
    release = ReleaseRecord(
        **identity.model_dump(),
        scope=scope(record, plan),
        damaged_shards=DamagedShards(num_shards=plan.damage.num_shards, parts=dict(plan.damage.parts)),
        made_up=record.made_up,
        num_images=counts.num_images,
        **counts.as_json(is_clean=identity.files == "clean"),
        members_left_out=left_out(written),
        num_without_origin=sum(done.pictures.num_without_origin for done in written),
        num_texts_masked=sum(done.num_masked for done in written),
        changes=changes,
        num_removed_before=0 if previous is None else len(previous.rows),
        source_format=record.source_format,
        image_columns=list(record.image_columns),
        engine=EngineFacts(
            name=record.engine["name"],
            protocol=record.engine["protocol"],
            assessed=record.engine["assessed"],
            only_affirmed=list(presence_only(record.engine)),
        ),
        takedowns=[],
        sha256=dict(sorted(hashes.items())),
        own_sha256=own_sha256,
    )
    release, content, _ = write_descriptions(out, release)
    if previous is not None:
        previous.refuse_changed()
    out.at(RELEASE).write(content)
    remove_tree(out.at(DONE))
    out.at(UNFINISHED).remove()
    return release


def write_descriptions(out: Place, release: ReleaseRecord) -> tuple[ReleaseRecord, bytes, dict[str, str]]:
    """Write what follows from the record: the card, `croissant.json` and `SHA256SUMS`. Return the record with their
    hashes, the content of `release.json`, which is to be written last, and each written file -> its hash."""
    written = write_card(out, release) | write_croissant(out, release)
    release = release.changed(own_sha256=dict(sorted((release.own_sha256 | written).items())))
    content = as_json(release)
    listed = sums(release, content)
    out.at(SHA256SUMS).write(listed)
    return release, content, written | {SHA256SUMS: hashlib.sha256(listed).hexdigest()}


def joined(out: Place, shares: Sequence[Share], name: str, num_counted: int | None = None) -> str:
    """Join the tables of the shards, in their order, and return the hash of the file. Few rows are in memory at once.
    num_counted: rows that there must be, as many as were planned; else IncompleteError, and there is no file."""
    num_rows, schema = 0, SCHEMAS[name]
    with (
        out.at(name).create() as stream,
        pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for group in in_row_groups(_parts(out, shares, name), ROWS_PER_GROUP):
            writer.write_table(group, ROWS_PER_GROUP)
            num_rows += group.num_rows
        num_planned = sum(share.num_rows for share in shares)
        if num_counted is not None and not num_planned == num_rows == num_counted:
            raise IncompleteError(
                f"{num_rows} decisions written and {num_counted} counted of {num_planned} rows; nothing is released"
            )
    return stream.sha256


def _parts(out: Place, shares: Sequence[Share], name: str) -> Iterator[pa.Table]:
    """Read the table of each shard, in order, several at once."""

    def read(share: Share) -> pa.Table:
        try:
            return read_checked(table_of(out, share, name)).cast(SCHEMAS[name])
        except (pa.ArrowException, FileNotFoundError, ValueError):
            raise IncompleteError(
                f"the decisions for {printable(share.shard)} are damaged or gone from {out.at(DONE).path}; "
                "nothing is released"
            ) from None

    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        for first in range(0, len(shares), READ_AT_ONCE):
            yield from threads.map(read, shares[first : first + READ_AT_ONCE])


def left_out(written: Iterable[Written]) -> dict[str, int]:
    """Return kind of file or column that was next to the images and not copied -> how many, the most frequent first.
    Rare kinds are added up."""
    counts = Counter[str]()
    for done in written:
        counts.update(done.left_out)
    kinds = dict(counts.most_common(MAX_KINDS))
    others = counts.total() - sum(kinds.values())
    return kinds | ({"(other)": kinds.get("(other)", 0) + others} if others else {})
