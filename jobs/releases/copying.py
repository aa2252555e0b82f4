"""One shard of a release: decide again, copy what is kept, and keep a record of both below `release.unfinished/`."""

import hashlib
import posixpath
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats import FORMATS, Source
from ingest.formats.members import name_fault
from ingest.formats.released import DECISIONS, DONE, OWN_NAMES, REDACTIONS, RewriteRecord, Written, changed
from ingest.formats.tree import ROOT
from ingest.sample import printable
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import Place, reason_of
from jobs.releases.decider import Decider
from jobs.releases.decisions import KeptHash, as_written, kept_of, kept_rows, redactions_of, row_chunks, unseen_in
from jobs.releases.files import DECISIONS_SCHEMA, sha256_of
from jobs.releases.plan import Counts, Share, counts_in
from jobs.releases.rewriting import ReviewedBoxes, Rewriter, rewritten_rows
from jobs.runtime.cluster import each_on_ray
from jobs.runtime.processes import TRIES, OnProgress, shared
from scoring.captions import masked
from scoring.policies.policy import Policy
from scoring.runs.footers import blocks_at

NOTHING = Written(0, {}, {}, {})


@dataclass(frozen=True)
class Copied:
    """What became of one shard."""

    number: int
    """Number of the share in the plan."""

    written: Written = NOTHING
    counts: Counts = field(default_factory=Counts)
    """After the copy."""

    changed: str = ""
    """Why the shard cannot be released; the other shards are copied all the same."""

    failure: str = ""
    """Why no shard can be written now."""


@dataclass(frozen=True)
class ShardCopier:
    """Copies shards, in this process or in the workers."""

    corpus: Source
    run: Place
    decider: Decider
    out: Place
    resume: bool
    """Whether files that an earlier filter copied are used again, if they are whole."""

    reviewed: ReviewedBoxes = field(default_factory=dict)

    copies_pictures: bool = True
    """False for a list of URLs, which holds none."""

    @property
    def policy(self) -> Policy:
        return self.decider.policy

    def outcome(self, task: tuple[int, Share]) -> Copied:
        """Copy the shard of this number. Errors become text: an exception that leaves a worker arrives without its
        message, or not at all."""
        number, share = task
        try:
            return self._copied(number, share)
        except IncompleteError as error:
            return Copied(number, changed=str(error))
        except PrivsieveError as error:
            return Copied(number, failure=str(error))

    def _copied(self, number: int, share: Share) -> Copied:
        decisions, unseen, rewrite = self._decided(share)
        written = replace(NOTHING, num_samples=share.num_kept)
        if self.copies_pictures and share.num_kept:
            written = self._released(share, decisions, rewrite)
        # The last check, since a picture that differs from the scanned one is a more precise reason. The time of the
        # shard does not count, since a corpus may have been restored from a copy.
        scanned = blocks_at(self.run, share.rows)
        now = self.corpus.blocks_sha256(share.shard) if scanned else ""
        if now and scanned != {now}:
            raise changed(share.shard, "its content was replaced")
        decisions = as_written(decisions, written, unseen)
        num_left, gone = kept_rows(decisions).num_rows, written.dropped.keys() | written.pictures.refused.keys()
        if written.num_samples != num_left or num_left + len(gone) != share.num_kept:
            raise IncompleteError(
                f"{printable(share.shard)}: {written.num_samples} samples written of {share.num_kept} that are kept; "
                "nothing is released"
            )
        write_checked(table_of(self.out, share, DECISIONS), decisions)
        if self.policy.redacts:
            write_checked(table_of(self.out, share, REDACTIONS), redactions_of(decisions, written.pictures.steps))
        # The decisions have these: no need to hold them for all shards.
        pictures = RewriteRecord(num_without_origin=written.pictures.num_without_origin)
        written = replace(written, dropped={}, pictures=pictures)
        return Copied(number, written, counts_in(decisions))

    def _decided(self, share: Share) -> tuple[pa.Table, dict[int, list[str]], Rewriter | None]:
        """Decide for a shard: the decisions, `unseen_in` of them, and what writes pictures again. IncompleteError if
        the decisions are not those that were counted."""
        tables, kept, unseen = [DECISIONS_SCHEMA.empty_table()], KeptHash(share.shard), dict[int, list[str]]()
        rewriters = dict[int, Mapping[str, Any]]()
        for rows in row_chunks(self.run, share.rows, self.decider.columns):
            tables.append(self.decider.decide(rows))
            kept.update(tables[-1])
            unseen |= unseen_in(rows, tables[-1])
            if self.policy.writes_again:
                rewriters |= rewritten_rows(rows, tables[-1], self.reviewed)
        if kept.hexdigest(share.is_whole) != share.kept_sha256:
            raise IncompleteError(
                f"{printable(share.shard)} was scanned again since the decisions were made; nothing is released"
            )
        rewrite = Rewriter(self.policy, self.decider.removed, rewriters) if self.policy.writes_again else None
        return pa.concat_tables(tables), unseen, rewrite

    def _released(self, share: Share, decisions: pa.Table, rewrite: Rewriter | None) -> Written:
        """Write what is kept of a shard, and a record of it. IncompleteError if the source has changed."""
        record = _file_of(self.out, share, ".json")
        if self.resume and (before := self._before(record)) is not None:
            return before
        kept = replace(
            kept_of(decisions, share.is_whole),
            rewrite=rewrite,
            members=self.policy.members,
            category=self.corpus.category,
            image_names=self.corpus.image_names,
            mask=masked if self.policy.texts == "masked" else None,
            origins=self.policy.origins,
            reserved=OWN_NAMES,
        )
        fault = None if share.shard == ROOT else name_fault(share.shard)
        try:
            written = (
                FORMATS[self.corpus.format].write(self.corpus.root, share.shard, kept, self.out)
                if fault is None
                else Written(0, {}, dict.fromkeys(kept.sha256, f"its shard has {fault}"), {})
            )
        except OSError as error:
            raise IncompleteError(f"{printable(share.shard)} cannot be copied: {reason_of(error)}") from None
        record.write(f"{written.to_json()}\n".encode())
        return written

    def _before(self, record: Place) -> Written | None:
        """Return what an earlier filter wrote of the shard, if every file is there and unchanged."""
        try:
            written = Written.from_json(record.read()) if record.exists() else None
        except ValueError:
            return None
        files = [(self.out.at(name), sha256) for name, sha256 in written.files.items()] if written else []
        return written if all(file.exists() and sha256_of(file) == sha256 for file, sha256 in files) else None


def table_of(out: Place, share: Share, name: str) -> Place:
    """Return the part of `decisions.parquet` or `redactions.parquet` about one shard, until all are joined."""
    return _file_of(out, share, f".{posixpath.basename(name)}")


def _file_of(out: Place, share: Share, ending: str) -> Place:
    return out.at(DONE, f"{hashlib.sha256(share.shard.encode('utf-8', 'surrogateescape')).hexdigest()}{ending}")


def copied_inline(
    copier: ShardCopier, shares: Sequence[Share], num_processes: int, further_after_s: float
) -> Generator[Copied, None, None]:
    """Yield copies as they are done. num_processes, further_after_s: as of `shared`."""
    sent = replace(copier, corpus=replace(copier.corpus, shards=()))  # names would take long to send
    return shared(
        partial(_copying, sent),
        enumerate(shares),
        num_processes=num_processes,
        further_after_s=further_after_s,
        given_up=_given_up,
        only_serves=copier.resume and num_processes > 1,  # a shard may have ended this process before
    )


def _copying(copier: ShardCopier, _: OnProgress) -> AbstractContextManager[Callable[[tuple[int, Share]], Copied]]:
    return nullcontext(copier.outcome)


def _given_up(task: tuple[int, Share]) -> Copied:
    killed = f"{printable(task[1].shard)}: each of {TRIES} processes that copied it died"
    cause = "by a picture that crashes its decoder, or for lack of memory, of which --processes 1 takes the least"
    return Copied(task[0], changed=f"{killed}, {cause}; nothing is released")


def copied_on_ray(copier: ShardCopier, shares: Sequence[Share]) -> Generator[Copied, None, None]:
    """Yield copies as they are done. Call this inside `jobs.runtime.cluster.ray_session`."""
    return each_on_ray(lambda number: copier.outcome((number, shares[number])), len(shares))
