"""One shard of a release: decide again, copy what is kept, and keep a record of both below `release.unfinished/`."""

import hashlib
import json
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import PIL
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import IncompleteError, PolicyError, PrivsieveError
from ingest.formats import FORMATS, Source
from ingest.formats.members import name_fault
from ingest.formats.released import DECISIONS, DONE, OWN_NAMES, REDACTIONS, RewriteRecord, Written, changed
from ingest.formats.tree import ROOT
from ingest.sample import printable
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import Place, reason_of
from jobs.releases.decisions import (
    DECISIONS_SCHEMA,
    KeptHash,
    ScoreThreshold,
    as_written,
    counted,
    decisions_of,
    kept_of,
    kept_rows,
    redactions_of,
    row_chunks,
    unseen_in,
)
from jobs.releases.plan import Share
from jobs.releases.previous import ShardsBefore
from jobs.releases.record import UrlCounts, sha256_of
from jobs.releases.rewriting import ReviewedBoxes, Rewriter, VerifyEngine, rewritten_rows
from jobs.releases.shift import COLUMNS, Shift
from jobs.runtime.on_worker import code_hash
from scoring.captions import masked
from scoring.engines.detectors.covering import examiner
from scoring.labels.reviews import ReviewedBox
from scoring.policies.policy import Policy
from scoring.runs.footers import blocks_at
from scoring.table import SCHEMA, Col
from scoring.taxonomy import KEYS

FLAGGED = (Col.LEVEL, Col.SCORE, *KEYS)
"""Columns of the row that flags are made of."""


def refuse_without_json(corpus: Source) -> None:
    """Raise PolicyError if the samples of a corpus have no JSON that a release writes."""
    if corpus.format != "webdataset":
        raise PolicyError(
            f"--flag-keys writes into the JSON of tars, and the source is {corpus.format}; decisions.parquet says the "
            "same by shard and key"
        )


def flags_of(rows: pa.Table, decisions: pa.Table) -> dict[int, dict[str, Any]]:
    """Return index -> flags of each row that is not dropped. rows: with `FLAGGED`, as many as decisions."""
    is_kept = pc.not_equal(decisions["action"], "drop")
    kept, judged = (table.filter(is_kept).to_pylist() for table in (decisions, rows.select(FLAGGED)))
    return {
        decision["index"]: {
            "action": decision["action"],
            "rule": decision["rule"],
            "level": row[Col.LEVEL],
            "score": None if row[Col.SCORE] is None else round(row[Col.SCORE], 6),
            "attributes": None if row[Col.SCORE] is None else [key for key in KEYS if row[key] == 1],
        }
        for decision, row in zip(kept, judged, strict=True)
    }


NOTHING = Written(0, {}, {}, {})


@dataclass(frozen=True)
class Copied:
    """What became of one shard."""

    number: int
    """Number of the share in the plan."""

    written: Written = NOTHING
    by_rule: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(action, rule) -> rows, after the copy."""

    num_unseen: int = 0
    """Released images that hold content that was not scanned."""

    unseen_kinds: Counter[str] = field(default_factory=Counter)
    """Kind of this content -> images."""

    shift: Shift = field(default_factory=Shift)
    """Categories and captions before and after."""

    changed: str = ""
    """Why the shard cannot be released; the other shards are copied all the same."""

    failure: str = ""
    """Why no shard can be written now."""


class _ShardDecisions(NamedTuple):
    """What was decided for one shard."""

    decisions: pa.Table
    unseen: dict[int, list[str]]
    rewrite: Rewriter | None
    facts: pa.Table
    """Columns of `jobs.releases.shift` of each row."""

    flags: dict[int, dict[str, Any]] | None


@dataclass(frozen=True)
class ShardCopier:
    """Copies shards, in this process or in the workers."""

    corpus: Source
    run: Place
    policy: Policy
    out: Place
    resume: bool
    """Whether files that an earlier filter copied are used again, if they are whole."""

    threshold: ScoreThreshold | None = None
    reviewed: ReviewedBoxes = field(default_factory=dict)
    verify: VerifyEngine | None = None

    flag_keys: bool = False
    """Whether the JSON of each released sample says what the policy decided."""

    urls: UrlCounts | None = None
    """If given, no pictures are copied: the release is a list of URLs."""

    before: ShardsBefore | None = None
    """Shards of the previous release; those made from the same source, decisions and settings are taken over."""

    def outcome(self, number: int, share: Share) -> Copied:
        """Copy a shard. Errors become text: an exception that leaves a worker of Ray arrives without its message."""
        try:
            return self._copied(number, share)
        except IncompleteError as error:
            return Copied(number, changed=str(error))
        except PrivsieveError as error:
            return Copied(number, failure=str(error))

    def _copied(self, number: int, share: Share) -> Copied:
        decided = self._decided(share)
        if self.urls is not None:
            written = Written(share.num_kept, {}, {}, {})
        else:
            written = self._released(share, decided) if share.num_kept else NOTHING
        self._refuse_replaced(share)
        flags_only = self.urls is not None and self.urls.flags_only
        decisions = as_written(decided.decisions, written, decided.unseen, flags_only)
        num_left = kept_rows(decisions).num_rows
        num_refused = len(written.dropped) + len(written.pictures.refused)
        if written.num_samples != num_left or num_left + num_refused != share.num_kept:
            raise IncompleteError(
                f"{printable(share.shard)}: {written.num_samples} samples written of {share.num_kept} that are kept; "
                "nothing is released"
            )
        tables = {DECISIONS: decisions}
        if self.policy.redacts and self.urls is None:
            tables[REDACTIONS] = redactions_of(decisions, written.pictures.steps)
        for name, table in tables.items():
            write_checked(table_of(self.out, share, name), table)
        gone = written.dropped.keys() | written.pictures.refused.keys()
        unseen = [kinds for index, kinds in decided.unseen.items() if index not in gone]
        shift = Shift()
        shift.add(decided.facts, decisions)
        # The decisions have these: no need to hold them for all shards.
        written = replace(written, dropped={}, pictures=RewriteRecord())
        kinds_of_images = Counter(kind for kinds in unseen for kind in kinds)
        return Copied(number, written, counted(decisions), len(unseen), kinds_of_images, shift)

    def _refuse_replaced(self, share: Share) -> None:
        """Raise IncompleteError if the shard's content is not what it was when it was scanned.

        Its time does not count, since a corpus may have been restored from a copy. This check is the last one, since a
        picture that differs from the scanned one is a more precise reason.
        """
        scanned = blocks_at(self.run, share.rows)
        now = self.corpus.blocks_sha256(share.shard) if scanned else ""
        if now and scanned != {now}:
            raise changed(share.shard, "its content was replaced")

    def _decided(self, share: Share) -> _ShardDecisions:
        """Decide for a shard. IncompleteError if the decisions are not those that were counted."""
        tables, kept, unseen = [DECISIONS_SCHEMA.empty_table()], KeptHash(share.shard), dict[int, list[str]]()
        rewriters, facts = dict[int, Mapping[str, Any]](), [SCHEMA.empty_table().select(COLUMNS)]
        flags = dict[int, dict[str, Any]]() if self.flag_keys else None
        more = frozenset([*COLUMNS, *(FLAGGED if self.flag_keys else ())])
        for rows in row_chunks(self.run, share.rows, self.policy, self.threshold, more=more):
            facts.append(rows.select(COLUMNS))
            tables.append(decisions_of(rows, self.policy, self.threshold))
            kept.update(tables[-1])
            unseen |= unseen_in(rows, tables[-1])
            if flags is not None:
                flags |= flags_of(rows, tables[-1])
            if self.policy.writes_again and self.urls is None:
                rewriters |= rewritten_rows(rows, tables[-1], self.reviewed)
        if kept.hexdigest(share.is_whole) != share.kept_sha256:
            raise IncompleteError(
                f"{printable(share.shard)} was scanned again since the decisions were made; nothing is released; "
                "filter again with --overwrite"
            )
        rewrite = (
            Rewriter(self.policy, rewriters, self.verify) if self.policy.writes_again and self.urls is None else None
        )
        return _ShardDecisions(pa.concat_tables(tables), unseen, rewrite, pa.concat_tables(facts), flags)

    def _released(self, share: Share, decided: _ShardDecisions) -> Written:
        """Write what is kept of a shard, and a record of it. IncompleteError if the source has changed."""
        record = _file_of(self.out, share, ".json")
        before = self._before(record) if self.resume else None
        if before is not None:
            return before
        made_from = self._made_from(share, decided)  # before a byte is read
        taken = self.before.take_over(made_from, self.out) if self.before is not None else None
        if taken is not None and taken.taken_over == "yes":
            written = taken
        else:
            written = replace(self._written_anew(share, decided), made_from=made_from)
        if taken is not None:
            written = replace(written, taken_over=taken.taken_over)
        record.write(f"{written.to_json()}\n".encode())
        return written

    def _made_from(self, share: Share, decided: _ShardDecisions) -> str:
        """Return the hash of everything that decides what the files of a shard hold; empty if the storage cannot say
        whether the bytes of the shard have changed."""
        mark = self.corpus.content_mark(share.shard)
        if not mark:
            return ""
        facts: list[Any] = [
            code_hash(),
            PIL.__version__,
            pa.__version__,
            self.corpus.format,
            self.corpus.category,
            self.corpus.image_names,
            share.shard,
            mark,
        ]
        facts += [share.kept_sha256, self.policy.members, self.policy.texts, decided.flags]
        if decided.rewrite is not None:
            examiners = [examiner().protocol] if self.policy.redacts else []
            examiners += [self.verify.shown, repr(self.verify.options)] if self.verify is not None else []
            facts += [self.policy.sha256, examiners, decided.rewrite.decisions]
        text = json.dumps(facts, default=ReviewedBox.model_dump)
        return hashlib.sha256(text.encode()).hexdigest()

    def _written_anew(self, share: Share, decided: _ShardDecisions) -> Written:
        fault = None if share.shard == ROOT else name_fault(share.shard)
        kept = replace(
            kept_of(decided.decisions, share.is_whole),
            rewrite=decided.rewrite,
            flags=decided.flags,
            members=self.policy.members,
            category=self.corpus.category,
            image_names=self.corpus.image_names,
            mask=masked if self.policy.texts == "masked" else None,
            reserved=OWN_NAMES,
        )
        if fault is not None:
            return Written(0, {}, dict.fromkeys(kept.sha256, f"its shard has {fault}"), {})
        try:
            return FORMATS[self.corpus.format].write(self.corpus.root, share.shard, kept, self.out)
        except OSError as error:
            raise IncompleteError(f"{printable(share.shard)} cannot be copied: {reason_of(error)}") from None

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
    return _file_of(out, share, ".parquet" if name == DECISIONS else f".{name}")


def _file_of(out: Place, share: Share, ending: str) -> Place:
    return out.at(DONE, f"{hashlib.sha256(share.shard.encode('utf-8', 'surrogateescape')).hexdigest()}{ending}")


def written_of(out: Place, share: Share) -> Written:
    """Return what was written of a shard, until the release is finished."""
    return Written.from_json(_file_of(out, share, ".json").read()) if share.num_kept else NOTHING


MAX_BLOCKS = 1000


def copied_on_ray(copier: ShardCopier, shares: Sequence[Share]) -> Iterator[Copied]:
    """Yield copies as they are done, with Ray Data. Call this inside `jobs.runtime.cluster.ray_session`."""
    import ray.data

    def copy(row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["number"])
        return {"copied": pickle.dumps(copier.outcome(number, shares[number]))}

    numbers = [{"number": n} for n in range(len(shares))]
    copies = ray.data.from_items(numbers, override_num_blocks=min(len(shares), MAX_BLOCKS)).map(copy)
    for row in copies.iter_rows():
        yield pickle.loads(row["copied"])
