"""The end of a release: the decisions for all shards in one file, the checksums, then `release.json`."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import IncompleteError
from ingest.formats.released import (
    DECISIONS,
    DONE,
    REDACTIONS,
    RELEASE,
    REMOVED,
    SIGNATURE,
    UNFINISHED,
    Written,
)
from ingest.sample import printable
from ingest.storage.parquet_tables import in_row_groups
from ingest.storage.place import Place
from ingest.storage.removal import remove_tree
from jobs.releases.copying import table_of, written_of
from jobs.releases.decisions import DECISIONS_SCHEMA, REDACTIONS_SCHEMA
from jobs.releases.documents import write_documents
from jobs.releases.plan import Counts, Plan, Share
from jobs.releases.previous import Changes, PreviousRelease, write_changes, write_made_from
from jobs.releases.record import ReleaseRecord, write_sums
from jobs.releases.refusals import scope
from jobs.releases.shift import Shift
from scoring.runs.record import RunRecord

MAX_KINDS = 100
"""Limit on the kinds of members and columns that are counted one by one."""

ROWS_PER_GROUP = 131_072
READ_AT_ONCE = 16
"""Files about one shard each. An object store takes its time for each file."""


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
    changes, of_previous = None, dict[str, Any]()
    if previous is not None:
        changes = write_changes(out, out.path, previous)
        of_previous = _facts_of_previous(previous, changes, written, is_list=identity.urls is not None)
        if previous.tombstones is not None:
            out.at(REMOVED).write(previous.tombstones)
    made_from_sha256 = None
    if identity.urls is None:
        made_from_sha256 = write_made_from(out, _at_once(plan.shares, lambda share: written_of(out, share)))
    summary = {
        "scope": scope(record, plan),
        "damaged_shards": {"num_shards": plan.damage.num_shards, "parts": dict(plan.damage.parts)},
        "made_up": record.made_up,
        "num_images": counts.num_images,
        **counts.as_json(is_clean=identity.files == "clean"),
        "num_unseen_not_recorded": plan.num_older,
        "members_left_out": left_out(written),
        "shift": shift.as_json(),
        "num_texts_masked": sum(done.num_masked for done in written),
        "decisions_sha256": decisions_sha256,
        "redactions_sha256": redactions_sha256,
        **of_previous,
        "made_from_sha256": made_from_sha256,
        "format": record.format,
        **({"image_columns": record.image_columns} if record.image_columns else {}),
        "engine": {name: record.engine[name] for name in ("name", "protocol", "assessed")},
    }
    hashes = {name: sha256 for done in written for name, sha256 in done.files.items()}
    facts = identity.model_dump() | summary | {"sha256": dict(sorted(hashes.items()))}
    facts["documents"] = write_documents(out, facts)
    content = as_json(facts)
    if sign_key is None:
        out.at(SIGNATURE).remove()  # that of an interrupted filter
    write_sums(out, content, sign_key)
    if previous is not None:
        previous.refuse_changed()
    out.at(RELEASE).write(content)
    remove_tree(out.at(DONE))
    out.at(UNFINISHED).remove()
    return changes


def _facts_of_previous(
    previous: PreviousRelease, changes: Changes, written: Sequence[Written], is_list: bool
) -> dict[str, Any]:
    counts = {"num_added": changes.num_added, "num_removed": changes.num_removed, "num_changed": changes.num_changed}
    facts: dict[str, Any] = {"changes": counts, "changes_sha256": changes.sha256}
    if previous.shards is not None and not is_list:
        facts["taken_over"] = taken_over(written)
    if previous.tombstones is not None:
        facts["removed_sha256"] = hashlib.sha256(previous.tombstones).hexdigest()
        facts["num_removed_before"] = previous.num_removed
    return facts


def taken_over(written: Iterable[Written]) -> dict[str, int]:
    """Count the shards that are those of the release before, those that are written, and how many of these should have
    been taken over and were damaged."""
    counts = Counter(done.taken_over for done in written if done.files)
    num_written = counts["no"] + counts["damaged"]
    return {"num_shards": counts["yes"], "num_written": num_written, "num_damaged": counts["damaged"]}


def join_decisions(out: Place, shares: Sequence[Share], num_counted: int) -> str:
    """Write `decisions.parquet` from the files of the shards, in their order, and return its hash."""
    return _joined(out, shares, DECISIONS, DECISIONS_SCHEMA, num_counted)


def _joined(out: Place, shares: Sequence[Share], name: str, schema: pa.Schema, num_counted: int | None = None) -> str:
    """Join the tables of the shards and return the hash of the file. Few rows are in memory at once.

    num_counted: rows that there must be, as many as were planned; else IncompleteError, and there is no file.
    """
    num_rows = 0
    with (
        out.at(name).create() as stream,
        pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        parts = _at_once(shares, lambda share: _part(out, share, name, schema))
        for group in in_row_groups(parts, ROWS_PER_GROUP):
            writer.write_table(group, ROWS_PER_GROUP)
            num_rows += group.num_rows
        num_planned = sum(share.num_rows for share in shares)
        if num_counted is not None and not num_planned == num_rows == num_counted:
            raise IncompleteError(
                f"{num_rows} decisions written and {num_counted} counted of {num_planned} rows; nothing is released; "
                "filter again with --overwrite"
            )
    return stream.sha256


Read = TypeVar("Read")


def _at_once(shares: Sequence[Share], read: Callable[[Share], Read]) -> Iterator[Read]:
    """Read the file of each shard, in order, several at once."""
    left = iter(shares)
    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        while window := list(islice(left, READ_AT_ONCE)):
            yield from threads.map(read, window)


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
